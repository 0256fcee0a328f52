"""Computes the figures of scored runs, and the warnings and notes that go with them.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unknown_detection.evaluation.protocols import calibration, od_test, robustness
from unknown_detection.evaluation.protocols.figures import WITHOUT_DUPLICATES, WITHOUT_OVERLAP
from unknown_detection.evaluation.protocols.registry import PROTOCOLS, figures
from unknown_detection.evaluation.protocols.robustness import DetectorFigures, robust_detectors, robust_figures
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.reports.inputs import ScoredRun
from unknown_detection.evaluation.scoring.left_out import (
    LeftOut,
    Overlapping,
    count_left_out,
    count_overlaps,
    describe_left_out,
    describe_overlaps,
)
from unknown_detection.evaluation.scoring.rows import Rows
from unknown_detection.terminal.progress import Progress

Plan = Mapping[str, Sequence[str]]
"""Configs by protocol."""


@dataclass(frozen=True)
class RowsLeftOut:
    """The rows that figures without duplicates and without overlap leave out; None where the release does not say."""

    duplicates: Sequence[LeftOut] | None
    overlapping: Sequence[Overlapping] | None


def compute_figures(scored: Sequence[ScoredRun], plan: Plan, progress: Progress) -> list[DetectorFigures]:
    """Compute all figures, and the calibration of each run's confidences."""
    evaluated: list[DetectorFigures] = []
    configs = sorted({config for of in plan.values() for config in of})
    for run in scored:
        confident = [name for name, _ in confidences(run)]
        for detector, rows in run.rows.items():
            measured = [
                figure
                for protocol, of in plan.items()
                if protocol != robustness.NAME and set(of) & set(run.configs)
                for figure in figures(protocol, run.of_configs(rows, of))
            ]
            if detector in confident:
                of_configs = run.of_configs(rows, configs).by("config").values()
                measured += [figure for part in of_configs for figure in calibration.figures(part)]
            evaluated.append((run.origin, detector, measured))
            progress(1)
    if robustness.NAME in plan:
        evaluated += list(robust_figures(evaluated))
    return evaluated


def confidences(scored: ScoredRun) -> list[tuple[str, Rows]]:
    """Return the detectors of a run that have confidences of their own, with their rows.

    Most detectors share the model's; of these, the first has it.
    """
    confident: list[tuple[str, Rows]] = []
    for name, rows in scored.rows.items():
        if rows.confidence is not None and not any(_equal(rows, other) for _, other in confident):
            confident.append((name, rows))
    return confident


def rows_left_out(scored: Sequence[ScoredRun], plan: Plan) -> RowsLeftOut:
    """Count the rows that each split and class loses in the figures without duplicates and without overlap."""
    judged = [(run, name, configs) for name, configs in plan.items() if name != robustness.NAME for run in scored]

    def counted(count: Callable[[Rows, str], Sequence[Any]], stated: Sequence[bool]) -> list[Any] | None:
        places: dict[tuple[str, ...], Any] = {}  # of several runs, the same rows count once
        for (run, protocol, configs), is_stated in zip(judged, stated, strict=True):
            for place in count(run.any_rows(configs), protocol) if is_stated else ():
                places.setdefault(place.place, place)
        return list(places.values()) if any(stated) else None

    return RowsLeftOut(
        counted(count_left_out, [run.index.rows.duplicate is not None for run, _, _ in judged]),
        counted(count_overlaps, [bool(run.index.overlaps & set(configs)) for run, _, configs in judged]),
    )


def warnings(release: Release, scored: Sequence[ScoredRun], plan: Plan) -> list[str]:
    """List in sentences what is wrong with the figures, or missing."""
    demo = f"{release_name(release)} is a demo release: its figures try the tools out, and are no results"
    sentences = [demo] * release.is_demo
    sentences += _missing(scored, plan)
    origins = [run.origin for run in scored]
    accepted = dict.fromkeys(origin.accepted for origin in origins if origin.accepted)
    sentences += [f"{difference}; the run went on with --accept" for difference in accepted]
    resized = _gathered(
        ((origin.model, way), key) for origin in origins for key, way in origin.prepared.items() if "resized" in way
    )
    sentences += [f"{model} got images of {way}: {', '.join(keys)}" for (model, way), keys in resized.items()]
    halves = _gathered((origin.fit_half, origin.name) for origin in origins if origin.fit_half)
    sentences += [
        f"detectors of {', '.join(names)} were fitted on half of {key}, for want of training rows; thresholds are "
        "chosen on the other half"
        for key, names in halves.items()
    ]
    fitted = _gathered(
        (used["fitted_on"], name)
        for run in scored
        for name, used in run.used.items()
        if used.get("fitted_on") and used["fitted_on"] == used.get("threshold_on")
        if set(plan.get(od_test.NAME, ())) & set(run.configs)
    )
    return sentences + [
        f"od-test chooses the thresholds of {', '.join(names)} on rows of {rows} that they were fitted on"
        for rows, names in fitted.items()
    ]


