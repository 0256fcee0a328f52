"""The front page of a report: runs, tables, pictures, and the meaning of the figures' columns.

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
from evaluation.report.layouts import BASELINE, PlacedTable, headlines
from evaluation.report.pictures import Picture
from evaluation.report.tables import ARROWS, markdown, number_text
from evaluation.report.typesetting import number

_ROBUSTNESS = (
    "Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution"
)
_ROBUSTNESS += " Detection Approaches (2020)"

_CAUTION = (
    "The best detector is chosen on the very rows that it is evaluated on, so its figure is too good for new data: to "
    "choose a detector, use validation rows. Bold cells of the tables are chosen likewise. Only detectors with the "
    "most runs are compared."
)


def summary(
    record: Mapping[str, Any],
    figures: pa.Table,
    tables: Sequence[PlacedTable],
    pictures: Sequence[Picture],
    titles: Mapping[str, str],
) -> str:
    """Render the page.

    Args:
        record: the content of `report.json`.
        figures: all figures.
        tables: the papers' tables.
        pictures: the pictures drawn to `plots/`.
        titles: display names of the detectors.

    Returns:
        Markdown.
    """
    parts = [
        f"# Results on {record['release']}",
        f"Release digest `{record['release_digest']}`. {len(figures):,} figures of {_detectors(len(titles))} are in "
        "[figures.csv](figures.csv) and [figures.parquet](figures.parquet); their [columns](#columns) are explained "
        "below. `python -m evaluation compare` compares two reports with the same release digest.",
        "\n".join(f"- {note}" for note in record["notes"]),
        _glance(over_runs(figures).to_pylist(), titles),
        "## Runs\n\n" + _runs(record),
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
        "All tables are in `tables/` as Markdown, CSV (full precision) and LaTeX, all pictures in `plots/` as PNG "
        "and SVG."
    )
    parts.append("## Columns\n\n" + "\n".join(f"- `{name}`: {column.description}" for name, column in COLUMNS.items()))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _glance(lines: Sequence[Line], titles: Mapping[str, str]) -> str:
    """Tabulate the best detector by each protocol's headline figure, next to the baseline."""
    baseline = titles.get(BASELINE, BASELINE)
    trained = any(line["variant"] for line in lines)
    columns = ["protocol", "config", *(["training"] if trained else []), "figure", "best", "its value", baseline]
    head = [f"| {' | '.join(columns)} |", "|---" * (len(columns) - 2) + "|---:|---:|"]
    rows = []
    for protocol, described in PROTOCOLS.items():
        for (config, variant), found in grouped(headlines(lines, protocol), "config", "variant"):
            metric = METRICS[found[0]["metric"]]
            sign = -1 if metric.better == "higher" else 1
            most = max(line["runs"] for line in found)
            compared = [line for line in found if line["runs"] == most]
            best = min(compared, key=lambda line: (line["mean"] != line["mean"], sign * line["mean"]))
            beside = [number_text(number(line), 2) for line in found if line["detector"] == BASELINE]
            figure = f"{metric.title} {ARROWS[metric.better]}"
            cells = [
                described.title,
                config,
                *([variant] if trained else []),
                figure,
                titles.get(best["detector"], best["detector"]),
            ]
            rows.append("| " + " | ".join([*cells, number_text(number(best), 2), *(beside or ["-"])]) + " |")
    return "\n".join(["## At a glance", "", *head, *rows, "", _CAUTION]) if rows else ""


def _detectors(count: int) -> str:
    return f"{count} detector{'s' if count > 1 else ''}"


def _runs(record: Mapping[str, Any]) -> str:
    lines = ["| run | training | seed | model | weights |", "|---|---|---|---|---|"]
    for run in record["runs"]:
        seed = "" if run["seed"] is None else run["seed"]
        lines.append(f"| {run['run']} | {run['variant']} | {seed} | {run['model']} | {run['model_digest'][:12]} |")
    return "\n".join(lines)


def _heading(protocol: str, configs: Sequence[str]) -> str:
    if protocol == robustness.NAME:
        return f"## Robustness to the training method\n\n{_ROBUSTNESS}."
    chosen = PROTOCOLS[protocol]
    return f"## {chosen.title}\n\n{chosen.paper}. Configs: {', '.join(configs)}."
