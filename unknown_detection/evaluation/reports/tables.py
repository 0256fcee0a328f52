"""Tables: built from figures, and written as CSV, LaTeX, part of a page and lines in a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.files import file_name
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, FIGURE_KEY, Line, grouped
from unknown_detection.evaluation.reports.names import detector_name, metric, metric_name
from unknown_detection.pages import content

_ARROWS = {"higher": " ↑", "lower": " ↓", "": ""}
_LATEX = str.maketrans(
    {"±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "\\": r"\textbackslash{}"}
    | {sign: f"\\{sign}" for sign in "&%$#_{}"}
)


@dataclass(frozen=True)
class Number:
    """A number in the paper's unit: a value or mean over runs, NaN if undefined, and the deviation over runs."""

    value: float
    deviation: float | None = None


@dataclass(frozen=True)
class Heading:
    """A column heading: the group it shares with its neighbours, its own title, and which values are better."""

    group: str
    title: str
    better: Literal["higher", "lower", ""] = ""


@dataclass(frozen=True)
class Row:
    """A row: its name, and a cell for each column with one or more numbers, or none."""

    name: str
    cells: tuple[tuple[Number, ...], ...]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: name of its files, without an ending.
        title: one line.
        note: text below the table, with units and conventions.
        stub: heading of the column with the rows' names.
        columns: c headings.
        rows: each with c cells.
        digits: number of decimals.
        ranked: what is bold: the best cell of each column, the best cell of each row (by its last number), or nothing.
            A column without `better` has no best cell.
    """

    name: str
    title: str
    note: str
    stub: str
    columns: tuple[Heading, ...]
    rows: tuple[Row, ...]
    digits: int = 2
    ranked: Literal["columns", "rows", ""] = "columns"

    def best(self) -> frozenset[tuple[int, int]]:
        """The bold cells, as (row, column); ties at the printed precision are all bold, unless most cells tie.

        Where some numbers are means over runs, single runs are not compared with them.
        """
        down, across = range(len(self.rows)), range(len(self.columns))
        lines = [[(row, column) for row in down] for column in across]
        if self.ranked == "rows":
            lines = [[(row, column) for column in across] for row in down]
        found: set[tuple[int, int]] = set()
        for line in lines if self.ranked else []:
            better = self.columns[line[0][1]].better if line else ""
            cells = {place: cell[-1] for place in line if (cell := self.rows[place[0]].cells[place[1]])}
            if any(number.deviation is not None for number in cells.values()):  # a mean does not rank below one run
                cells = {place: number for place, number in cells.items() if number.deviation is not None}
            values = {place: round(number.value, self.digits) for place, number in cells.items()}
            values = {place: value for place, value in values.items() if value == value}
            if better and len(values) > 1:
                top = (max if better == "higher" else min)(values.values())
                ties = {place for place, value in values.items() if value == top}
                found |= ties if len(ties) <= max(2, len(values) // 2) else set()
        return frozenset(found)

    def text(self, cell: Sequence[Number]) -> str:
        """Format a cell, such as `90.00 ± 1.25`; several numbers are divided by slashes."""
        return " / ".join(number_text(number, self.digits) for number in cell) or "-"


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


def as_page(table: Table) -> content.Table:
    """Return a table as a page shows it."""
    best = table.best()
    columns = [content.Column(head.title + _ARROWS[head.better], True, head.group) for head in table.columns]
    rows: list[Sequence[content.Value | content.Cell]] = []
    for number, row in enumerate(table.rows):
        cells = [
            content.Cell(
                table.text(cell),
                order=cell[-1].value if cell and cell[-1].value == cell[-1].value else None,
                style="strong" if (number, column) in best else "",
            )
            for column, cell in enumerate(row.cells)
        ]
        rows.append([row.name, *cells])
    columns = [content.Column(table.stub), *columns]
    anchor = content.anchor("table", table.name)
    return content.Table(anchor, table.title, columns, rows, table.note)


def as_csv(table: Table) -> str:
    """Format a table as CSV with a mean and a deviation column for each number, in full precision."""
    several = max((len(cell) for row in table.rows for cell in row.cells), default=1)
    head = [table.stub]
    for heading in table.columns:
        names = heading.title.split(" / ") if several > 1 else [heading.title]
        for name in names if len(names) == several else [f"{heading.title} {number + 1}" for number in range(several)]:
            full = f"{heading.group} {name}".strip()
            head += [full, f"{full} std"]
    lines = [head]
    for row in table.rows:
        numbers = [number for cell in row.cells for number in cell or (Number(float("nan")),) * several]
        values = [value for number in numbers for value in (number.value, number.deviation)]
        lines.append([row.name, *("" if value is None or value != value else repr(float(value)) for value in values)])
    return csv_text(lines)


def latex(table: Table) -> str:
    """Format a table as LaTeX, for the package booktabs."""
    best = table.best()
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_escaped(f'{table.title}. {table.note}')}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
    groups = [(name, len(list(found))) for name, found in itertools.groupby(head.group for head in table.columns)]
    if any(name for name, _ in groups):
        spans = [rf"\multicolumn{{{width}}}{{c}}{{{_escaped(name)}}}" for name, width in groups]
        lines.append(" & ".join(["", *spans]) + r" \\")
    titles = [_escaped(heading.title + _ARROWS[heading.better]) for heading in table.columns]
    lines += [" & ".join([_escaped(table.stub), *titles]) + r" \\", r"\midrule"]
    for number, row in enumerate(table.rows):
        cells = [_escaped(table.text(cell)) for cell in row.cells]
        bold = [rf"\textbf{{{text}}}" if (number, column) in best else text for column, text in enumerate(cells)]
        lines.append(" & ".join([_escaped(row.name), *bold]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def number_text(number: Number, digits: int = 2) -> str:
    """Format a number for tables, such as `90.00 ± 1.25`, or `-` for NaN."""
    if number.value != number.value:
        return "-"
    deviation = "" if number.deviation is None else f" ± {number.deviation:.{digits}f}"
    return f"{number.value:.{digits}f}{deviation}"


def aligned(lines: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> list[str]:
    """Align lines of cells in columns, for a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _escaped(text: str) -> str:
    return text.translate(_LATEX)
