"""Chooses the rows and figures of the pictures that protocols draw.

Tested by `tests/evaluation/display/test_plots.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from unknown_detection.evaluation.display import plots
from unknown_detection.evaluation.display.plots import INK
from unknown_detection.evaluation.display.tables import BASELINE, detector_name, figure_metric, set_name
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.metrics.metrics import METRICS, aurc, risk_coverage
from unknown_detection.evaluation.protocols.protocol import Protocol, best_first
from unknown_detection.evaluation.scoring.rows import Rows

HELD_OUT_SPLITS = ("held_out", "validation")
"""In-distribution rows outside training and test, the first that has scores."""

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
    these are judged so, and `runs` the name of the run that they are of. The names and titles of pictures end in
    `labels`, such as the training method. ROC curves are of the detector `chosen`; None for the best.
    """

    protocol: Protocol
    figures: pd.DataFrame
    rows: Mapping[str, Mapping[str, Rows]]
    runs: Mapping[str, str]
    labels: Sequence[str] = ()
    chosen: str | None = None

    def name(self, *parts: str) -> str:
        """Return a picture's file name."""
        return safe_file_name(*parts, *self.labels)

    def where(self, chosen: Callable[[Rows], npt.NDArray[np.bool_]]) -> Scene:
        """Select some of the rows."""
        selected = {
            config: {name: rows.where(chosen(rows)) for name, rows in by_detector.items()}
            for config, by_detector in self.rows.items()
        }
        return replace(self, rows=selected)

    def ranked(self, config: str) -> list[str]:
        """Return the detectors with rows of a config, the best by the headline figure first."""
        lines = self.protocol.headline(self.figures)
        lines = lines[lines["config"] == config] if self.protocol.each_config else lines
        means = lines.groupby("detector", sort=False)["value"].mean()
        better = figure_metric(lines["metric"].iloc[0]).better if len(lines) else "higher"
        ordered = [means.index[place] for place in best_first(means, better)]
        return [name for name in dict.fromkeys([*ordered, *self.rows[config]]) if name in self.rows[config]]


def changes(scene: Scene) -> Iterator[Picture]:
    """Plot the change of the headline figure against the baseline, run by run."""
    baseline = detector_name(BASELINE)
    for (config, name), group in scene.protocol.headline(scene.figures).groupby(["config", "metric"], sort=False):
        changed = _against_baseline(group, figure_metric(name).better)
        if len(changed):
            unit = "gain (points)" if figure_metric(name).better == "higher" else "reduction (%)"
            where = ", ".join([config, *scene.labels])
            title = f"{figure_metric(name).title} against {baseline}: {scene.protocol.title} on {where}"
            figure = plots.plot_changes(changed, title=title, axis=f"{unit}, right of 0 is better than {baseline}")
            yield Picture(scene.name("changes", scene.protocol.name, config), title, figure)


def _against_baseline(headline: pd.DataFrame, better: str) -> pd.DataFrame:
    """Return mean and deviation of each detector's change: in points, or in percent if lower is better."""
    values = headline.pivot(index="run", columns="detector", values="value")
    if BASELINE not in values:
        return pd.DataFrame()
    # A run without the baseline combines several models, as an ensemble; it is compared with their mean.
    baseline = values.pop(BASELINE)
    baseline = baseline.fillna(baseline.mean())
    change = values.sub(baseline, axis=0) * 100
    if better == "lower":
        change = (-change).div(baseline.where(baseline > 0), axis=0)
    changed = pd.DataFrame({"mean": change.mean(), "std": change.std()})
    undefined = headline[headline["value"].isna()]["detector"]
    return changed[np.isfinite(changed["mean"]) & ~changed.index.isin(undefined)].rename(detector_name)


def heatmap(scene: Scene, setting: str, *, across: str = "unknown", by: Sequence[str] = ()) -> Iterator[Picture]:
    """Plot mean AUROC over runs in a task, detectors x sets of unknowns, the best detector on top.

    The column `across` distinguishes the sets; each value of the columns `by` has a picture of its own.
    """
    lines = scene.figures
    matching = lines[(lines["setting"] == setting) & (lines["metric"] == "auroc") & (lines["statistic"] == "")]
    for names, group in matching.groupby([*by], sort=False) if by else [((), matching)]:
        sets, detectors = (group[name].unique() for name in (across, "detector"))
        if len(sets) < 2:
            continue  # bars are clearer
        means = group.pivot_table("value", "detector", across, sort=False).reindex(index=detectors, columns=sets)
        means = means.iloc[best_first(means.mean(axis=1, skipna=False).fillna(0), "higher")]
        title = f"AUROC by detector and unknowns: {', '.join([scene.protocol.title, *names, *scene.labels])}"
        figure = plots.plot_heatmap(means.rename(index=detector_name, columns=set_name), title=title, bar="AUROC (%)")
        yield Picture(scene.name("auroc", scene.protocol.name, *names), title, figure)


