"""Chooses a report's pictures: which rows and figures to plot.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unknown_detection.evaluation.files import file_name
from unknown_detection.evaluation.metrics.metrics import aurc, risk_coverage
from unknown_detection.evaluation.protocols import broad, calibration, facets, unknown_detection
from unknown_detection.evaluation.protocols.figures import AS_PUBLISHED
from unknown_detection.evaluation.protocols.registry import PROTOCOLS
from unknown_detection.evaluation.protocols.results import Line, grouped
from unknown_detection.evaluation.reports import plots
from unknown_detection.evaluation.reports.inputs import ScoredRun
from unknown_detection.evaluation.reports.judging import confidences
from unknown_detection.evaluation.reports.layouts import headlines
from unknown_detection.evaluation.reports.names import BASELINE, detector_name, metric, set_name
from unknown_detection.evaluation.reports.plots import Floats
from unknown_detection.evaluation.scoring.rows import Rows, unknown_splits

_MAPPED = {unknown_detection.NAME: "ood_detection", broad.NAME: "dsd", facets.NAME: "ood_detection"}
"""Settings for which AUROC is plotted as a heatmap, with a column per OoD set."""

HELD_OUT_SPLITS = ("held_out", "validation")
"""In-distribution rows outside training and test, the first that has scores."""

_PANELS = 12
"""Number of detectors whose scores are plotted: the best by the headline figure, and the baseline."""


@dataclass(frozen=True)
class Picture:
    """A picture to be drawn of a protocol's rows or figures; `name` is that of its files, without an ending."""

    protocol: str
    name: str
    title: str
    draw: Callable[..., Any]

    def figure(self) -> Any:
        """Draw it."""
        return self.draw(title=self.title)


def pictures(scored: Sequence[ScoredRun], lines: Sequence[Line], wanted: Mapping[str, Sequence[str]]) -> list[Picture]:
    """Choose the pictures of a report.

    Returns:
        For each training method: heatmaps of AUROC, changes against the baseline, risk-coverage curves and score
        densities of the first run for each config of unknown detection and FACETS, reliability diagrams, and, for
        BROAD, densities and correlations of the first run's scores.
    """
    found: list[Picture] = []
    variants = list(dict.fromkeys(one.run.variant for one in scored))
    for variant in variants:
        runs = [one for one in scored if one.run.variant == variant]
        runs.sort(key=lambda one: (one.run.seed is None, one.run.seed or 0, one.run.name))
        labels = [variant] if len(variants) > 1 else []
        mine = [line for line in lines if line["variant"] == variant and line["rows"] == AS_PUBLISHED]
        found += _heatmaps(mine, labels)
        found += _changes(mine, labels)
        for protocol in (unknown_detection.NAME, facets.NAME):
            for config in wanted.get(protocol, ()):
                first = next((one for one in runs if config in one.configs), None)
                found += [] if first is None else _of_rows(first, protocol, config, mine, labels)
        first = next((one for one in runs if set(wanted.get(broad.NAME, ())) & set(one.configs)), None)
        found += [] if first is None else _of_broad(first, wanted[broad.NAME], mine, labels)
        for config in dict.fromkeys(line["config"] for line in mine if line["protocol"] == calibration.NAME):
            confident = next(one for one in runs if config in one.configs and confidences(one))
            title = f"Reliability on {config}, {confident.run.name}"
            name = file_name(calibration.NAME, config, *labels)
            found.append(Picture(calibration.NAME, name, title, partial(_draw_reliability, confident, config)))
    return found


def _of_rows(
    scored: ScoredRun, protocol: str, config: str, lines: Sequence[Line], labels: Sequence[str]
) -> Iterator[Picture]:
    evaluated = {name: _evaluated(rows.where(rows.config == config), protocol) for name, rows in scored.rows.items()}
    where = f"{config}, {scored.run.name}"
    if any(rows.prediction is not None for rows in evaluated.values()):
        title = f"Risk-coverage curves of unknown detection on {where}"
        yield Picture(protocol, file_name("risk-coverage", config, *labels), title, partial(_draw_curves, evaluated))
    best = [line for line in headlines(lines, protocol) if line["config"] == config]
    yield _densities(evaluated, best, protocol, (config, where), labels)


