"""Computes the figures of scored runs, and what a reader has to know of them, in sentences.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

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

Wanted = Mapping[str, Sequence[str]]
"""Configs by protocol."""


@dataclass(frozen=True)
class RowsLeftOut:
    """What figures without duplicates and without overlap leave out; None where the release does not say."""

    duplicates: Sequence[LeftOut] | None
    overlapping: Sequence[Overlapping] | None


def compute_figures(scored: Sequence[ScoredRun], wanted: Wanted, progress: Progress) -> list[DetectorFigures]:
    """Compute all figures, and the calibration of each run's confidences."""
    evaluated: list[DetectorFigures] = []
    configs = sorted({config for of in wanted.values() for config in of})
    for one in scored:
        confident = [name for name, _ in confidences(one)]
        for detector, rows in one.rows.items():
            found = [
                figure
                for protocol, of in wanted.items()
                if protocol != robustness.NAME and set(of) & set(one.configs)
                for figure in figures(protocol, one.of_configs(rows, of))
            ]
            if detector in confident:
                of_configs = one.of_configs(rows, configs).by("config").values()
                found += [figure for part in of_configs for figure in calibration.figures(part)]
            evaluated.append((one.run, detector, found))
            progress(1)
    if robustness.NAME in wanted:
        evaluated += list(robust_figures(evaluated))
    return evaluated


def confidences(scored: ScoredRun) -> list[tuple[str, Rows]]:
    """Return the detectors of a run that have confidences of their own, with their rows.

    Most detectors share the model's; of these, the first has it.
    """
    found: list[tuple[str, Rows]] = []
    for name, rows in scored.rows.items():
        if rows.confidence is not None and not any(_equal(rows, other) for _, other in found):
            found.append((name, rows))
    return found


def rows_left_out(scored: Sequence[ScoredRun], wanted: Wanted) -> RowsLeftOut:
    """Count the rows that each split and class loses in the figures without duplicates and without overlap."""
    judged = [(one, *item) for item in wanted.items() if item[0] != robustness.NAME for one in scored]

    def counted(count: Callable[[Rows, str], Sequence[Any]], said: Sequence[bool]) -> list[Any] | None:
        places: dict[tuple[str, ...], Any] = {}  # of several runs, the same rows count once
        for (one, protocol, configs), is_said in zip(judged, said, strict=True):
            for place in count(one.any_rows(configs), protocol) if is_said else ():
                places.setdefault(place.place, place)
        return list(places.values()) if any(said) else None

    return RowsLeftOut(
        counted(count_left_out, [one.index.rows.duplicate is not None for one, _, _ in judged]),
        counted(count_overlaps, [bool(one.index.overlaps & set(configs)) for one, _, configs in judged]),
    )


def warnings(release: Release, scored: Sequence[ScoredRun], wanted: Wanted) -> list[str]:
    """List what a reader has to know before using the figures: what is wrong with them or missing, in sentences."""
    found = [
        f"{release_name(release)} is a demo release: its figures try the tools out, and are no results"
    ] * release.is_demo
    found += _missing(scored, wanted)
    accepted = dict.fromkeys(one.run.accepted for one in scored if one.run.accepted)
    found += [f"{difference}; the run went on with --accept" for difference in accepted]
    resized = _gathered(
        ((one.run.model, way), key) for one in scored for key, way in one.run.prepared.items() if "resized" in way
    )
    found += [f"{model} got images of {way}: {', '.join(keys)}" for (model, way), keys in resized.items()]
    halves = _gathered((one.run.fit_half, one.run.name) for one in scored if one.run.fit_half)
    found += [
        f"detectors of {', '.join(names)} were fitted on half of {key}, for want of training rows; thresholds are "
        "chosen on the other half"
        for key, names in halves.items()
    ]
    fitted = _gathered(
        (used["fitted_on"], name)
        for one in scored
        for name, used in one.used.items()
        if used.get("fitted_on") and used["fitted_on"] == used.get("threshold_on")
        if set(wanted.get(od_test.NAME, ())) & set(one.configs)
    )
    return found + [
        f"od-test chooses the thresholds of {', '.join(names)} on rows of {rows} that they were fitted on"
        for rows, names in fitted.items()
    ]


def row_notes(release: Release, scored: Sequence[ScoredRun], left_out: RowsLeftOut) -> list[str]:
    """List what else there is to know of the rows, in sentences: which are left out, and what the classes are."""
    found = [] if left_out.duplicates is None else [describe_left_out(left_out.duplicates)]
    found += [] if left_out.overlapping is None else [describe_overlaps(left_out.overlapping)]
    configs = sorted({config for one in scored for config in one.configs})
    return found + [remark for config in configs for remark in release.remarks_on_classes(config)]


def reversed_signs(evaluated: Sequence[DetectorFigures]) -> list[str]:
    """List the detectors all of whose AUROCs are below 0.5, in sentences with a hint."""
    areas = _gathered(
        (detector, figure.value)
        for _, detector, found in evaluated
        for figure in found
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
        for _, _, found in evaluated
        for figure in found
        for config in figure.config.split(" + ")
    }
    kinds: dict[str, Sequence[LeftOut | Overlapping]] = {
        WITHOUT_DUPLICATES: left_out.duplicates or (),
        WITHOUT_OVERLAP: left_out.overlapping or (),
    }
    lacking = _gathered(
        ((one.protocol, kind), one.config)
        for kind, places in kinds.items()
        for one in places
        if (one.protocol, kind, one.config) not in judged
    )
    return [
        f"too few rows of {', '.join(configs)} are left for figures of {protocol} {kind.replace('_', ' ')}"
        for (protocol, kind), configs in lacking.items()
    ]


def release_name(release: Release) -> str:
    """Return the release's name in results: ORG/NAME at a commit, or a folder's name without its path."""
    return release.name if release.revision else Path(release.source).resolve().name


def _missing(scored: Sequence[ScoredRun], wanted: Wanted) -> list[str]:
    found = []
    detectors = [(name, rows) for one in scored for name, rows in one.rows.items()]
    without = dict.fromkeys(name for name, rows in detectors if rows.prediction is None)
    chosen = [PROTOCOLS[name] for name in wanted if name in PROTOCOLS]
    settings = dict.fromkeys(one.settings[name] for one in chosen for name in one.with_predictions)
    if without and settings:
        found.append(f"no predictions of {', '.join(without)}, so no figures of {', '.join(settings)}")
    for protocol, configs in wanted.items():
        for one in scored:
            if protocol in PROTOCOLS and set(configs) & set(one.configs):
                found += PROTOCOLS[protocol].absent(one.any_rows(configs))
    if robustness.NAME in wanted:
        robust = robust_detectors((one.run, name) for one in scored for name in one.rows)
        few = [name for name in dict.fromkeys(name for name, _ in detectors) if name not in robust]
        models = "two models for each of two training methods"
        found += [f"{robustness.NAME} needs {models} and has fewer of {', '.join(few)}"] if few else []
    return list(dict.fromkeys(found))


def _equal(rows: Rows, other: Rows) -> bool:
    pairs = ((rows.confidence, other.confidence), (rows.prediction, other.prediction), (rows.id, other.id))
    return all(np.array_equal(one, two) for one, two in pairs)  # type: ignore[arg-type]


def _gathered(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Return the distinct values of each key."""
    found: dict[Any, list[Any]] = {}
    for key, value in pairs:
        values = found.setdefault(key, [])
        values += [] if value in values else [value]
    return found
