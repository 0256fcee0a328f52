"""Computes the figures of scored runs, and the warnings and notes that go with them.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from builders.release.duplicates import doubt
from unknown_detection.evaluation.protocols import PROTOCOLS, calibration, figures, od_test, robustness
from unknown_detection.evaluation.protocols.results import tidy
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.reports.inputs import ScoredRun, judged_runs
from unknown_detection.evaluation.scoring.rows import COUNTED, REDUCED, Rows, count_left_out
from unknown_detection.terminal.progress import bar

Plan = Mapping[str, Sequence[str]]
"""Configs by protocol."""

LeftOutRows = Mapping[str, pd.DataFrame]
"""The counts of `count_left_out` by the kind of figures; without the kinds of which the release does not say."""


def compute_figures(runs: Sequence[ScoredRun], plan: Plan, release: Release, *, quiet: bool = True) -> pd.DataFrame:
    """Compute the table of all figures, with the calibration of each run's confidences."""
    named = {"release": release_name(release), "release_digest": release.digest}
    named["duplicates_sha256"] = release.duplicates_digest
    judged = []
    configs = sorted({config for of in plan.values() for config in of})
    with bar(sum(len(run.rows) for run in runs), "judging", quiet=quiet, unit=" detectors") as progress:
        for run in runs:
            confident = [name for name, _ in confidences(run)]
            for detector, rows in run.rows.items():
                measured = [
                    figure
                    for protocol, of in plan.items()
                    if set(of) & set(run.about.configs)
                    for figure in figures(protocol, run.of_configs(rows, of))
                ]
                if detector in confident:
                    measured += calibration.PROTOCOL.figures(run.of_configs(rows, configs))
                judged.append((run.columns(detector, **named), measured))
                progress.update(1)
    table = tidy(judged)
    return pd.concat([table, robustness.robust_figures(table)]) if robustness.NAME in plan else table


def confidences(run: ScoredRun) -> list[tuple[str, Rows]]:
    """Return the detectors of a run that have confidences of their own, with their rows.

    Most detectors share the model's; of these, the first has it.
    """
    confident: dict[tuple[Any, ...], tuple[str, Rows]] = {}
    for name, rows in run.rows.items():
        if rows.confidence is not None:
            values = (rows.confidence, rows.prediction, rows.id)
            confident.setdefault(tuple(None if of is None else of.tobytes() for of in values), (name, rows))
    return [*confident.values()]


def rows_left_out(runs: Sequence[ScoredRun], plan: Plan) -> LeftOutRows:
    """Count the rows that each split and class loses in the figures without duplicates and without overlap."""
    counts: dict[str, list[pd.DataFrame]] = {kind: [] for kind in REDUCED}
    for protocol, configs in plan.items():
        for run in runs if protocol != robustness.NAME else ():
            for kind in REDUCED:
                counted = count_left_out(run.any_rows(configs), kind, protocol)
                counts[kind] += [] if counted is None else [counted]
    # Of several runs, the same rows count once.
    return {kind: pd.concat(of).drop_duplicates(COUNTED, keep="last") for kind, of in counts.items() if of}


def warnings(release: Release, runs: Sequence[ScoredRun], plan: Plan) -> list[str]:
    """List in sentences what is wrong with the figures, or missing."""
    demo = f"{release_name(release)} is a demo release: its figures only show that the tools work"
    sentences = [demo] * release.is_demo
    sentences += filter(None, [doubt(release.doubtful_duplicates({config for of in plan.values() for config in of}))])
    sentences += _missing(runs, plan)
    accepted = dict.fromkeys(run.about.source["accepted"] for run in runs if run.about.source.get("accepted"))
    sentences += [f"{difference}; the run went on with --accept" for difference in accepted]
    resized = _gathered(
        ((run.about.model, way), key) for run in runs for key, way in run.about.prepared.items() if "resized" in way
    )
    sentences += [f"{model} got images of {way}: {', '.join(keys)}" for (model, way), keys in resized.items()]
    halves = _gathered((run.about.fit_half, run.name) for run in runs if run.about.fit_half)
    sentences += [
        f"detectors of {', '.join(names)} were fitted on half of {key}, for want of training rows; thresholds are "
        "chosen on the other half"
        for key, names in halves.items()
    ]
    fitted = _gathered(
        (used["fitted_on"], name)
        for run in runs
        for name, used in run.about.rows.items()
        if used.get("fitted_on") and used["fitted_on"] == used.get("threshold_on")
        if set(plan.get(od_test.NAME, ())) & set(run.about.configs)
    )
    return sentences + [
        f"od-test chooses the thresholds of {', '.join(names)} on rows of {rows} that they were fitted on"
        for rows, names in fitted.items()
    ]


def hints(figures: pd.DataFrame, left_out: LeftOutRows) -> list[str]:
    """List in sentences the detectors all of whose AUROCs are below 0.5, and the configs with too few rows left."""
    areas = figures[(figures["metric"] == "auroc") & (figures["statistic"] == "")].groupby("detector", sort=False)
    greatest = areas["value"].max()
    sentences = [
        f"every AUROC of {detector} is below 0.5, so its sign may be reversed: higher scores must mean more unknown"
        for detector in greatest.index[greatest < 0.5]
    ]
    of_configs = figures.assign(config=figures["config"].str.split(" + ", regex=False)).explode("config")
    judged = {*of_configs[["protocol", "rows", "config"]].itertuples(index=False, name=None)}
    missing = _gathered(
        ((protocol, kind), config)
        for kind, counted in left_out.items()
        for protocol, config in zip(counted["protocol"], counted["config"], strict=True)
        if (protocol, kind, config) not in judged
    )
    return sentences + [
        f"too few rows of {', '.join(configs)} are left for figures of {protocol} {kind.replace('_', ' ')}"
        for (protocol, kind), configs in missing.items()
    ]


def release_name(release: Release) -> str:
    """Return the release's name in results: ORG/NAME at a commit, or a folder's name without its path."""
    return release.name if release.revision else Path(release.source).resolve().name


def _missing(runs: Sequence[ScoredRun], plan: Plan) -> list[str]:
    sentences = []
    detectors = [(name, rows) for run in runs for name, rows in run.rows.items()]
    without = dict.fromkeys(name for name, rows in detectors if rows.prediction is None)
    chosen = {name: PROTOCOLS[name] for name in plan}
    settings = [of.settings[name] for of in chosen.values() for name in of.with_predictions]
    if without and settings:
        sentences.append(f"no predictions of {', '.join(without)}, so no figures of {', '.join(settings)}")
    for name, configs in plan.items():
        for run in runs:
            if set(configs) & set(run.about.configs):
                sentences += chosen[name].absent(run.any_rows(configs))
    if robustness.NAME in plan:
        robust = robustness.robust_detectors(judged_runs(runs))
        insufficient = ", ".join(dict.fromkeys(name for name, _ in detectors if name not in robust))
        models = "two models for each of two training methods"
        sentences += [f"{robustness.NAME} needs {models} and has fewer of {insufficient}"] * bool(insufficient)
    return list(dict.fromkeys(sentences))


def _gathered(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Return the distinct values of each key."""
    gathered: dict[Any, dict[Any, None]] = defaultdict(dict)
    for key, value in pairs:
        gathered[key][value] = None
    return {key: [*values] for key, values in gathered.items()}
