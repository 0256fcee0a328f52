"""Reads the scores files of a report, joins them with a release, and chooses protocols.

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
    ids_fitted_on,
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
    """Scores in a file or in memory, and their training method.

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
        """SHA-256 of the file, or of the file that `pq.write_table` makes of scores in memory."""
        if self.table is None:
            return hashlib.sha256(self.path.read_bytes()).hexdigest()
        written = io.BytesIO()
        pq.write_table(read_scores(self.table)[0], written)
        return hashlib.sha256(written.getvalue()).hexdigest()


@dataclass(frozen=True)
class ScoredRun:
    """A scores file, joined with the rows of a release.

    Attributes:
        origin: what is known of the run.
        configs: the configs of its rows.
        rows: rows with scores, by detector.
        index: what the release says of these rows.
        used: the rows that each detector was fitted and tuned on, and that a threshold may be chosen on, in words.
        times: forward passes that each detector takes as long as, and 1 for `forward`; empty if not measured.
    """

    origin: ModelRun
    configs: tuple[str, ...]
    rows: Mapping[str, Rows]
    index: ReleaseIndex
    used: Mapping[str, Mapping[str, str]]
    times: Mapping[str, float] = field(default_factory=dict)

    def of_configs(self, rows: Rows, configs: Sequence[str]) -> Rows:
        """Select the rows of some configs; without overlaps, unless the release states those of one of them."""
        selected = rows.where(np.isin(rows.config, list(configs)))
        return selected if self.index.overlaps & set(configs) else replace(selected, overlap=None)

    def any_rows(self, configs: Sequence[str]) -> Rows:
        """Select the rows of some configs, of the first detector; all have scores of the same splits."""
        return self.of_configs(next(iter(self.rows.values())), configs)


def scores_files(scores: Any) -> list[ScoresFile]:
    """Return one or several scores as a list: `FILE`, `VARIANT=FILE` if no file has this name, or those in memory."""
    sources = list(scores) if isinstance(scores, list | tuple) else [scores]
    files = []
    for number, source in enumerate(sources, start=1):
        if not isinstance(source, str | Path):
            files.append(ScoresFile(Path(IN_MEMORY if len(sources) == 1 else f"{IN_MEMORY}-{number}"), None, source))
            continue
        variant, equals, path = str(source).partition("=")
        has_variant = equals and not Path(source).exists()
        files.append(ScoresFile(Path(path), variant) if has_variant else ScoresFile(Path(source)))
    return files


def parse_splits(requested: str | Iterable[str] | None) -> dict[str, set[str]]:
    """Parse `CONFIG[/SPLIT],...`, or several such texts, to splits by config; one without splits stands for all."""
    text = requested if isinstance(requested, str) else ",".join(requested or ())
    names = [name for part in text.split(",") if (name := part.strip())]
    by_config: dict[str, set[str]] = {}
    for name in names:
        config, _, split = name.partition("/")
        by_config.setdefault(config, set()).update([split] if split else [])
    return {config: set() if config in names else splits for config, splits in by_config.items()}


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
        configs = provenance.configs if provenance else tuple(splits) or _only_config(release)
        if configs not in indexes:
            indexes[configs] = release_index(release, configs)
        index, scores = _chosen(indexes[configs], scores, splits)
        fitted_on = ids_fitted_on(release, provenance.fit_half if provenance else "")
        joined = join_scores(
            index.table, scores, label_names=index.label_names, where=str(file.path), fitted_on=fitted_on
        )
        rows = {detector: rows_of(index, detector_rows) for detector, detector_rows in joined.items()}
        if provenance is not None:
            rows = {name: _with_confidence(name, detector_rows) for name, detector_rows in rows.items()}
        used = provenance.rows if provenance else {}
        times = read_times(file.path) if file.table is None else {}
        scored.append(ScoredRun(_run(file, provenance), configs, rows, index, used, times))
        progress(1)
    _check_variants([run.origin.variant for run in scored])
    return scored


def choose_protocols(
    requested: Sequence[str], scored: Sequence[ScoredRun], configs: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Choose the configs that each protocol evaluates.

    Args:
        requested: names of protocols, or `FILE.py:NAME` for one of the user's own, each perhaps with `=CONFIG,CONFIG`;
            empty for the default protocol of each config, and the optimizer paper's if there are several training
            methods.
        scored: the loaded scores files.
        configs: the configs to evaluate; empty for all with scores.
    """
    scored_configs = tuple(dict.fromkeys(config for run in scored for config in run.configs))
    chosen = tuple(configs) or scored_configs
    require_known("config with scores", configs, scored_configs)
    robust = len(robust_variants([run.origin for run in scored])) > 1
    usual = [f"{default_protocol(config)}={config}" for config in chosen] + [robustness.NAME] * robust
    plan: dict[str, tuple[str, ...]] = {}
    for text in requested or usual:
        name, equals, of = text.partition("=")
        name = register(load_python(name, "protocol")[0]).name if ".py:" in name else name
        named = tuple(of.split(",")) if equals else chosen
        require_known("config with scores", named, chosen)
        require_known("protocol", [name], PROTOCOLS)
        plan[name] = (*plan.get(name, ()), *named)
    if robustness.NAME in plan and not robust:
        raise EvaluationError(
            f"{robustness.NAME} needs two or more models for each of two or more training methods, but there are "
            "fewer. Name each file's method as --scores NAME=FILE, or leave the protocol out."
        )
    if list(plan) == [robustness.NAME]:
        raise EvaluationError(
            f"{robustness.NAME} compares the figures of another protocol, but none was chosen. Add --protocol "
            f"{default_protocol(chosen[0])}."
        )
    return plan


def _chosen(index: ReleaseIndex, scores: pa.Table, splits: Mapping[str, set[str]]) -> tuple[ReleaseIndex, pa.Table]:
    """Drop rows of splits that are not to be evaluated, and their scores; splits for fitting and tuning stay."""
    rows = index.rows
    for config, names in splits.items():
        present = np.unique(rows.split[rows.config == config]).tolist()
        require_known(f"split of {config}", sorted(names) if present else (), present)
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
    configs = tuple(config for config in release.configs if set(release.splits(config)) - set(FIT_AND_TUNE_SPLITS))
    if len(configs) != 1:
        raise EvaluationError(
            f"{release.name} does not have exactly one config to evaluate (found: {', '.join(configs) or 'none'}). "
            "Name the configs of the scores with --splits."
        )
    return configs


def _run(file: ScoresFile, provenance: Provenance | None) -> ModelRun:
    packages = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}
    if provenance is None:
        return ModelRun(file.path.stem, file.variant or "", file_seed(file.path)[1], "", "", {}, {"judged": packages})
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
        versions={"judged": packages, "scored": provenance.versions},
        prepared=provenance.prepared,
        fit_half=provenance.fit_half,
        accepted=provenance.source.get("accepted", ""),
        weights=published if "address" in provenance.source else "",
    )
