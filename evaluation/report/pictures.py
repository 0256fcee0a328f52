"""Chooses a report's pictures: which rows and figures to plot.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evaluation.files import file_name
from evaluation.metrics.metrics import METRICS, aurc, risk_coverage
from evaluation.protocols import broad, facets, unknown_detection
from evaluation.protocols.figures import AS_PUBLISHED
from evaluation.protocols.registry import PROTOCOLS
from evaluation.protocols.results import Line, grouped
from evaluation.report import plots
from evaluation.report.layouts import BASELINE, headlines
from evaluation.report.scored import ScoredRun
from evaluation.report.tables import display_name
from evaluation.scoring.rows import Rows, known_rows, unknown_splits

_MAPPED = {unknown_detection.NAME: "ood_detection", broad.NAME: "dsd", facets.NAME: "ood_detection"}
"""Settings for which AUROC is plotted as a heatmap, with a column per OoD set."""


@dataclass(frozen=True)
class Picture:
    """A picture to be drawn.

    Attributes:
        protocol: the protocol of its rows or figures.
        name: name of its files, without their ending.
        title: one-line title.
        draw: returns the matplotlib figure.
    """

    protocol: str
    name: str
    title: str
    draw: Callable[[], Any]

    def save(self, folder: Path) -> list[str]:
        """Draw the picture and write it as PNG and SVG; return the names of the files."""
        return plots.save(self.draw(), folder, self.name)


def pictures(
    scored: Sequence[ScoredRun], figures: pa.Table, wanted: Mapping[str, Sequence[str]], titles: Mapping[str, str]
) -> list[Picture]:
    """Choose the pictures of a report.

    Args:
        scored: the loaded scores files.
        figures: all figures, the result of `results.tidy`.
        wanted: the configs of each protocol.
        titles: display names of the detectors.

    Returns:
        For each training method: risk-coverage curves and score densities of the first run for each config of unknown
        detection and FACETS; changes against the baseline; and heatmaps of AUROC.
    """
    variants = list(dict.fromkeys(one.run.variant for one in scored))
    found: list[Picture] = []
    for variant in variants:
        runs = [one for one in scored if one.run.variant == variant]
        labels = [variant] if len(variants) > 1 else []
        for protocol in (unknown_detection.NAME, facets.NAME):
            for config in wanted.get(protocol, ()):
                of_config = [one for one in runs if config in one.configs]
                if of_config:
                    first = min(of_config, key=lambda one: (one.run.seed is None, one.run.seed or 0, one.run.name))
                    found += _of_rows(first, protocol, config, titles, labels)
        lines = [line for line in figures.to_pylist() if line["variant"] == variant and line["rows"] == AS_PUBLISHED]
        found += _changes(lines, titles, labels)
        found += _heatmaps(lines, titles, labels)
    return found


def _of_rows(
    scored: ScoredRun, protocol: str, config: str, titles: Mapping[str, str], labels: Sequence[str]
) -> Iterator[Picture]:
    evaluated = {
        titles.get(name, name): _evaluated(rows.where(rows.config == config), protocol)
        for name, rows in scored.rows.items()
    }
    where = ", ".join([config, scored.run.name])
    if any(rows.prediction is not None for rows in evaluated.values()):
        title = f"Risk-coverage curves of unknown detection on {where}"
        draw = partial(_draw_curves, evaluated, titles.get(BASELINE, BASELINE), title)
        yield Picture(protocol, file_name("risk-coverage", config, *labels), title, draw)
    title = f"Densities of scores by role on {where}"
    yield Picture(protocol, file_name("densities", config, *labels), title, partial(_draw_densities, evaluated, title))


def _evaluated(rows: Rows, protocol: str) -> Rows:
    """Return the rows of a config that the protocol evaluates."""
    if protocol == facets.NAME:
        return rows.where(rows.split == "test")
    splits = list(unknown_splits(rows, ("near_ood", "far_ood")))
    known_rows(rows, "test")
    return rows.where((rows.known & (rows.split == "test")) | np.isin(rows.split, splits))


def _draw_curves(evaluated: Mapping[str, Rows], baseline: str, title: str) -> Any:
    curves = []
    for name, rows in evaluated.items():
        if rows.prediction is not None:
            errors = rows.wrong | ~rows.known
            curves.append(plots.Curve(name, *risk_coverage(rows.score, errors), 1000 * aurc(rows.score, errors)))
    return plots.risk_coverage(curves, baseline=baseline, title=title)


def _draw_densities(evaluated: Mapping[str, Rows], title: str) -> Any:
    scores = {
        name: {role: rows.score[rows.role == role] for role in np.unique(rows.role).tolist()}
        for name, rows in evaluated.items()
    }
    return plots.densities(scores, title=title)


def _changes(lines: Sequence[Line], titles: Mapping[str, str], labels: Sequence[str]) -> Iterator[Picture]:
    """Plot the change of each protocol's headline figure against the baseline, run by run."""
    for protocol in PROTOCOLS:
        for (config, name), found in grouped(headlines(lines, protocol), "config", "metric"):
            metric = METRICS[name]
            values = {(line["run"], line["detector"]): line["value"] for line in found}
            changed = _against_baseline(values, name, titles)
            if changed:
                unit = "gain in points" if metric.better == "higher" else "reduction in percent"
                baseline = titles.get(BASELINE, BASELINE)
                where = ", ".join([config, *labels])
                title = f"{metric.title} against {baseline}: {PROTOCOLS[protocol].title} on {where}"
                axis = f"{unit}; right of 0 is better than {baseline}"
                draw = partial(plots.changes, changed, title=title, axis=axis)
                yield Picture(protocol, file_name("changes", protocol, config, *labels), title, draw)


