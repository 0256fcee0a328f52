"""Tables and their output as Markdown, CSV, LaTeX and terminal text.

The layout of each paper's tables is in `layouts`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evaluation.files import atomic_path

ARROWS = {"higher": "↑", "lower": "↓", "": ""}
_LATEX_ARROWS = {"higher": r" $\uparrow$", "lower": r" $\downarrow$", "": ""}


@dataclass(frozen=True)
class Number:
    """A number as printed in a table, in the paper's unit.

    Attributes:
        value: the number, or the mean over runs; NaN if undefined.
        deviation: standard deviation over runs; None for one run.
    """

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
        """The bold cells, as (row, column); ties at the printed precision are all bold.

        Where some numbers are means over runs, single runs are not compared with them.
        """
        if self.ranked == "rows":
            lines = [[(row, column) for column in range(len(self.columns))] for row in range(len(self.rows))]
        else:
            lines = [[(row, column) for row in range(len(self.rows))] for column in range(len(self.columns))]
        found: set[tuple[int, int]] = set()
        for line in lines if self.ranked else []:
            better = self.columns[line[0][1]].better if line else ""
            cells = {place: cell[-1] for place in line if (cell := self._cell(place))}
            if any(number.deviation is not None for number in cells.values()):  # a mean does not rank below one run
                cells = {place: number for place, number in cells.items() if number.deviation is not None}
            values = {place: round(number.value, self.digits) for place, number in cells.items()}
            values = {place: value for place, value in values.items() if value == value}
            if better and len(values) > 1:
                top = (max if better == "higher" else min)(values.values())
                found |= {place for place, value in values.items() if value == top}
        return frozenset(found)

    def _cell(self, place: tuple[int, int]) -> tuple[Number, ...]:
        return self.rows[place[0]].cells[place[1]]


def markdown(table: Table) -> str:
    """Format a table as GitHub Markdown: title, table, note."""
    best = table.best()
    head = [table.stub, *(_joined(heading, ARROWS) for heading in table.columns)]
    lines = [head, ["---", *(["---:"] * len(table.columns))]]
    for number, row in enumerate(table.rows):
        texts = [_text(cell, table.digits) for cell in row.cells]
        bold = [f"**{text}**" if (number, column) in best else text for column, text in enumerate(texts)]
        lines.append([row.name, *bold])
    body = "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)
    return f"### {table.title}\n\n{body}\n\n{table.note}\n"


def as_csv(table: Table) -> str:
    """Format a table as CSV with a mean and a deviation column for each number, in full precision."""
    several = max((len(cell) for row in table.rows for cell in row.cells), default=1)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = [table.stub]
    for heading in table.columns:
        names = heading.title.split(" / ") if several > 1 else [heading.title]
        for name in names if len(names) == several else [f"{heading.title} {number + 1}" for number in range(several)]:
            full = " ".join(part for part in (heading.group, name) if part)
            head += [full, f"{full} std"]
    writer.writerow(head)
    for row in table.rows:
        line: list[str] = [row.name]
        for cell in row.cells:
            for number in cell or (Number(float("nan")),) * several:
                line += [_plain(number.value), _plain(number.deviation)]
        writer.writerow(line)
    return text.getvalue()


def latex(table: Table) -> str:
    """Format a table as LaTeX, for the package booktabs."""
    best = table.best()
    groups = _groups(table.columns)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_escaped(table.title)}. {_escaped(table.note)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
    if any(name for name, _ in groups):
        spans = [rf"\multicolumn{{{width}}}{{c}}{{{_escaped(name)}}}" for name, width in groups]
        lines.append(" & ".join(["", *spans]) + r" \\")
    titles = [_escaped(heading.title) + _LATEX_ARROWS[heading.better] for heading in table.columns]
    lines += [" & ".join([_escaped(table.stub), *titles]) + r" \\", r"\midrule"]
    for number, row in enumerate(table.rows):
        cells = [_escaped(_text(cell, table.digits)) for cell in row.cells]
        bold = [rf"\textbf{{{text}}}" if (number, column) in best else text for column, text in enumerate(cells)]
        lines.append(" & ".join([_escaped(row.name), *bold]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def write_table(folder: Path, table: Table) -> list[str]:
    """Write `name.md`, `name.csv` and `name.tex`.

    Returns:
        The names of the files.
    """
    written = []
    for suffix, render in ((".csv", as_csv), (".md", markdown), (".tex", latex)):
        with atomic_path(folder / f"{table.name}{suffix}") as temporary:
            temporary.write_text(render(table), encoding="utf-8", newline="\n")
        written.append(f"{table.name}{suffix}")
    return written


def display_name(name: str) -> str:
    """Format the name of a split or setting for display, such as `near-OoD` for `near_ood`."""
    return name.replace("_ood", "-OoD").replace("ood_", "OoD ").replace("_", " ")


def number_text(number: Number, digits: int) -> str:
    """Format a number for tables, such as `90.00 ± 1.25`, or `-` for NaN."""
    if number.value != number.value:
        return "-"
    deviation = "" if number.deviation is None else f" ± {number.deviation:.{digits}f}"
    return f"{number.value:.{digits}f}{deviation}"


def aligned(lines: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> list[str]:
    """Align lines of cells in columns, for a terminal.

    Args:
        lines: lines with the same number of cells.
        left: columns to align left; the others are aligned right.
    """
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _text(cell: Sequence[Number], digits: int) -> str:
    return " / ".join(number_text(number, digits) for number in cell) or "-"


def _plain(value: float | None) -> str:
    return "" if value is None or value != value else repr(float(value))


def _joined(heading: Heading, arrows: dict[str, str]) -> str:
    return " ".join(part for part in (heading.group, heading.title, arrows[heading.better]) if part)


def _groups(columns: Sequence[Heading]) -> list[tuple[str, int]]:
    """Return the groups of adjacent columns, and the number of columns in each."""
    groups: list[tuple[str, int]] = []
    for heading in columns:
        if groups and groups[-1][0] == heading.group:
            groups[-1] = (heading.group, groups[-1][1] + 1)
        else:
            groups.append((heading.group, 1))
    return groups


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, "\\" + character)
    return text.replace("±", r"$\pm$")
