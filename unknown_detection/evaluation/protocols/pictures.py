"""Chooses the rows and figures of the pictures that protocols draw.

Tested by `tests/evaluation/display/test_plots.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from unknown_detection.evaluation.display import plots
from unknown_detection.evaluation.display.names import BASELINE, detector_name, figure_metric, set_name
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.metrics.metrics import METRICS, aurc, risk_coverage
from unknown_detection.evaluation.protocols.protocol import Protocol, best_first
from unknown_detection.evaluation.scoring.rows import Rows, rank_known_unknown

HELD_OUT_SPLITS = ("held_out", "validation")
"""In-distribution rows outside training and test, the first that has scores."""

_PANELS = 12
"""Number of detectors whose scores are plotted: the best by the headline figure, and the baseline."""


@dataclass(frozen=True)
class Picture:
    """A picture, of matplotlib; `name` is that of its files, without an ending."""

    name: str
    title: str
    figure: Any


@dataclass(frozen=True)
class Scene:
    """The input of a protocol's pictures: the figures of one training method, and scores of its first run.

    Attributes:
        figures: the protocol's figures of all runs, on all rows.
        rows: scored rows by detector, for each config; for all configs together where these are judged so.
        runs: name of the run that the rows of each config are of.
        labels: what the names and titles of pictures end in, such as the training method.
        chosen: the detector of ROC curves; None for the best.
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
        if changed:
            unit = "gain (points)" if figure_metric(name).better == "higher" else "reduction (%)"
            where = ", ".join([config, *scene.labels])
            title = f"{figure_metric(name).title} against {baseline}: {scene.protocol.title} on {where}"
            figure = plots.plot_changes(changed, title=title, axis=f"{unit}, right of 0 is better than {baseline}")
            yield Picture(scene.name("changes", scene.protocol.name, config), title, figure)


def _against_baseline(headline: pd.DataFrame, better: str) -> dict[str, tuple[float, float | None]]:
    """Return mean and deviation of each detector's change: in points, or in percent if lower is better."""
    values = headline.pivot(index="run", columns="detector", values="value")
    values = values.reindex(columns=headline["detector"].unique())
    if BASELINE not in values:
        return {}
    # A run without the baseline combines several models, as an ensemble; it is compared with their mean.
    baseline = values.pop(BASELINE)
    baseline = baseline.fillna(baseline.mean())
    change = values.sub(baseline, axis=0) * 100
    if better == "lower":
        change = (-change).div(baseline.where(baseline > 0), axis=0)
    undefined = headline[headline["value"].isna()]["detector"].unique()
    spread = change.std()
    return {
        detector_name(name): (float(mean), None if np.isnan(spread[name]) else float(spread[name]))
        for name, mean in change.mean().items()
        if np.isfinite(mean) and name not in undefined
    }


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
        figure = plots.plot_heatmap(
            means.to_numpy(), list(map(detector_name, means.index)), list(map(set_name, means.columns)),
            title=title, bar="AUROC (%)",
        )  # fmt: skip
        yield Picture(scene.name("auroc", scene.protocol.name, *names), title, figure)


def roc_curves(scene: Scene) -> Iterator[Picture]:
    """Plot the ROC curves of the chosen detector, known rows of `test` against each set of unknown ones."""
    for config, of_config in scene.rows.items():
        ranked = scene.ranked(config)
        name = scene.chosen or (ranked[0] if ranked else "")
        if name not in of_config:
            continue
        rows = of_config[name]
        known, curves = rows.where(rows.known & (rows.split == "test")), {}
        for split, unknown in rows.where(~rows.known).by("split").items():
            ranking = rank_known_unknown(known, unknown)
            rates = ranking.unknown / len(unknown), ranking.known / len(known)
            label = "unknown rows" if split == "test" else set_name(split)
            curves[label] = (*rates, 100 * METRICS["auroc"].of(ranking))
        remark = "" if scene.chosen else ", the best detector"
        title = f"ROC curves of {detector_name(name)}{remark} on {config}, {scene.runs[config]}"
        yield Picture(scene.name("roc", scene.protocol.name, config), title, plots.plot_roc(curves, title=title))


def densities(scene: Scene) -> Iterator[Picture]:
    """Plot scores by role, of the best detectors and the baseline."""
    for config, of_config in scene.rows.items():
        names = scene.ranked(config)[:_PANELS]
        if BASELINE in of_config and BASELINE not in names:
            names[-1] = BASELINE
        remark = f", {len(names)} of {len(of_config)} detectors, best first" if len(names) < len(of_config) else ""
        place = scene.runs[config] if config == scene.protocol.name else f"{config}, {scene.runs[config]}"
        title = f"Scores by role on {place}{remark}"
        scores = {}
        for name in names:
            rows = of_config[name]
            scores[detector_name(name)] = {
                role: rows.score[rows.role == role] for role in np.unique(rows.role).tolist()
            }
        yield Picture(scene.name("densities", config), title, plots.plot_densities(scores, title=title))


def risk_coverage_curves(scene: Scene) -> Iterator[Picture]:
    """Plot risk-coverage curves, in which unknown rows count as errors."""
    for config, of_config in scene.rows.items():
        curves = {}
        for name, rows in of_config.items():
            if rows.prediction is not None:
                errors = rows.wrong | ~rows.known
                curves[detector_name(name)] = (*risk_coverage(rows.score, errors), 1000 * aurc(rows.score, errors))
        if curves:
            title = f"Risk-coverage curves of unknown detection on {config}, {scene.runs[config]}"
            figure = plots.plot_risk_coverage(curves, baseline=detector_name(BASELINE), title=title)
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
                names, values = [*map(detector_name, varied)], np.asarray(np.corrcoef([*varied.values()]))
                shades = plots.Shades((-100, 100), "RdBu_r", "{:z.0f}")
                figure = plots.plot_heatmap(values, names, names, title=title, bar="correlation (%)", shades=shades)
                yield Picture(scene.name("correlation", config), title, figure)
                break