def row_notes(release: Release, scored: Sequence[ScoredRun], left_out: RowsLeftOut) -> list[str]:
    """List in sentences the rows that are left out, and what the release says of its classes."""
    sentences = [] if left_out.duplicates is None else [describe_left_out(left_out.duplicates)]
    sentences += [] if left_out.overlapping is None else [describe_overlaps(left_out.overlapping)]
    configs = sorted({config for run in scored for config in run.configs})
    return sentences + [remark for config in configs for remark in release.remarks_on_classes(config)]


def reversed_signs(evaluated: Sequence[DetectorFigures]) -> list[str]:
    """List the detectors all of whose AUROCs are below 0.5, in sentences with a hint."""
    areas = _gathered(
        (detector, figure.value)
        for _, detector, measured in evaluated
        for figure in measured
        if figure.metric == "auroc" and not figure.statistic and figure.value == figure.value
    )
    return [
        f"every AUROC of {detector} is below 0.5, so its sign may be reversed: higher scores must mean more unknown"
        for detector, values in areas.items()
        if max(values) < 0.5
    ]


def too_few_left(evaluated: Sequence[DetectorFigures], left_out: RowsLeftOut) -> list[str]:
    """List in sentences the configs of which too few rows are left for figures without duplicates or overlap."""
    judged = {
        (figure.protocol, figure.rows, config)
        for _, _, measured in evaluated
        for figure in measured
        for config in figure.config.split(" + ")
    }
    kinds: dict[str, Sequence[LeftOut | Overlapping]] = {
        WITHOUT_DUPLICATES: left_out.duplicates or (),
        WITHOUT_OVERLAP: left_out.overlapping or (),
    }
    missing = _gathered(
        ((place.protocol, kind), place.config)
        for kind, places in kinds.items()
        for place in places
        if (place.protocol, kind, place.config) not in judged
    )
    return [
        f"too few rows of {', '.join(configs)} are left for figures of {protocol} {kind.replace('_', ' ')}"
        for (protocol, kind), configs in missing.items()
    ]


def release_name(release: Release) -> str:
    """Return the release's name in results: ORG/NAME at a commit, or a folder's name without its path."""
    return release.name if release.revision else Path(release.source).resolve().name


def _missing(scored: Sequence[ScoredRun], plan: Plan) -> list[str]:
    sentences = []
    detectors = [(name, rows) for run in scored for name, rows in run.rows.items()]
    without = dict.fromkeys(name for name, rows in detectors if rows.prediction is None)
    chosen = [PROTOCOLS[name] for name in plan if name in PROTOCOLS]
    settings = dict.fromkeys(protocol.settings[name] for protocol in chosen for name in protocol.with_predictions)
    if without and settings:
        sentences.append(f"no predictions of {', '.join(without)}, so no figures of {', '.join(settings)}")
    for protocol, configs in plan.items():
        for run in scored:
            if protocol in PROTOCOLS and set(configs) & set(run.configs):
                sentences += PROTOCOLS[protocol].absent(run.any_rows(configs))
    if robustness.NAME in plan:
        robust = robust_detectors((run.origin, name) for run in scored for name in run.rows)
        insufficient = ", ".join(dict.fromkeys(name for name, _ in detectors if name not in robust))
        models = "two models for each of two training methods"
        sentences += [f"{robustness.NAME} needs {models} and has fewer of {insufficient}"] * bool(insufficient)
    return list(dict.fromkeys(sentences))


def _equal(rows: Rows, other: Rows) -> bool:
    pairs = ((rows.confidence, other.confidence), (rows.prediction, other.prediction), (rows.id, other.id))
    return all(np.array_equal(first, second) for first, second in pairs)  # type: ignore[arg-type]


def _gathered(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Return the distinct values of each key."""
    gathered: dict[Any, dict[Any, None]] = defaultdict(dict)
    for key, value in pairs:
        gathered[key][value] = None
    return {key: [*values] for key, values in gathered.items()}
