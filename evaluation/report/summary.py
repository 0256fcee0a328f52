"""The first page of a report: what it is of, its tables, its pictures, and what the columns of its figures mean.

Tested by `tests/evaluation/report/test_compose.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from evaluation.metrics.metrics import METRICS
from evaluation.protocols import robustness
from evaluation.protocols.registry import PROTOCOLS
from evaluation.protocols.results import COLUMNS, Line, grouped, over_runs
from evaluation.report.layouts import BASELINE, Placed, headlines
from evaluation.report.pictures import Picture
from evaluation.report.tables import ARROWS, markdown, number_text
from evaluation.report.typesetting import number

_ROBUSTNESS = (
    "Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution"
)
_ROBUSTNESS += " Detection Approaches (2020)"


def summary(
    record: Mapping[str, Any],
    figures: pa.Table,
    tables: Sequence[Placed],
    pictures: Sequence[Picture],
    titles: Mapping[str, str],
) -> str:
    """Write the page.

    Args:
        record: what the report is of, as in `report.json`.
        figures: all figures.
        tables: the papers' tables.
        pictures: what was drawn, under `plots/`.
        titles: of detectors.

    Returns:
        Markdown.
    """
    parts = [
        f"# Results on {record['release']}",
        f"Release digest `{record['release_digest']}`. {len(figures):,} figures of {_detectors(len(titles))} are in "
        "[figures.csv](figures.csv) and [figures.parquet](figures.parquet), whose [columns](#columns) are explained "
        "below. `python -m evaluation compare` sets two reports side by side, if they are of the same release digest.",
        _glance(over_runs(figures).to_pylist(), titles),
        "## Runs\n\n" + _runs(record),
        "\n".join(f"- {note}" for note in record["notes"]),
    ]
    for protocol, configs in record["protocols"].items():
        parts.append(_heading(protocol, configs))
        mine = [placed for placed in tables if placed.protocol == protocol]
        parts += [markdown(placed.table) for placed in mine if placed.shown]
        linked = [f"[{p.table.title}](tables/{p.table.name}.md)" for p in mine if not p.shown]
        parts += ["Also: " + "; ".join(linked) + "." if linked else ""]
        drawn = [picture for picture in pictures if picture.protocol == protocol]
        parts += [f"![{picture.title}](plots/{picture.name}.png)" for picture in drawn]
    parts.append(
        "Every table is under `tables/` as Markdown, CSV in full precision and LaTeX, every picture under `plots/` as "
        "PNG and SVG."
    )
    parts.append("## Columns\n\n" + "\n".join(f"- `{name}`: {column.what}" for name, column in COLUMNS.items()))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _glance(lines: Sequence[Line], titles: Mapping[str, str]) -> str:
    """The best detector by the first figure of each protocol, beside the baseline."""
    baseline = titles.get(BASELINE, BASELINE)
    head = [
        f"| protocol | config | way of training | figure | best | | {baseline} |",
        "|---|---|---|---|---|---:|---:|",
    ]
    rows = []
    for protocol, described in PROTOCOLS.items():
        for (config, variant), found in grouped(headlines(lines, protocol), "config", "variant"):
            metric = METRICS[found[0]["metric"]]
            sign = -1 if metric.better == "higher" else 1
            best = min(found, key=lambda line: (line["mean"] != line["mean"], sign * line["mean"]))
            beside = [number_text(number(line), 2) for line in found if line["detector"] == BASELINE]
            figure = f"{metric.title} {ARROWS[metric.better]}"
            cells = [described.title, config, variant, figure, titles.get(best["detector"], best["detector"])]
            rows.append("| " + " | ".join([*cells, number_text(number(best), 2), *(beside or ["-"])]) + " |")
    return "\n".join(["## At a glance", "", *head, *rows]) if rows else ""


def _detectors(count: int) -> str:
    return f"{count} detector{'s' if count > 1 else ''}"


def _runs(record: Mapping[str, Any]) -> str:
    lines = ["| run | way of training | seed | model | weights |", "|---|---|---|---|---|"]
    for run in record["runs"]:
        seed = "" if run["seed"] is None else run["seed"]
        lines.append(f"| {run['run']} | {run['variant']} | {seed} | {run['model']} | {run['model_digest'][:12]} |")
    return "\n".join(lines)


def _heading(protocol: str, configs: Sequence[str]) -> str:
    if protocol == robustness.NAME:
        return f"## Robustness to the way of training\n\n{_ROBUSTNESS}."
    chosen = PROTOCOLS[protocol]
    return f"## {chosen.title}\n\n{chosen.paper}. Judged: {', '.join(configs)}."
