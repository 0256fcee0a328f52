"""Runs all steps in one call: extract features, score them and report.

Tested by `tests/evaluation/test_as_one_guesses.py`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from unknown_detection.evaluation.detectors.own import Own
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.evaluate import evaluate
from unknown_detection.evaluation.features.extract import extract
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.protocols import Protocol
from unknown_detection.evaluation.releases import Key, Release, choose_splits, load
from unknown_detection.evaluation.report.report import Report, report
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS
from unknown_detection.evaluation.scoring.run import score
from unknown_detection.terminal.progress import Log
from unknown_detection.words import first_few


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What the steps returned; printed or shown in a notebook, it is the tables of results and the page's place.

    Attributes:
        features: what `extract` returned.
        scores: what `score` returned.
        figures: what `evaluate` returns of these scores.
        report: what `report` returned.
    """

    features: FeatureStore
    scores: pd.DataFrame
    figures: pd.DataFrame
    report: Report

    def __repr__(self) -> str:
        return repr(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def run(
    model: Any,
    release: str | Path | Release,
    detectors: str | Own | Iterable[str | Own] | None = None,
    out: str | Path | None = None,
    *,
    splits: str | Iterable[str | Key] | None = None,
    fit_configs: str | Sequence[str] | None = None,
    search: bool = True,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    protocols: str | Protocol | Sequence[str | Protocol] = (),
    metrics: str | Callable[..., float] | Sequence[str | Callable[..., float]] = (),
    intervals: int = 0,
    plots: bool | None = None,
    seed: int = 0,
    device: str = "auto",
    accept: bool = False,
    quiet: bool = False,
    log: Log = lambda text: None,
    **extraction: Any,
) -> Evaluation:
    """Extract features of a release with a model, score them with detectors, and report: the three steps in one.

        >>> done = ud.run(model, "build/digits", ["msp", "knn"], splits="digits,digits-train")
        >>> done.figures["split"].unique().tolist()
        ['far_ood_noise', 'far_ood_textures', 'near_ood', 'mean']

    A second call with the same folder goes on where the first one ended: no image is run through the model again.
    Nothing else there makes a difference: detectors are fitted on `splits`, whatever splits earlier calls extracted.

    Args:
        model: as for `extract`.
        release: a release, or its folder or ORG/NAME on the Hub.
        detectors: as for `score`; None for all that can be used.
        out: folder that gets `features`, `scores.parquet` and `report`. None for one that is deleted with what is
            returned, whose report has no plots unless `plots` asks for them.
        splits: what to extract, as for `extract`; of these, all configs with rows to evaluate are scored.
        fit_configs: as for `score`.
        search: as for `score`.
        settings: as for `score`.
        protocols: as for `report`.
        metrics: more metrics, for the report, and those of `figures`; empty for the usual ones.
        intervals: as for `evaluate`: bootstrap samples for the 95 % intervals of `figures`.
        plots: as for `report`.
        seed: as for `score`.
        device: as for `extract`; distances to neighbours are computed there, too.
        accept: go on where the accuracy on known test rows differs from the published one.
        quiet: no progress bars.
        log: receives the lines of all steps.
        extraction: others of `extract`, such as `preprocessing`, `weights`, `batch_size` and `workers`.

    Raises:
        EvaluationError: as for the steps.
        TypeError: there is no such parameter, or an object is of another kind than a step takes.
    """
    opened = load(release)
    root = Path(tempfile.mkdtemp(prefix="run-") if out is None else out)
    with contextlib.ExitStack() as temporary:
        if out is None:
            temporary.callback(shutil.rmtree, root, ignore_errors=True)
        available = {config: opened.splits(config) for config in opened.configs}
        keys = choose_splits(available, splits, opened.name)
        evaluated = {config for config, split in keys if split not in FIT_AND_TUNE_SPLITS}
        if not evaluated:
            raise EvaluationError(
                f"There is nothing to evaluate among {first_few(['/'.join(key) for key in keys])}, which are splits "
                "to fit and tune on. Name a config with its test and unknown splits, too."
            )
        shared: dict[str, Any] = {"device": device, "accept": accept, "quiet": quiet, "log": log}
        features = extract(model, opened, splits, cache=root / "features" if out else None, **shared, **extraction)
        features.only = {*keys}  # not what earlier runs left in the folder: detectors would be fitted on it
        scores = score(
            features,
            detectors,
            splits=[key for key in keys if key[0] in evaluated],
            fit_configs=fit_configs,
            search=search,
            settings=settings,
            seed=seed,
            out=root / "scores.parquet" if out else None,
            **shared,
        )
        figures = evaluate(scores, opened, metrics=metrics or None, intervals=intervals)
        drawn = False if out is None and plots is None else plots
        of_report: dict[str, Any] = {"protocols": protocols, "metrics": metrics, "plots": drawn}
        written = report(scores, opened, root / "report", **of_report, quiet=quiet, log=log)
        done = Evaluation(features, scores, figures, written)
        weakref.finalize(done, temporary.pop_all().close)
    return done
