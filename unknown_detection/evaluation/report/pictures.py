"""Chooses the rows and figures of the four plots that protocols draw: ROC, densities, heat map, risk-coverage.

Tested by `tests/evaluation/report/test_plots.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.frame import TEST, against, by
from unknown_detection.evaluation.metrics.metrics import METRICS, aurc, risk_coverage
from unknown_detection.evaluation.protocols.protocol import Plot, Protocol
from unknown_detection.evaluation.report import plots
from unknown_detection.evaluation.report.names import BASELINE, set_name, shown_name
from unknown_detection.evaluation.report.plots import INK

_PANELS = 12
"""Number of detectors whose scores are plotted: the best by the headline figure, and the baseline."""

_CURVES = 5
"""Number of detectors whose risk-coverage curves are named, besides the baseline."""


class Picture(NamedTuple):
    """A picture, of matplotlib; `name` is that of its files, without an ending."""

    name: str
    title: str
    figure: Any


@dataclass(frozen=True)
class Scene:
    """The input of a protocol's pictures: the figures of one training method, and scores of its first run.

    `figures` are of all runs, on all rows; `rows` by detector, for each config, or for all configs together where
    these are judged so, and `runs` the name of the run that they are of. Detectors stand in `order`; names and titles
    of pictures end in `labels`, such as the training method. ROC curves are of the detector `chosen`; None for the
    first.
    """

    protocol: Protocol
    figures: pd.DataFrame
    rows: Mapping[str, Mapping[str, pd.DataFrame]]
    runs: Mapping[str, str]
    order: Sequence[str]
    labels: Sequence[str] = ()
    chosen: str | None = None

    def name(self, *parts: str) -> str:
        """Return a picture's file name."""
        return safe_file_name(*parts, *self.labels)

    def drawn(self, place: str) -> dict[str, pd.DataFrame]:
        """Return the rows to draw by detector, in order."""
        of_place = self.rows[place]
        ordered = [*[name for name in self.order if name in of_place], *of_place]
        return {name: of_place[name][self.protocol.drawn(of_place[name])] for name in dict.fromkeys(ordered)}

    def pictures(self) -> Iterator[Picture]:
        """Draw the protocol's plots."""
        kinds: Mapping[Plot, Any] = {"roc": _roc, "risk_coverage": _risk_coverage, "densities": _densities}
        for plot in self.protocol.plots:
            if plot == "heatmap":
                yield from _heatmap(self)
                continue
            for place in self.rows:
                picture = kinds[plot](self, place, self.drawn(place))
                yield from [] if picture is None else [picture]


def _heatmap(scene: Scene) -> Iterator[Picture]:
    """Plot mean AUROC over runs, detectors x configs and sets of unknowns; nothing for a single column."""
    lines = scene.figures
    matching = lines[(lines["metric"] == "auroc") & (lines["statistic"] == "")]
    matching = matching[matching["setting"] == matching["setting"].iloc[0]] if len(matching) else matching
    sets, configs = matching["unknown"].unique(), matching["config"].unique()
    across = "config" if len(sets) == 1 else "unknown"
    of_configs = (
        matching.groupby("config", sort=False) if scene.protocol.each_config and len(sets) > 1 else [("", matching)]
    )
    for config, group in of_configs if max(len(sets), len(configs)) > 1 else ():
        means = group.pivot_table("value", "detector", across, sort=False)
        means = means.reindex(
            index=[name for name in scene.order if name in means.index], columns=group[across].unique()
        )
        title = (
            f"AUROC by detector and unknowns: {', '.join(filter(None, [scene.protocol.title, config, *scene.labels]))}"
        )
        figure = plots.plot_heatmap(means.rename(index=shown_name, columns=set_name), title=title, bar="AUROC (%)")
        yield Picture(scene.name("auroc", scene.protocol.name, *filter(None, [config])), title, figure)


def _roc(scene: Scene, place: str, rows: Mapping[str, pd.DataFrame]) -> Picture | None:
    """Plot the ROC curves of the chosen detector, known rows of `test` against each set of unknown ones."""
    name = scene.chosen or next(iter(rows))
    if name not in rows:
        return None
    of = rows[name]
    known, curves = of[of["known"] & (of["split"] == TEST)], []
    for split, unknown in by(of[~of["known"]], "split").items():
        ranking = against(known, unknown)
        label = "unknown rows" if split == TEST else set_name(split)
        label = f"{label} (AUROC {100 * METRICS['auroc'].of(ranking):.2f})"
        curves.append(plots.Curve(ranking.unknown / len(unknown), ranking.known / len(known), label))
    remark = "" if scene.chosen else ", the best detector"
    title = f"ROC curves of {shown_name(name)}{remark} on {place}, {scene.runs[place]}"
    axes = "FPR: unknown rows accepted (%)", "TPR: known rows accepted (%)"
    figure = plots.plot_curves(curves, title=title, axes=axes, level=95)
    return Picture(scene.name("roc", scene.protocol.name, place), title, figure)


def _densities(scene: Scene, place: str, rows: Mapping[str, pd.DataFrame]) -> Picture:
    """Plot scores by role, of the best detectors and the baseline."""
    names = [*rows][:_PANELS]
    if BASELINE in rows and BASELINE not in names:
        names[-1] = BASELINE
    remark = f", {len(names)} of {len(rows)} detectors, best first" if len(names) < len(rows) else ""
    where = scene.runs[place] if place == scene.protocol.name else f"{place}, {scene.runs[place]}"
    title = f"Scores by role on {where}{remark}"
    scores = {
        shown_name(name): {role: of["score"].to_numpy() for role, of in by(rows[name], "role").items()}
        for name in names
    }
    return Picture(scene.name("densities", place), title, plots.plot_densities(scores, title=title))


def _risk_coverage(scene: Scene, place: str, rows: Mapping[str, pd.DataFrame]) -> Picture | None:
    """Plot risk-coverage curves, in which unknown rows count as errors, and name the first and the baseline."""
    rated = {
        name: (aurc(of["score"], errors), *risk_coverage(of["score"], errors))
        for name, of in rows.items()
        if "wrong" in of
        for errors in [of["wrong"] | ~of["known"]]
    }
    if not rated:
        return None
    named = {BASELINE, *[name for name in rated if name != BASELINE][:_CURVES]}
    curves = [
        plots.Curve(
            coverage,
            risk,
            f"{shown_name(name)} ({1000 * area:.1f})" if name in named else "",
            INK if name == BASELINE else "",
        )
        for name, (area, coverage, risk) in rated.items()
    ]
    # The first few rows make a curve jump between 0 and 1; the axis is scaled to the rest.
    top = max(float(curve.y[len(curve.y) // 50 :].max()) for curve in curves)
    title = f"Risk-coverage curves of unknown detection on {place}, {scene.runs[place]}"
    axes = ("coverage (%)", "risk (% errors)")
    options: dict[str, Any] = {"top": max(108 * top, 1), "legend": "AURC × 1,000", "columns": 2}
    figure = plots.plot_curves(curves, title=title, axes=axes, **options)
    return Picture(scene.name("risk-coverage", place), title, figure)
