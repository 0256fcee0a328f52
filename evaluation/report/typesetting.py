"""Builds tables from figures: the shared part of all papers' layouts.

Tested by `tests/evaluation/report/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.files import file_name
from evaluation.metrics.metrics import METRICS
from evaluation.protocols.results import ALL_VARIANTS, FIGURE_KEY, Line
from evaluation.report.tables import Heading, Number, Row, Table, display_name


@dataclass(frozen=True)
class TableBuilder:
    """Builds tables; holds the settings shared by the tables of one training method.

    Attributes:
        labels: labels that distinguish its tables from others of the same layout.
        titles: display names of the detectors.
        remark: sentence at the end of every table's note.
    """

    labels: tuple[str, ...]
    titles: Mapping[str, str]
    remark: str = ""

    def methods(self, lines: Sequence[Line]) -> dict[str, str]:
        """Return the names and titles of the lines' detectors, in order."""
        names = dict.fromkeys(line["detector"] for line in lines)
        return {name: self.titles.get(name, name) for name in names}

    def by_method(
        self,
        parts: Sequence[str],
        title: str,
        note: str,
        columns: Sequence[tuple[Heading, Line]],
        lines: Sequence[Line],
    ) -> Table:
        """Build a table with one row per detector; each column shows the figure of the line next to its heading."""
        cells = {(line["detector"], figure_name(line)): line for line in lines}
        rows = [
            Row(full, tuple(cell(cells.get((detector, figure_name(line)))) for _, line in columns))
            for detector, full in self.methods(lines).items()
        ]
        note = f"{note} {over(lines)}".strip()
        return self.table(parts, title, note, "Method", [heading for heading, _ in columns], rows)

    def table(
        self,
        parts: Sequence[str],
        title: str,
        note: str,
        stub: str,
        columns: Sequence[Heading],
        rows: Sequence[Row],
        **others: Any,
    ) -> Table:
        """Build a table with the shared labels in its name and title."""
        full = ", ".join([title, *map(display_name, self.labels)])
        note = f"{note} {self.remark}".strip()
        return Table(file_name(*parts, *self.labels), full, note, stub, tuple(columns), tuple(rows), **others)


def figure_name(line: Line) -> tuple[str, ...]:
    """Return the values that identify a figure among those of a detector and run."""
    return tuple(line[name] for name in FIGURE_KEY)


def distinct(lines: Iterable[Line]) -> list[Line]:
    """Return the first line of each figure, of any detector."""
    found: dict[tuple[str, ...], Line] = {}
    for line in lines:
        found.setdefault(figure_name(line), line)
    return list(found.values())


def heading(group: str, line: Line) -> Heading:
    """Return the heading of a metric's column."""
    metric = METRICS[line["metric"]]
    # The table's note states the positive class once for all columns.
    return Heading(group, metric.title.partition(" (")[0], metric.better)


def number(line: Line) -> Number:
    """Return a figure over runs as printed in tables, in the paper's unit."""
    deviation = None if line["std"] is None else line["std"] * line["factor"]
    return Number(line["mean"] * line["factor"], deviation)


def cell(line: Line | None) -> tuple[Number, ...]:
    """Return a cell with one number, or an empty cell."""
    return () if line is None else (number(line),)


def over(lines: Sequence[Line]) -> str:
    """Return a sentence on the number of runs."""
    fewest, most = min(line["runs"] for line in lines), max(line["runs"] for line in lines)
    if most == 1:
        return "" if lines[0]["variant"] == ALL_VARIANTS else "One run."
    runs = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"Mean ± sample standard deviation (of n - 1) over {runs} runs; a single run has none and is never bold."
