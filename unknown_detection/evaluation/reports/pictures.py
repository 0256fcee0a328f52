"""Sets the scenes that protocols draw a report's pictures of: the figures of each training method, and its first run.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from unknown_detection.evaluation.protocols import calibration
from unknown_detection.evaluation.protocols.figures import AS_PUBLISHED
from unknown_detection.evaluation.protocols.pictures import Picture, Scene
from unknown_detection.evaluation.protocols.registry import named
from unknown_detection.evaluation.reports.inputs import ScoredRun
from unknown_detection.evaluation.reports.judging import confidences
from unknown_detection.evaluation.scoring.rows import Rows


def pictures(
    scored: Sequence[ScoredRun],
    figures: pd.DataFrame,
    wanted: Mapping[str, Sequence[str]],
    roc: str | None = None,
) -> list[tuple[str, Picture]]:
    """Choose the pictures of a report, each with the name of its protocol.

    Args:
        scored: the loaded scores files.
        figures: all figures.
        wanted: configs by protocol.
        roc: the detector of ROC curves; None for the best.
    """
    found = []
    variants = list(dict.fromkeys(one.run.variant for one in scored))
    for variant in variants:
        runs = [one for one in scored if one.run.variant == variant]
        runs.sort(key=lambda one: (one.run.seed is None, one.run.seed or 0, one.run.name))
        mine = figures[(figures["variant"] == variant) & (figures["rows"] == AS_PUBLISHED)]
        labels = [variant] if len(variants) > 1 else []
        for name, lines in mine.groupby("protocol", sort=False):
            configs = wanted.get(name) or lines["config"].unique().tolist()
            first = dict(_first_runs(name, runs, configs))
            rows = {place: of for place, (_, of) in first.items()}
            names = {place: run for place, (run, _) in first.items()}
            scene = Scene(named(name), lines, rows, names, labels, roc)
            found += [(name, picture) for picture in scene.protocol.pictures(scene)]
    return found


def _first_runs(
    protocol: str, runs: Sequence[ScoredRun], configs: Sequence[str]
) -> Iterator[tuple[str, tuple[str, Mapping[str, Rows]]]]:
    """Yield the first run with rows of each config, or of any where they are judged together, and these rows."""
    places = [[config] for config in configs] if named(protocol).each_config else [configs]
    for of in places:
        for one in runs:
            detectors = dict(confidences(one)) if protocol == calibration.NAME else one.rows
            if set(of) & set(one.configs) and detectors:
                rows = {name: one.of_configs(rows, of) for name, rows in detectors.items()}
                yield of[0] if named(protocol).each_config else protocol, (one.run.name, rows)
                break
