"""Loads the scores files of a report, joins them with a release, and chooses protocols.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.files import load_python, safe_file_name
from unknown_detection.evaluation.protocols import robustness
from unknown_detection.evaluation.protocols.registry import PROTOCOLS, default_protocol, register
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, ModelRun
from unknown_detection.evaluation.protocols.robustness import robust_variants
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.scoring.joining import (
    FIT_AND_TUNE_SPLITS,
    ReleaseIndex,
    fit_half_ids,
    join_scores,
    release_index,
    rows_of,
)
from unknown_detection.evaluation.scoring.rows import Rows
from unknown_detection.evaluation.scoring.scores import IN_MEMORY, Provenance, file_seed, read_scores
from unknown_detection.evaluation.scoring.times import read_times
from unknown_detection.terminal.progress import Progress

_PACKAGES = ("numpy", "pyarrow", "scipy")
"""Packages whose version may affect figures."""

_CONFIDENT = ("msp", "temperature", "deep_ensemble")
"""Detectors of `evaluate score` whose score is one minus the probability of the predicted class."""


@dataclass(frozen=True)
class ScoresFile:
    """Scores, and their training method.

    Attributes:
        path: their file; for scores in memory a name alone.
        variant: the training method; None uses the model's name.
        table: scores in memory, as for `read_scores`; None for a file.
    """

    path: Path
    variant: str | None = None
    table: Any = None

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file, or of what a file of the scores in memory would hold."""
        if self.table is None:
            return hashlib.sha256(self.path.read_bytes()).hexdigest()
        written = io.BytesIO()
        pq.write_table(read_scores(self.table)[0], written)
        return hashlib.sha256(written.getvalue()).hexdigest()


@dataclass(frozen=True)
class ScoredRun:
    """A scores file, joined with the rows of a release.

    Attributes:
        run: the run that it describes.
        configs: the configs of its rows.
        rows: rows with scores, by detector.
        index: what the release says of these rows.
        used: the rows that each detector was fitted and tuned on, and that a threshold may be chosen on, in words.
        times: forward passes that each detector takes as long as, and 1 for `forward`; empty if not measured.
    """

    run: ModelRun
    configs: tuple[str, ...]
    rows: Mapping[str, Rows]
    index: ReleaseIndex
    used: Mapping[str, Mapping[str, str]]
    times: Mapping[str, float] = field(default_factory=dict)

    def of_configs(self, rows: Rows, configs: Sequence[str]) -> Rows:
        """Select the rows of some configs, and drop what the release does not say of these configs' rows."""
        found = rows.where(np.isin(rows.config, list(configs)))
        return found if self.index.overlaps & set(configs) else replace(found, overlap=None)

    def any_rows(self, configs: Sequence[str]) -> Rows:
        """Select the rows of some configs, of the first detector: all have scores of the same splits to evaluate."""
        return self.of_configs(next(iter(self.rows.values())), configs)


def scores_files(given: Any) -> list[ScoresFile]:
    """Return one or several scores as a list: `FILE`, `VARIANT=FILE` if no file has this name, or those in memory."""
    every = list(given) if isinstance(given, list | tuple) else [given]
    files = []
    for number, one in enumerate(every, start=1):
        if not isinstance(one, str | Path):
            files.append(ScoresFile(Path(IN_MEMORY if len(every) == 1 else f"{IN_MEMORY}-{number}"), None, one))
            continue
        variant, equals, path = str(one).partition("=")
        files.append(ScoresFile(Path(path), variant) if equals and not Path(one).exists() else ScoresFile(Path(one)))
    return files


def parse_splits(given: str | Iterable[str] | None) -> dict[str, set[str]]:
    """Parse `CONFIG[/SPLIT],...`, or several such texts, to splits by config; one without splits stands for all."""
    text = given if isinstance(given, str) else ",".join(given or ())
    names = [name for part in text.split(",") if (name := part.strip())]
    found: dict[str, set[str]] = {}
    for name in names:
        config, _, split = name.partition("/")
        found.setdefault(config, set()).update([split] if split else [])
    return {config: set() if config in names else splits for config, splits in found.items()}


