"""Runs all steps in one call, with one model or several: extract features, score them and report.

Tested by `tests/evaluation/test_as_one_guesses.py` and `tests/evaluation/test_several.py`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from unknown_detection.evaluation.detectors.choice import choose
from unknown_detection.evaluation.detectors.own import Own
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.evaluate import evaluate
from unknown_detection.evaluation.features.extract import extract
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.metrics.bootstrap import require_samples
from unknown_detection.evaluation.metrics.metrics import find_metrics
from unknown_detection.evaluation.protocols import Protocol
from unknown_detection.evaluation.releases import Key, Release, load
from unknown_detection.evaluation.report.report import Report, report
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS
from unknown_detection.evaluation.scoring.run import score
from unknown_detection.evaluation.several import named, run_each, what_is_asked
from unknown_detection.terminal.progress import Log
from unknown_detection.words import first_few


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What the steps returned; printed or shown in a notebook, it is the tables of results and the page's place.

    Attributes:
        features: what `extract` returned; of several models, by their names.
        scores: what `score` returned; of several models, by their names.
        figures: what `evaluate` returns of these scores.
        report: what `report` returned.
        failed: why models of a list have no scores, by their names.
    """

    features: Any
    scores: Any
    figures: pd.DataFrame
    report: Report
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> dict[str, str]:
        """Why detectors that were asked for have no scores of a model, by their names."""
        scores = self.scores.values() if isinstance(self.scores, Mapping) else [self.scores]
        return {name: why for of in scores for name, why in of.attrs["provenance"].get("missing", {}).items()}

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
    at_known: float | None = None,
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

    A list of models has a row for each model and detector in the figures and the report, which then compares models,
    too. One that fails is named in a warning, and the others are run. Scores that are there are not computed again.

    Args:
        model: as for `extract`; or a list of such models, or of dictionaries that have more of `extract`'s arguments,
            such as `weights`, for one `model`. In a list, models of libraries have their published weights by default.
        release: a release, or its folder or ORG/NAME on the Hub.
        detectors: as for `score`; None for all that can be used.
        out: folder that gets `features`, `scores.parquet` and `report`; of several models, `features` and `scores`
            with a folder or file for each. None for one that is deleted with what is returned, whose report has no
            plots unless `plots` asks for them.
        splits: what to extract, as for `extract`; of these, all configs with rows to evaluate are scored.
        fit_configs: as for `score`.
        search: as for `score`.
        settings: as for `score`.
        protocols: as for `report`.
        metrics: more metrics, for the report, and those of `figures`; empty for the usual ones.
        intervals: as for `evaluate` and `report`: bootstrap samples for 95 % intervals of figures and differences.
        at_known: as for `score`.
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
        keys = opened.choose(splits)
        evaluated = {config for config, split in keys if split not in FIT_AND_TUNE_SPLITS}
        if not evaluated:
            raise EvaluationError(
                f"There is nothing to evaluate among {first_few(['/'.join(key) for key in keys])}, which are splits "
                "to fit and tune on. Name a config with its test and unknown splits, too."
            )
        detectors = [*detectors] if isinstance(detectors, Iterator) else detectors
        require_samples(intervals)
        choose(detectors, settings), find_metrics(metrics)  # before any model is run
        shared: dict[str, Any] = {"device": device, "accept": accept, "quiet": quiet, "log": log}
        scoring: dict[str, Any] = {
            "splits": [key for key in keys if key[0] in evaluated],
            **{"fit_configs": fit_configs, "search": search, "settings": settings},
            **{"at_known": at_known, "seed": seed},
        }

        def extracted(how: Mapping[str, Any], cache: Path | None) -> FeatureStore:
            features = extract(release=opened, splits=splits, cache=cache, **shared, **{**extraction, **how})
            features.only = {*keys}  # not what earlier runs left in the folder: detectors would be fitted on it
            return features

        def scored(features: FeatureStore, file: Path | None) -> pd.DataFrame:
            return score(features, detectors, out=file, **scoring, **shared)

        features: Any
        scores: Any
        if isinstance(model, list | tuple):
            if extraction.get("weights"):
                raise EvaluationError("weights= is one model's file. Give each model of the list its own.")
            asked = what_is_asked(detectors, scoring)
            features, scores, failed = run_each(named(model), root, extracted, scored, asked, log)
            judged: Any = [root / "scores" / f"{name}.parquet" for name in scores]
        else:
            features, failed = extracted({"model": model}, root / "features" if out else None), {}
            scores = judged = scored(features, root / "scores.parquet" if out else None)
        figures = evaluate(judged, opened, metrics=metrics or None, intervals=intervals)
        drawn = False if out is None and plots is None else plots
        of_report: dict[str, Any] = {"protocols": protocols, "metrics": metrics, "intervals": intervals}
        written = report(judged, opened, root / "report", plots=drawn, **of_report, quiet=quiet, log=log)
        done = Evaluation(features, scores, figures, written, failed)
        weakref.finalize(done, temporary.pop_all().close)
    return done