def _densities(
    evaluated: Mapping[str, Rows], best: Sequence[Line], protocol: str, place: tuple[str, str], labels: Sequence[str]
) -> Picture:
    """Plot scores of the best detectors by a protocol's headline figures; `place` is for the name and the title."""
    best = [line for line in best if line["detector"] in evaluated]
    sign = -1 if best and metric(best[0]["metric"]).better == "higher" else 1
    order = list(dict.fromkeys(line["detector"] for line in sorted(best, key=lambda line: sign * line["value"])))
    names = (order or list(evaluated))[:_PANELS]
    if BASELINE in evaluated and BASELINE not in names:
        names[-1] = BASELINE
    which = f", {len(names)} of {len(evaluated)} detectors, best first" if len(names) < len(evaluated) else ""
    title = f"Scores by role on {place[1]}{which}"
    chosen = {name: evaluated[name] for name in names}
    return Picture(protocol, file_name("densities", place[0], *labels), title, partial(_draw_densities, chosen))


def _of_broad(
    scored: ScoredRun, configs: Sequence[str], lines: Sequence[Line], labels: Sequence[str]
) -> Iterator[Picture]:
    """Plot scores by kind of shift (BROAD, figure 2), and their correlations on in-distribution rows (figure 3).

    By these correlations the paper chose the parts of Ens-V and Ens-R. They are of held-out rows as there, else of
    those of `test`. The paper calls them covariances; detectors have units of their own, so they are of standardized
    scores here (ours).
    """
    of_configs = {name: scored.of_configs(rows, configs) for name, rows in scored.rows.items()}
    shown = {name: rows.where(~np.isin(rows.split, HELD_OUT_SPLITS)) for name, rows in of_configs.items()}
    yield _densities(shown, headlines(lines, broad.NAME), broad.NAME, (broad.NAME, scored.run.name), labels)
    for split in (*HELD_OUT_SPLITS, "test"):
        known = {name: rows.score[rows.known & (rows.split == split)] for name, rows in of_configs.items()}
        varied = {name: scores for name, scores in known.items() if len(scores) > 1 and np.ptp(scores) > 0}
        if len(varied) > 1:
            title = f"Correlation of scores on in-distribution rows of {split}, {scored.run.name}"
            name = file_name("correlation", broad.NAME, *labels)
            yield Picture(broad.NAME, name, title, partial(_draw_correlations, varied))
            return


def _draw_correlations(scores: Mapping[str, Floats], title: str) -> Any:
    names = [detector_name(name) for name in scores]
    values = np.asarray(np.corrcoef(np.stack(list(scores.values()))))
    shades = plots.Shades((-100, 100), "RdBu_r", "{:z.0f}")
    return plots.heatmap(values, names, names, title=title, bar="correlation (%)", shades=shades)


def _evaluated(rows: Rows, protocol: str) -> Rows:
    """Return the rows of a config that the protocol evaluates."""
    if protocol == facets.NAME:
        return rows.where(rows.split == "test")
    splits = list(unknown_splits(rows, ("near_ood", "far_ood")))
    return rows.where((rows.known & (rows.split == "test")) | np.isin(rows.split, splits))


def _draw_curves(evaluated: Mapping[str, Rows], title: str) -> Any:
    curves = {}
    for name, rows in evaluated.items():
        if rows.prediction is not None:
            errors = rows.wrong | ~rows.known
            curves[detector_name(name)] = (*risk_coverage(rows.score, errors), 1000 * aurc(rows.score, errors))
    return plots.risk_coverage(curves, baseline=detector_name(BASELINE), title=title)


