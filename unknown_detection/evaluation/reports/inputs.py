"""Reads the scores of a report, joins them with a release, and chooses protocols.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.files import load_python, safe_file_name
from unknown_detection.evaluation.protocols import PROTOCOLS, Protocol, default_protocol, register, robustness
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS
from unknown_detection.evaluation.releases import Key, Release, choose_splits
from unknown_detection.evaluation.scoring.joining import (
    FIT_AND_TUNE_SPLITS,
    ReleaseIndex,
    ids_fitted_on,
    join_scores,
    release_index,
)
from unknown_detection.evaluation.scoring.rows import Rows
from unknown_detection.evaluation.scoring.scores import IN_MEMORY, Provenance, file_seed, read_scores
from unknown_detection.evaluation.scoring.times import read_times
from unknown_detection.terminal.progress import bar

_VERSIONS = {"python": platform.python_version()} | {name: version(name) for name in ("numpy", "pyarrow", "scipy")}
"""The versions of what may affect figures."""

_CONFIDENT = ("msp", "temperature", "deep_ensemble")
"""Detectors of `evaluate score` whose score is one minus the probability of the predicted class."""


@dataclass(frozen=True)
class ScoredRun:
    """Scores of a model's detectors, in a file or in memory, joined with the rows of a release.

    Attributes:
        path: their file; for scores in memory a name alone.
        variant: the training method, by default the model; empty if neither is known.
        about: what the scores say of themselves; the seed of a file that says nothing is in its name.
        index: what the release says of the rows.
        rows: rows with scores, by detector.
        sha256: that of the file; empty in memory.
        times: forward passes that each detector takes as long as, and 1 for `forward`; empty if not measured.
    """

    path: Path
    variant: str
    about: Provenance
    index: ReleaseIndex
    rows: Mapping[str, Rows]
    sha256: str
    times: Mapping[str, float]

    @property
    def name(self) -> str:
        """The file's stem."""
        return self.path.stem

    @property
    def weights(self) -> str:
        """The published weights, by the name of torchvision's file or of timm's model; empty for others."""
        source, (kind, _, name) = self.about.source, self.about.model.partition(":")
        return (source.get("file", "") if kind == "torchvision" else name) if "address" in source else ""

    def columns(self, detector: str, **release: str) -> dict[str, Any]:
        """Return what `results.COLUMNS` say of a detector's figures."""
        about = self.about
        versions = {"judged": _VERSIONS, **({"scored": about.versions} if about.versions else {})}
        return {
            **release,
            **{"model": about.model, "model_digest": about.model_digest, "seed": about.seed},
            **{"variant": self.variant, "run": self.name, "detector": detector},
            "hyperparameters": json.dumps(about.hyperparameters.get(detector, {}), sort_keys=True),
            "prepared": json.dumps(about.prepared, sort_keys=True),
            "versions": json.dumps(versions, sort_keys=True),
        }

    def of_configs(self, rows: Rows, configs: Sequence[str]) -> Rows:
        """Select the rows of some configs; without overlaps, unless the release states those of one of them."""
        selected = rows.where(np.isin(rows.config, list(configs)))
        return selected if self.index.overlaps & set(configs) else replace(selected, overlap=None)

    def any_rows(self, configs: Sequence[str]) -> Rows:
        """Select the rows of some configs, of the first detector; all have scores of the same splits."""
        return self.of_configs(next(iter(self.rows.values())), configs)


