"""Chooses the rows and figures of the four plots that protocols draw: ROC, densities, heat map, risk-coverage.

Tested by `tests/evaluation/report/test_plots.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.frame import TEST, against, by, by_split, known_rows
from unknown_detection.evaluation.metrics.metrics import METRICS, aurc, risk_coverage
from unknown_detection.evaluation.protocols.protocol import Protocol
from unknown_detection.evaluation.report import plots
from unknown_detection.evaluation.report.names import BASELINE, set_name, shown_name

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

    `figures` are of all runs, on all rows; `rows` those to draw by detector, the best first, for each config, or for
    all configs together where these are judged so, and `runs` the name of the run that they are of. `order` has all
    detectors. Names and titles of pictures end in `labels`, such as the training method.
    """

    protocol: Protocol
    figures: pd.DataFrame
    rows: Mapping[str, Mapping[str, pd.DataFrame]]
    runs: Mapping[str, str]
    order: Sequence[str]
    labels: Sequence[str] = ()

    def pictures(self) -> Iterator[Picture]:
        """Draw the protocol's plots."""
        kinds = {"roc": _roc, "risk_coverage": _risk_coverage, "densities": _densities}
        for plot in self.protocol.plots:
            if plot == "heatmap":
                yield from _heatmap(self)
                continue
            for place, rows in self.rows.items():
                for parts, title, figure in kinds[plot](self, place, rows):
                    yield self.picture(parts, title, figure)

    def picture(self, parts: Sequence[str], title: str, figure: Any) -> Picture:
        """Name a picture."""
        return Picture(safe_file_name(*parts, *self.labels), title, figure)


_Drawn = Iterator[tuple[tuple[str, ...], str, Any]]
"""The parts of a picture's name, its title and figure."""


def _heatmap(scene: Scene) -> Iterator[Picture]:
    """Plot mean AUROC over runs, detectors x configs and sets of unknowns; nothing for a single column."""
    lines = scene.figures
    matching = lines[(lines["metric"] == "auroc") & (lines["statistic"] == "")]
    matching = matching[matching["setting"] == matching["setting"].iloc[0]] if len(matching) else matching
    sets, configs = matching["unknown"].nunique(), matching["config"].nunique()
    across, apart = ("config", False) if sets == 1 else ("unknown", scene.protocol.each_config)
    for config, group in matching.groupby("config" if apart else lambda _: "", sort=False):
        if max(sets, configs) > 1:
            means = group.pivot_table("value", "detector", across, sort=False)
            means = means.reindex([name for name in scene.order if name in means.index])
            of = [scene.protocol.title, *filter(None, [config]), *scene.labels]
            title = f"AUROC by detector and unknowns: {', '.join(of)}"
            figure = plots.plot_heatmap(means.rename(index=shown_name, columns=set_name), title=title, bar="AUROC (%)")
            yield scene.picture(("auroc", scene.protocol.name, *filter(None, [config])), title, figure)


def _roc(scene: Scene, place: str, rows: Mapping[str, pd.DataFrame]) -> _Drawn:
    """Plot the ROC curves of the best detector, known rows of `test` against each set of unknown ones."""
    name, of = next(iter(rows.items()))
    known, curves = known_rows(of), {}
    splits, roles = by_split(of[~of["known"]]), [*plots.ROLES]
    for split, unknown in sorted(splits.items(), key=lambda of: roles.index(of[1]["role"].iloc[0])):
        ranking = against(known, unknown)
        label = "unknown rows" if split == TEST else set_name(split)
        label = f"{label} (AUROC {100 * METRICS['auroc'].of(ranking):.2f})"
        curves[label] = ranking.unknown / len(unknown), ranking.known / len(known)
    title = f"ROC curves of {shown_name(name)}, the best detector, on {place}, {scene.runs[place]}"
    axes = "FPR: unknown rows accepted (%)", "TPR: known rows accepted (%)"
    yield ("roc", scene.protocol.name, place), title, plots.plot_curves(curves, title=title, axes=axes, level=95)


def _densities(scene: Scene, place: str, rows: Mapping[str, pd.DataFrame]) -> _Drawn:
    """Plot scores by role, of the best detectors and the baseline."""
    names = [*rows][:_PANELS]
    if BASELINE in rows and BASELINE not in names:
        names[-1] = BASELINE
    remark = f", {len(names)} of {len(rows)} detectors, best first" if len(names) < len(rows) else ""
    title = f"Scores by role on {place}, {scene.runs[place]}{remark}"
    scores = {
        shown_name(name): {role: of["score"].to_numpy() for role, of in by(rows[name], "role").items()}
        for name in names
    }
    yield ("densities", place), title, plots.plot_densities(scores, title=title)


def _risk_coverage(scene: Scene, place: str, rows: Mapping[str, pd.DataFrame]) -> _Drawn:
    """Plot risk-coverage curves, in which unknown rows count as errors, and name the first and the baseline."""
    curves, others, top = {}, [], 0.0
    predicted = {name: of for name, of in rows.items() if "wrong" in of}
    named = {BASELINE, *[name for name in predicted if name != BASELINE][:_CURVES]}
    for name, of in predicted.items():
        errors = of["wrong"] | ~of["known"]
        coverage, risk = risk_coverage(of["score"], errors)
        # The first few rows make a curve jump between 0 and 1; the axis is scaled to the rest.
        top = max(top, float(risk[len(risk) // 50 :].max()))
        if name in named:
            curves[f"{shown_name(name)} ({1000 * aurc(of['score'], errors):.1f})"] = coverage, risk
        else:
            others.append((coverage, risk))
    if predicted:
        title = f"Risk-coverage curves of unknown detection on {place}, {scene.runs[place]}"
        axes, legend = ("coverage (%)", "risk (% errors)"), "AURC × 1,000"
        figure = plots.plot_curves(curves, others, title=title, axes=axes, top=max(108 * top, 1), legend=legend)
        yield ("risk-coverage", place), title, figure