def roc_curves(scene: Scene) -> Iterator[Picture]:
    """Plot the ROC curves of the chosen detector, known rows of `test` against each set of unknown ones."""
    for config, of_config in scene.rows.items():
        ranked = scene.ranked(config)
        name = scene.chosen or (ranked[0] if ranked else "")
        if name not in of_config:
            continue
        rows = of_config[name]
        known, curves = rows.where(rows.known & (rows.split == "test")), []
        for split, unknown in rows.where(~rows.known).by("split").items():
            ranking = known.against(unknown)
            label = "unknown rows" if split == "test" else set_name(split)
            label = f"{label} (AUROC {100 * METRICS['auroc'].of(ranking):.2f})"
            curves.append(plots.Curve(ranking.unknown / len(unknown), ranking.known / len(known), label))
        remark = "" if scene.chosen else ", the best detector"
        title = f"ROC curves of {detector_name(name)}{remark} on {config}, {scene.runs[config]}"
        axes = "FPR: unknown rows accepted (%)", "TPR: known rows accepted (%)"
        figure = plots.plot_curves(curves, title=title, axes=axes, diagonal="", level=95)
        yield Picture(scene.name("roc", scene.protocol.name, config), title, figure)


def densities(scene: Scene) -> Iterator[Picture]:
    """Plot scores by role, of the best detectors and the baseline."""
    for config, of_config in scene.rows.items():
        names = scene.ranked(config)[:_PANELS]
        if BASELINE in of_config and BASELINE not in names:
            names[-1] = BASELINE
        remark = f", {len(names)} of {len(of_config)} detectors, best first" if len(names) < len(of_config) else ""
        place = scene.runs[config] if config == scene.protocol.name else f"{config}, {scene.runs[config]}"
        title = f"Scores by role on {place}{remark}"
        scores = {
            detector_name(name): {role: of.score[of.role == role] for role in np.unique(of.role).tolist()}
            for name, of in ((name, of_config[name]) for name in names)
        }
        yield Picture(scene.name("densities", config), title, plots.plot_densities(scores, title=title))


def risk_coverage_curves(scene: Scene) -> Iterator[Picture]:
    """Plot risk-coverage curves, in which unknown rows count as errors, and name the best and the baseline."""
    for config, of_config in scene.rows.items():
        rated = {
            name: (aurc(rows.score, errors), *risk_coverage(rows.score, errors))
            for name, rows in of_config.items()
            if rows.prediction is not None
            for errors in [rows.wrong | ~rows.known]
        }
        if not rated:
            continue
        best = sorted(rated, key=lambda name: (rated[name][0], name))
        named = {BASELINE, *[name for name in best if name != BASELINE][:_CURVES]}
        curves = [
            plots.Curve(
                coverage,
                risk,
                f"{detector_name(name)} ({1000 * area:.1f})" if name in named else "",
                INK if name == BASELINE else "",
            )
            for name in best
            for area, coverage, risk in [rated[name]]
        ]
        # The first few rows make a curve jump between 0 and 1; the axis is scaled to the rest.
        top = max(float(curve.y[len(curve.y) // 50 :].max()) for curve in curves)
        title = f"Risk-coverage curves of unknown detection on {config}, {scene.runs[config]}"
        axes, legend = ("coverage (%)", "risk (% errors)"), "AURC × 1,000, best first"
        figure = plots.plot_curves(curves, title=title, axes=axes, top=max(108 * top, 1), legend=legend, columns=2)
        yield Picture(scene.name("risk-coverage", config), title, figure)


def correlations(scene: Scene) -> Iterator[Picture]:
    """Plot correlations of scores on in-distribution rows: held-out ones, else those of `test` (BROAD, figure 3).

    The paper calls them covariances; detectors have units of their own, so they are of standardized scores (ours).
    """
    for config, of_config in scene.rows.items():
        for split in (*HELD_OUT_SPLITS, "test"):
            known = {name: rows.score[rows.known & (rows.split == split)] for name, rows in of_config.items()}
            varied = {name: scores for name, scores in known.items() if len(scores) > 1 and np.ptp(scores) > 0}
            if len(varied) > 1:
                title = f"Correlation of scores on in-distribution rows of {split}, {scene.runs[config]}"
                correlation = pd.DataFrame(varied).rename(columns=detector_name).corr()
                shades: dict[str, Any] = {"limits": (-100, 100), "colors": "RdBu_r", "text": "{:z.0f}"}
                figure = plots.plot_heatmap(correlation, title=title, bar="correlation (%)", **shades)
                yield Picture(scene.name("correlation", config), title, figure)
                break