def _against_baseline(
    values: Mapping[tuple[str, str], float], metric: str, titles: Mapping[str, str]
) -> dict[str, tuple[float, float | None]]:
    """Return mean and deviation of each detector's change: in points, or in percent if lower is better."""
    baselines = {run: value for (run, detector), value in values.items() if detector == BASELINE}
    changes: dict[str, list[float]] = {}
    for (run, detector), value in values.items():
        if not baselines or detector == BASELINE:
            continue
        # A run without the baseline combines several models, as an ensemble; it is compared with their mean.
        baseline = baselines.get(run, float(np.mean(list(baselines.values()))))
        if METRICS[metric].better == "higher":
            changes.setdefault(detector, []).append(100 * (value - baseline))
        elif baseline > 0:
            changes.setdefault(detector, []).append(100 * (baseline - value) / baseline)
    return {
        titles.get(name, name): (float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else None)
        for name, found in changes.items()
        if np.isfinite(found).all()
    }


def _heatmaps(lines: Sequence[Line], titles: Mapping[str, str], labels: Sequence[str]) -> Iterator[Picture]:
    """Plot mean AUROC over runs, detectors x OoD sets, with the best detector on top."""
    for protocol, setting in _MAPPED.items():
        named = {"protocol": protocol, "setting": setting, "metric": "auroc", "statistic": ""}
        matching = [line for line in lines if named.items() <= line.items()]
        # FACETS distinguishes OoD sets by config, the others by split; split names are specific to a config.
        each = ["config"] if protocol == unknown_detection.NAME else []
        for names, found in grouped(matching, *each):
            where = ", ".join([PROTOCOLS[protocol].title, *names, *labels])
            title = f"AUROC by detector and unknowns: {where}"
            column = "config" if protocol == facets.NAME else "unknown"
            if len({line[column] for line in found}) < 2:
                continue  # bars are clearer
            draw = partial(_draw_map, found, column, titles, title)
            yield Picture(protocol, file_name("auroc", protocol, *names, *labels), title, draw)


def _draw_map(lines: Sequence[Line], column: str, titles: Mapping[str, str], title: str) -> Any:
    cells = {names: [line["value"] for line in found] for names, found in grouped(lines, "detector", column)}
    across = list(dict.fromkeys(line[column] for line in lines))
    down = list(dict.fromkeys(line["detector"] for line in lines))
    values = np.array([[np.mean(cells.get((detector, name), np.nan)) for name in across] for detector in down])
    order = np.argsort(-np.nan_to_num(np.mean(values, axis=1)), kind="stable")
    names = [titles.get(down[number], down[number]) for number in order]
    heads = [display_name(name) for name in across]
    return plots.heatmap(values[order], names, heads, title=title, bar="AUROC in percent")