def join_runs(
    scores: Any, release: Release, splits: str | Iterable[str | Key] | None, *, quiet: bool = True
) -> tuple[list[ScoredRun], tuple[str, ...]]:
    """Read one or several scores and join them with the rows of a release.

    Scores are `FILE`, `VARIANT=FILE` if no file has this name, or those in memory. Rows of other splits than those to
    evaluate (`choose_splits`) are not read; without any, those are evaluated that the scores state. Their configs,
    which are returned, too, are those of scores that do not state theirs; without any, that is the release's only
    config with rows to evaluate.
    """
    available = {config: release.splits(config) for config in release.configs}
    keys = [] if splits is None else choose_splits(available, splits, release.name)
    named = tuple(dict.fromkeys(config for config, _ in keys))
    sources = list(scores) if isinstance(scores, list | tuple) else [scores]
    if not sources:
        raise EvaluationError(
            "There are no scores to evaluate: the list is empty. Give what score returned, or files."
        )
    indexes: dict[tuple[str, ...], ReleaseIndex] = {}
    runs: list[ScoredRun] = []
    with bar(len(sources), "joining", quiet=quiet, unit=" files") as progress:
        for number, source in enumerate(sources, start=1):
            variant, path = None, Path(IN_MEMORY if len(sources) == 1 else f"{IN_MEMORY}-{number}")
            if in_file := isinstance(source, str | Path):
                method, equals, file = str(source).partition("=")
                has_variant = equals and not Path(source).exists()
                variant, path = (method, Path(file)) if has_variant else (None, Path(source))
            if path.stem in [run.name for run in runs]:
                raise EvaluationError(
                    f"Several scores files have the name {path.stem}; rename them, since runs are named after their "
                    "files."
                )
            table, stated = read_scores(path if in_file else source, release=release)
            configs = stated.configs if stated else named or _only_config(available)
            if configs not in indexes:
                indexes[configs] = release_index(release, configs)
            scored = choose_splits(available, stated.splits, release.name) if stated and stated.splits else []
            index, table = _chosen(indexes[configs], table, keys or scored)
            fitted_on = ids_fitted_on(release, stated.fit_half) if stated else None
            rows = join_scores(index, table, str(path) if in_file else f"The table {path}", fitted_on)
            if stated:
                rows = {name: _with_confidence(name, of_detector) for name, of_detector in rows.items()}
                # A model file is recorded without its folder, which may differ between machines.
                model = re.sub(r"[^ ]*/(?=[^/ ]+\.py:)", "", stated.model)
                about, variant = msgspec.structs.replace(stated, model=model), model if variant is None else variant
            else:
                about = Provenance(release.digest, configs, "", "", file_seed(path)[1], {}, {})  # type: ignore[arg-type]
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if in_file else ""
            runs.append(
                ScoredRun(path, variant or "", about, index, rows, digest, read_times(path) if in_file else {})
            )
            progress.update(1)
    variants: dict[str, str] = {}
    for run in runs:
        other = variants.setdefault(safe_file_name(run.variant), run.variant)
        if other != run.variant or run.variant == ALL_VARIANTS:
            raise EvaluationError(
                f"The training methods {other!r} and {run.variant!r} give the same file name. Choose names that "
                "differ in letters or digits, as --scores NAME=FILE."
            )
    return runs, named


def judged_runs(runs: Sequence[ScoredRun]) -> pd.DataFrame:
    """Return a line for each run and detector, as `robustness.robust_detectors` takes them."""
    return pd.DataFrame([run.columns(detector) for run in runs for detector in run.rows])


def choose_protocols(
    requested: str | Protocol | Sequence[str | Protocol], runs: Sequence[ScoredRun], configs: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Choose the configs that each protocol evaluates, of those to evaluate; empty for all with scores.

    `requested` are protocols or their names, or `FILE.py:NAME` for one of the user's own, a name perhaps with
    `=CONFIG,...`; empty for the default protocol of each config, and the optimizer paper's if there are several
    training methods.
    """
    scored_configs = tuple(dict.fromkeys(config for run in runs for config in run.about.configs))
    chosen = tuple(configs) or scored_configs
    require_known("config with scores", configs, scored_configs)
    robust = bool(robustness.robust_detectors(judged_runs(runs)))
    usual = [f"{default_protocol(config)}={config}" for config in chosen] + [robustness.NAME] * robust
    plan: dict[str, tuple[str, ...]] = {}
    for asked in ([requested] if isinstance(requested, str | Protocol) else requested) or usual:
        text = asked if isinstance(asked, str) else register(asked).name
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


def _chosen(index: ReleaseIndex, scores: pa.Table, keys: Sequence[Key]) -> tuple[ReleaseIndex, pa.Table]:
    """Drop rows of splits that are not to be evaluated, and their scores; splits for fitting and tuning stay.

    Of configs without any of `keys`, all rows stay.
    """
    rows = index.rows
    keep = ~np.isin(rows.config, [config for config, _ in keys]) | np.isin(rows.split, FIT_AND_TUNE_SPLITS)
    for config, split in keys:
        keep |= (rows.config == config) & (rows.split == split)
    if keep.all():
        return index, scores
    dropped, kept = (pc.is_in(scores["id"], value_set=pa.array(rows.id[mask], pa.string())) for mask in (~keep, keep))
    return replace(index, rows=rows.where(keep)), scores.filter(pc.or_(kept, pc.invert(dropped)))


def _with_confidence(detector: str, rows: Rows) -> Rows:
    if detector in _CONFIDENT and rows.confidence is None and rows.prediction is not None:
        confidence = 1 - rows.score
        return replace(rows, confidence=confidence) if ((confidence >= 0) & (confidence <= 1)).all() else rows
    return rows


def _only_config(available: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the release's only config with rows to evaluate."""
    configs = tuple(config for config, splits in available.items() if {*splits} - {*FIT_AND_TUNE_SPLITS})
    if len(configs) != 1:
        raise EvaluationError(
            f"The release does not have exactly one config to evaluate (found: {', '.join(configs) or 'none'}). Name "
            "the configs of the scores with --splits (in Python splits=)."
        )
    return configs