def join_runs(
    files: Sequence[ScoresFile], release: Release, splits: Mapping[str, set[str]], progress: Progress
) -> list[ScoredRun]:
    """Read scores files and join them with the rows of a release.

    Rows of other splits than those to evaluate (`parse_splits`) are not read. Their configs are those of files that do
    not state theirs; without any, that is the release's only config with rows to evaluate.
    """
    names = [file.path.stem for file in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EvaluationError(
            f"Several scores files have the name {twice[0]}; rename them, since runs are named after their files."
        )
    indexes: dict[tuple[str, ...], ReleaseIndex] = {}
    scored = []
    for file in files:
        scores, provenance = read_scores(file.path if file.table is None else file.table, release=release)
        of = provenance.configs if provenance else tuple(splits) or _only_config(release)
        if of not in indexes:
            indexes[of] = release_index(release, of)
        index, scores = _chosen(indexes[of], scores, splits)
        fitted_on = fit_half_ids(release, provenance.fit_half if provenance else "")
        joined = join_scores(
            index.table, scores, label_names=index.label_names, where=str(file.path), fitted_on=fitted_on
        )
        rows = {detector: rows_of(index, found) for detector, found in joined.items()}
        if provenance is not None:
            rows = {name: _with_confidence(name, found) for name, found in rows.items()}
        used = provenance.rows if provenance else {}
        times = read_times(file.path) if file.table is None else {}
        scored.append(ScoredRun(_run(file, provenance), of, rows, index, used, times))
        progress(1)
    _check_variants([one.run.variant for one in scored])
    return scored


def choose_protocols(
    asked: Sequence[str], scored: Sequence[ScoredRun], configs: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Choose the configs that each protocol evaluates.

    Args:
        asked: names of protocols, or `FILE.py:NAME` for one of the user's own, each perhaps with `=CONFIG,CONFIG`;
            empty for the default protocol of each config, and the optimizer paper's if there are several training
            methods.
        scored: the loaded scores files.
        configs: the configs to evaluate; empty for all with scores.
    """
    here = tuple(dict.fromkeys(config for one in scored for config in one.configs))
    chosen = tuple(configs) or here
    require_known("config with scores", configs, here)
    robust = len(robust_variants([one.run for one in scored])) > 1
    usual = [f"{default_protocol(config)}={config}" for config in chosen] + [robustness.NAME] * robust
    wanted: dict[str, tuple[str, ...]] = {}
    for text in asked or usual:
        name, equals, of = text.partition("=")
        name = register(load_python(name, "protocol")[0]).name if ".py:" in name else name
        named = tuple(of.split(",")) if equals else chosen
        require_known("config with scores", named, chosen)
        require_known("protocol", [name], PROTOCOLS)
        wanted[name] = (*wanted.get(name, ()), *named)
    if robustness.NAME in wanted and not robust:
        raise EvaluationError(
            f"{robustness.NAME} needs two or more models for each of two or more training methods, but there are "
            "fewer. Name each file's method as --scores NAME=FILE, or leave the protocol out."
        )
    if list(wanted) == [robustness.NAME]:
        raise EvaluationError(
            f"{robustness.NAME} compares the figures of another protocol, but none was chosen. Add --protocol "
            f"{default_protocol(chosen[0])}."
        )
    return wanted


def _chosen(index: ReleaseIndex, scores: pa.Table, splits: Mapping[str, set[str]]) -> tuple[ReleaseIndex, pa.Table]:
    """Leave out the rows of splits that are not to be evaluated, and their scores; splits for tuning stay."""
    rows = index.rows
    for config, names in splits.items():
        here = np.unique(rows.split[rows.config == config]).tolist()
        require_known(f"split of {config}", sorted(names) if here else (), here)
    limited = {config: names for config, names in splits.items() if names}
    if not limited:
        return index, scores
    keep = np.ones(len(rows), dtype=np.bool_)
    for config, names in limited.items():
        keep &= (rows.config != config) | np.isin(rows.split, [*names, *FIT_AND_TUNE_SPLITS])
    table = index.table.filter(pa.array(keep))
    dropped = pc.and_(
        pc.is_in(scores["id"], value_set=index.table["id"].combine_chunks()),
        pc.invert(pc.is_in(scores["id"], value_set=table["id"].combine_chunks())),
    )
    return replace(index, table=table, rows=rows.where(keep)), scores.filter(pc.invert(dropped))


def _with_confidence(detector: str, rows: Rows) -> Rows:
    if detector not in _CONFIDENT or rows.confidence is not None or rows.prediction is None:
        return rows
    confidence = 1 - rows.score
    return replace(rows, confidence=confidence) if ((confidence >= 0) & (confidence <= 1)).all() else rows


def _check_variants(variants: Sequence[str]) -> None:
    named: dict[str, str] = {}
    for variant in variants:
        other = named.setdefault(safe_file_name(variant), variant)
        if other != variant or variant == ALL_VARIANTS:
            raise EvaluationError(
                f"The training methods {other!r} and {variant!r} give the same file name. Choose names that differ in "
                "letters or digits, as --scores NAME=FILE."
            )


def _only_config(release: Release) -> tuple[str, ...]:
    """Return the release's only config with rows to evaluate."""
    found = tuple(config for config in release.configs if set(release.splits(config)) - set(FIT_AND_TUNE_SPLITS))
    if len(found) != 1:
        raise EvaluationError(
            f"{release.name} does not have exactly one config to evaluate (found: {', '.join(found) or 'none'}). Name "
            "the configs of the scores with --splits."
        )
    return found


def _run(file: ScoresFile, provenance: Provenance | None) -> ModelRun:
    ours = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}
    if provenance is None:
        return ModelRun(file.path.stem, file.variant or "", file_seed(file.path)[1], "", "", {}, {"judged": ours})
    # A model file is recorded without its folder, which may differ between machines.
    model = re.sub(r"[^ ]*/(?=[^/ ]+\.py:)", "", provenance.model)
    kind, _, name = provenance.model.partition(":")
    published = provenance.source.get("file", "") if kind == "torchvision" else name
    return ModelRun(
        name=file.path.stem,
        variant=model if file.variant is None else file.variant,
        seed=provenance.seed,
        model=model,
        model_digest=provenance.model_digest,
        hyperparameters=provenance.hyperparameters,
        versions={"judged": ours, "scored": provenance.versions},
        prepared=provenance.prepared,
        fit_half=provenance.fit_half,
        accepted=provenance.source.get("accepted", ""),
        weights=published if "address" in provenance.source else "",
    )
