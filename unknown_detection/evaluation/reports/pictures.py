"""The scenes that protocols draw a report's pictures of: the figures of each training method, and its first run.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from unknown_detection.evaluation.protocols import calibration
from unknown_detection.evaluation.protocols.figures import AS_PUBLISHED
from unknown_detection.evaluation.protocols.pictures import Scene
from unknown_detection.evaluation.protocols.registry import named
from unknown_detection.evaluation.reports.inputs import ScoredRun
from unknown_detection.evaluation.reports.judging import confidences


def pictures(
    scored: Sequence[ScoredRun], figures: pd.DataFrame, wanted: Mapping[str, Sequence[str]], roc: str | None = None
) -> list[Scene]:
    """Set the scene of each protocol's pictures, which are drawn as `scene.protocol.pictures(scene)` goes on.

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
            protocol, rows, names = named(name), {}, {}
            configs = wanted.get(name) or lines["config"].unique().tolist()
            for of in [[config] for config in configs] if protocol.each_config else [configs]:
                for one in runs:  # the first with rows of the config
                    detectors = dict(confidences(one)) if name == calibration.NAME else one.rows
                    if set(of) & set(one.configs) and detectors:
                        place = of[0] if protocol.each_config else name
                        rows[place] = {detector: one.of_configs(every, of) for detector, every in detectors.items()}
                        names[place] = one.run.name
                        break
            found.append(Scene(protocol, lines, rows, names, labels, roc))
    return found
