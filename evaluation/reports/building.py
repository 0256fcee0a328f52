"""Builds tables from figures: the shared part of all papers' layouts.

Tested by `tests/evaluation/reports/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evaluation.files import file_name
from evaluation.protocols.results import ALL_VARIANTS, FIGURE_KEY, Line, grouped
from evaluation.reports.names import detector_name, metric, metric_name
from evaluation.reports.tables import Heading, Number, Row, Table

Columns = list[tuple[Heading, Line]]
"""The headings of a table, each with the figure of any detector that its column shows."""

_SPREADS: Mapping[str, Literal["lower", ""]] = {
    "standard_deviation": "",
    "mixture_variance": "lower",
    "robustness": "lower",
}
"""Statistics for which other values are better than for the metric that they are of."""


@dataclass(frozen=True)
class Builder:
    """Builds the tables of one training method, whose labels and remark they share."""

    labels: tuple[str, ...] = ()
    remark: str = ""

    def by_method(self, parts: Sequence[str], title: str, note: str, columns: Columns, lines: Sequence[Line]) -> Table:
        """Build a table with one row per detector; each column shows the figure of the line next to its heading."""
        cells = {(line["detector"], figure_name(line)): line for line in lines}
        rows = [
            Row(detector_name(name), tuple(cell(cells.get((name, figure_name(line)))) for _, line in columns))
            for name in dict.fromkeys(line["detector"] for line in lines)
        ]
        headings = [head for head, _ in columns]
        return self.table(parts, title, f"{note} {over(lines)}", "Method", headings, rows)

    def table(
        self, parts: Sequence[str], title: str, note: str, stub: str, columns: Sequence[Heading], rows: Sequence[Row],
        **others: Any
    ) -> Table:  # fmt: skip
        """Build a table with the shared labels in its name and title."""
        full = ", ".join([title, *(label.replace("_", " ") for label in self.labels)])
        note = " ".join(f"{note} {self.remark}".split())
        return Table(file_name(*parts, *self.labels), full, note, stub, tuple(columns), tuple(rows), **others)


def figure_name(line: Line) -> tuple[str, ...]:
    """Return the values that identify a figure among those of a detector and run."""
    return tuple(line[name] for name in FIGURE_KEY)


def number(line: Line) -> Number:
    """Return a figure over runs as printed in tables, in the paper's unit."""
    return Number(line["mean"] * line["factor"], None if line["std"] is None else line["std"] * line["factor"])


def cell(line: Line | None) -> tuple[Number, ...]:
    """Return a cell with one number, or an empty cell."""
    return () if line is None else (number(line),)


def distinct(lines: Iterable[Line]) -> list[Line]:
    """Return the first line of each figure, of any detector."""
    return [found[0] for _, found in grouped(lines, *FIGURE_KEY)]


def heading(group: str, line: Line, title: str = "") -> Heading:
    """Return the heading of a figure's column; without a title, the metric's name."""
    better = _SPREADS.get(line["statistic"], metric(line["metric"]).better)
    return Heading(group, title or metric_name(line["metric"]), better)


def over(lines: Sequence[Line]) -> str:
    """Return a sentence on the number of runs."""
    fewest, most = min(line["runs"] for line in lines), max(line["runs"] for line in lines)
    if most == 1:
        return "" if lines[0]["variant"] == ALL_VARIANTS else "One run."
    runs = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"Mean ± sample standard deviation (of n - 1) over {runs} runs; a single run has none and is never bold."
