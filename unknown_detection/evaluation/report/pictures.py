"""Draws the four plots that a protocol can have: ROC curves, densities, heat map and risk-coverage curves.

Tested by `tests/evaluation/report/test_plots.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.frame import TEST, against, by, by_split, known_rows
from unknown_detection.evaluation.metrics.metrics import METRICS, risk_coverage
from unknown_detection.evaluation.protocols.protocol import AS_PUBLISHED, Protocol
from unknown_detection.evaluation.report import plots
from unknown_detection.evaluation.report.judging import Judged
from unknown_detection.evaluation.report.names import BASELINE, set_name, shown_name
from unknown_detection.terminal.progress import bar

_PANELS = 12
"""Number of detectors whose scores are plotted: the best by the headline figure, and the baseline."""

_CURVES = 5
"""Number of detectors whose risk-coverage curves are named, besides the baseline."""


_VARIANTS = 6
"""Number of training methods or models whose own plots are drawn: the best."""


class Picture(NamedTuple):
    """A picture as a matplotlib figure; `name` is the name of its files without an ending."""

    protocol: Protocol
    name: str
    title: str
    figure: Any


Rows = Mapping[str, pd.DataFrame]
"""The rows to draw by detector, the best first."""


def draw(judged: Judged, *, quiet: bool = True) -> Iterator[Picture]:
    """Draw the plots of each protocol and training method, from the rows of its first run; the best methods first."""
    ordered = dict.fromkeys(variant for order in judged.orders.values() for _, variant in order)
    variants = [*ordered][:_VARIANTS]
    of_all = judged.figures[judged.figures["rows"] == AS_PUBLISHED]
    with bar(len(variants) * len(judged.orders), "drawing", quiet=quiet, unit=" protocols") as progress:
        for variant, (protocol, pairs) in itertools.product(variants, judged.orders.items()):
            figures = of_all[(of_all["variant"] == variant) & (of_all["protocol"] == protocol.name)]
            order, configs = [name for name, of in pairs if of == variant], judged.plan[protocol]
            rows: dict[tuple[str, str], Rows] = {}
            for of in [[config] for config in configs] if protocol.each_config else [configs]:
                runs = (run for run in judged.runs if run.variant == variant and {*of} & {*run.about.configs})
                for run in itertools.islice(runs, 1):
                    whole = {name: run.of_configs(of, name) for name in order if name in run.rows}
                    place = of[0] if protocol.each_config else protocol.name
                    rows[place, run.name] = {name: one[protocol.drawn(one)] for name, one in whole.items()}
            yield from draw_protocol(protocol, figures, rows, order, variant if len(variants) > 1 else "")
            progress.update(1)


def draw_protocol(
    protocol: Protocol,
    figures: pd.DataFrame,
    rows: Mapping[tuple[str, str], Rows],
    order: Sequence[str],
    variant: str = "",
) -> Iterator[Picture]:
    """Draw a protocol's plots of one training method, which titles name if there are several.

    `figures` are those of all runs, on all rows; `rows` are by place and run. A place is a config, or the protocol
    where all configs are judged together. `order` has all detectors, the best first.
    """
    kinds = {"roc": _roc, "risk_coverage": _risk_coverage, "densities": _densities}
    for plot in protocol.plots:
        if plot == "heatmap":
            drawn = _heatmaps(protocol, figures, order, variant)
        else:
            predicted = {
                at: {name: one for name, one in of.items() if plot != "risk_coverage" or "wrong" in one}
                for at, of in rows.items()
            }
            drawn = ((plot, at[0], *kinds[plot](of, ", ".join(at))) for at, of in predicted.items() if of)
        for kind, place, title, figure in drawn:
            parts = filter(None, (kind.replace("_", "-"), protocol.name, place, variant))
            yield Picture(protocol, safe_file_name(*parts), title, figure)


def _heatmaps(
    protocol: Protocol, figures: pd.DataFrame, order: Sequence[str], variant: str
) -> Iterator[tuple[str, str, str, Any]]:
    """Plot mean AUROC over runs, detectors x configs and sets of unknowns; nothing for a single column."""
    areas = figures[(figures["metric"] == "auroc") & (figures["statistic"] == "")]
    areas = areas[areas["setting"] == areas["setting"].iloc[0]] if len(areas) else areas
    sets, configs = areas["unknown"].nunique(), areas["config"].nunique()
    across, apart = ("config", False) if sets == 1 else ("unknown", protocol.each_config)
    for config, group in areas.groupby("config" if apart else lambda _: "", sort=False):
        if max(sets, configs) > 1:
            means = group.pivot_table("value", "detector", across, sort=False)
            means = means.reindex([name for name in order if name in means.index])
            title = f"AUROC by detector and unknowns: {', '.join(filter(None, (protocol.title, config, variant)))}"
            figure = plots.plot_heatmap(means.rename(index=shown_name, columns=set_name), title=title, bar="AUROC (%)")
            yield "auroc", config, title, figure


def _roc(rows: Rows, on: str) -> tuple[str, Any]:
    """Plot the ROC curves of the best detector, known rows of `test` against each set of unknown ones."""
    name, of = next(iter(rows.items()))
    known, curves = known_rows(of), {}
    splits, roles = by_split(of[~of["known"]]), [*plots.ROLES]
    for split, unknown in sorted(splits.items(), key=lambda of: roles.index(of[1]["role"].iloc[0])):
        ranking = against(known, unknown)
        label = "unknown rows" if split == TEST else set_name(split)
        label = f"{label} (AUROC {100 * METRICS['auroc'].value(ranking):.2f})"
        curves[label] = ranking.unknown / len(unknown), ranking.known / len(known)
    title = f"ROC curves of {shown_name(name)}, the best detector, on {on}"
    axes = "FPR: unknown rows accepted (%)", "TPR: known rows accepted (%)"
    return title, plots.plot_curves(curves, title=title, axes=axes, level=95)


def _densities(rows: Rows, on: str) -> tuple[str, Any]:
    """Plot scores by role, of the best detectors and the baseline."""
    names = [*rows][:_PANELS]
    if BASELINE in rows and BASELINE not in names:
        names[-1] = BASELINE
    remark = f", {len(names)} of {len(rows)} detectors, best first" if len(names) < len(rows) else ""
    title = f"Scores by role on {on}{remark}"
    scores = {
        shown_name(name): {role: of["score"].to_numpy() for role, of in by(rows[name], "role").items()}
        for name in names
    }
    return title, plots.plot_densities(scores, title=title)


def _risk_coverage(rows: Rows, on: str) -> tuple[str, Any]:
    """Plot risk-coverage curves, in which unknown rows count as errors, and name the first and the baseline."""
    curves, others, top = {}, [], 0.0
    named = {BASELINE, *[name for name in rows if name != BASELINE][:_CURVES]}
    for name, of in rows.items():
        errors = of["wrong"] | ~of["known"]
        coverage, risk = risk_coverage(of["score"], errors)
        # The first few rows make a curve jump between 0 and 1; the axis is scaled to the rest.
        top = max(top, float(risk[len(risk) // 50 :].max()))
        if name in named:
            curves[f"{shown_name(name)} ({1000 * risk.mean():.1f})"] = coverage, risk
        else:
            others.append((coverage, risk))
    title = f"Risk-coverage curves of unknown detection on {on}"
    axes, legend = ("coverage (%)", "risk (% errors)"), "AURC × 1,000"
    return title, plots.plot_curves(curves, others, title=title, axes=axes, top=max(108 * top, 1), legend=legend)