def _draw_densities(evaluated: Mapping[str, Rows], title: str) -> Any:
    scores = {
        detector_name(name): {role: rows.score[rows.role == role] for role in np.unique(rows.role).tolist()}
        for name, rows in evaluated.items()
    }
    return plots.densities(scores, title=title)


def _draw_reliability(scored: ScoredRun, config: str, title: str) -> Any:
    bins = {}
    for name, rows in confidences(scored):
        found = calibration.reliability(rows.where(rows.config == config))
        if found is not None:
            bins[detector_name(name)] = found
    return plots.reliability(bins, title=title)


def _changes(lines: Sequence[Line], labels: Sequence[str]) -> Iterator[Picture]:
    """Plot the change of each protocol's headline figure against the baseline, run by run."""
    for protocol in PROTOCOLS:
        for (config, name), found in grouped(headlines(lines, protocol), "config", "metric"):
            changed = _against_baseline({(line["run"], line["detector"]): line["value"] for line in found}, name)
            if changed:
                unit = "gain (points)" if metric(name).better == "higher" else "reduction (%)"
                baseline = detector_name(BASELINE)
                where = ", ".join([config, *labels])
                title = f"{metric(name).title} against {baseline}: {PROTOCOLS[protocol].title} on {where}"
                draw = partial(plots.changes, changed, axis=f"{unit}, right of 0 is better than {baseline}")
                yield Picture(protocol, file_name("changes", protocol, config, *labels), title, draw)


def _against_baseline(values: Mapping[tuple[str, str], float], name: str) -> dict[str, tuple[float, float | None]]:
    """Return mean and deviation of each detector's change: in points, or in percent if lower is better."""
    baselines = {run: value for (run, detector), value in values.items() if detector == BASELINE}
    changes: dict[str, list[float]] = {}
    for (run, detector), value in values.items():
        if not baselines or detector == BASELINE:
            continue
        # A run without the baseline combines several models, as an ensemble; it is compared with their mean.
        baseline = baselines.get(run, float(np.mean(list(baselines.values()))))
        if metric(name).better == "higher":
            changes.setdefault(detector, []).append(100 * (value - baseline))
        elif baseline > 0:
            changes.setdefault(detector, []).append(100 * (baseline - value) / baseline)
    return {
        detector_name(one): (float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else None)
        for one, found in changes.items()
        if np.isfinite(found).all()
    }


def _heatmaps(lines: Sequence[Line], labels: Sequence[str]) -> Iterator[Picture]:
    """Plot mean AUROC over runs, detectors x OoD sets, with the best detector on top."""
    for protocol, setting in _MAPPED.items():
        named = {"protocol": protocol, "setting": setting, "metric": "auroc", "statistic": ""}
        matching = [line for line in lines if named.items() <= line.items()]
        # FACETS distinguishes OoD sets by config, the others by split; split names are specific to a config.
        for names, found in grouped(matching, *(["config"] if protocol == unknown_detection.NAME else [])):
            column = "config" if protocol == facets.NAME else "unknown"
            if len({line[column] for line in found}) < 2:
                continue  # bars are clearer
            where = ", ".join([PROTOCOLS[protocol].title, *names, *labels])
            title = f"AUROC by detector and unknowns: {where}"
            name = file_name("auroc", protocol, *names, *labels)
            yield Picture(protocol, name, title, partial(_draw_map, found, column))


def _draw_map(lines: Sequence[Line], column: str, title: str) -> Any:
    cells = {names: [line["value"] for line in found] for names, found in grouped(lines, "detector", column)}
    across = list(dict.fromkeys(line[column] for line in lines))
    down = list(dict.fromkeys(line["detector"] for line in lines))
    values = np.array([[np.mean(cells.get((detector, name), np.nan)) for name in across] for detector in down])
    order = np.argsort(-np.nan_to_num(np.mean(values, axis=1)), kind="stable")
    names = [detector_name(down[number]) for number in order]
    return plots.heatmap(values[order], names, [set_name(name) for name in across], title=title, bar="AUROC (%)")
