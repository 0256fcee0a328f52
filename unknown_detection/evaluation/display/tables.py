"""Tables of results, written as CSV, LaTeX, part of a page and lines in a terminal.

Tested by `tests/evaluation/display/test_tables.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from unknown_detection.csv_text import csv_text
from unknown_detection.pages import content

Floats = npt.NDArray[np.float64]

_ARROWS = {"higher": " ↑", "lower": " ↓", "": ""}
_LATEX = str.maketrans(
    {"±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "\\": r"\textbackslash{}"}
    | {sign: f"\\{sign}" for sign in "&%$#_{}"}
)


@dataclass(frozen=True)
class Heading:
    """A column heading: the group it shares with its neighbours, its own title, and which values are better."""

    group: str
    title: str
    better: Literal["higher", "lower", ""] = ""


@dataclass(frozen=True)
class TableRow:
    """A row's name, as the command line spells it, its subtitle, such as its name in papers, and its text in LaTeX."""

    name: str
    subtitle: str = ""
    in_papers: str = ""


@dataclass(frozen=True)
class ResultTable:
    """A table with one number a cell, in the paper's unit.

    Attributes:
        name: name of its files, without an ending.
        title: one line.
        note: text below the table, with units and conventions.
        stub: heading of the column with the rows' names.
        columns: c headings.
        rows: names of r rows.
        values: values or means over runs, shape (r, c); NaN if undefined.
        deviations: sample standard deviations over runs, shape (r, c); NaN for single runs.
        digits: number of decimals.
        ranked: whether the best cell of each column, or of each row, is bold. Where all columns lack `better`, none.
        shown: whether a page shows it at once.
    """

    name: str
    title: str
    note: str
    stub: str
    columns: Sequence[Heading]
    rows: Sequence[TableRow]
    values: Floats
    deviations: Floats
    digits: int = 2
    ranked: Literal["columns", "rows"] = "columns"
    shown: bool = True

    def best(self) -> npt.NDArray[np.bool_]:
        """Return which cells are bold, shape (r, c); ties as printed are all bold, unless most cells tie.

        Where some numbers are means over runs, single runs are not compared with them.
        """
        axis = 0 if self.ranked == "columns" else 1
        signs = np.array([{"higher": 1.0, "lower": -1.0, "": np.nan}[head.better] for head in self.columns])
        compared = np.round(self.values, self.digits) * signs
        means = np.isfinite(self.deviations)
        compared[means.any(axis, keepdims=True) & ~means] = np.nan
        is_best = compared == np.fmax.reduce(compared, axis, keepdims=True, initial=-np.inf)
        several = np.isfinite(compared).sum(axis, keepdims=True)
        is_few = is_best.sum(axis, keepdims=True) <= np.maximum(2, several // 2)
        bold: npt.NDArray[np.bool_] = is_best & (several > 1) & is_few
        return bold

    def in_order(self, order: Sequence[int]) -> ResultTable:
        """Return the table with some of its rows, by number, in the given order."""
        rows = [self.rows[number] for number in order]
        return replace(self, rows=rows, values=self.values[order], deviations=self.deviations[order])

    def cells(self) -> list[list[str]]:
        """Return the cells as text, such as `90.00 ± 1.25`, row by row."""
        return [
            [number_text(value, deviation, self.digits) for value, deviation in zip(*line, strict=True)]
            for line in zip(self.values.tolist(), self.deviations.tolist(), strict=True)
        ]

    def lines(self) -> list[str]:
        """Return the table for a terminal."""
        head = [f"{head.group} {head.title}{_ARROWS[head.better]}".strip() for head in self.columns]
        names = [f"{row.name} ({row.subtitle})" if row.subtitle else row.name for row in self.rows]
        body = [[name, *cells] for name, cells in zip(names, self.cells(), strict=True)]
        return aligned_columns([[self.stub.lower(), *head], *body])


def as_page(table: ResultTable, first: int = 0) -> content.PageTable:
    """Return a table for a page that shows its first rows; 0 shows all."""
    columns = [content.PageColumn(head.title + _ARROWS[head.better], True, head.group) for head in table.columns]
    rows: list[Sequence[content.Value | content.Cell]] = []
    for row, values, texts, bold in zip(table.rows, table.values, table.cells(), table.best(), strict=True):
        cells = [
            content.Cell(text, order=float(value) if np.isfinite(value) else None, style="strong" if best else "")
            for value, text, best in zip(values, texts, bold, strict=True)
        ]
        name = Markup("{} <small>{}</small>").format(row.name, row.subtitle) if row.subtitle else row.name
        rows.append([name, *cells])
    columns = [content.PageColumn(table.stub), *columns]
    return content.PageTable(content.anchor("table", table.name), table.title, columns, rows, table.note, first=first)


def as_csv(table: ResultTable) -> str:
    """Format a table as CSV with a mean and a deviation column for each number, in full precision."""
    names = [f"{head.group} {head.title}".strip() for head in table.columns]
    lines = [[table.stub, *(text for name in names for text in (name, f"{name} std"))]]
    numbers = np.stack([table.values, table.deviations], axis=-1).reshape(len(table.rows), -1)
    for row, line in zip(table.rows, numbers.tolist(), strict=True):
        lines.append([row.name, *("" if value != value else repr(value) for value in line)])
    return csv_text(lines)


def as_latex(table: ResultTable) -> str:
    """Format a table as LaTeX, for the package booktabs; rows have their names in papers."""

    def escaped(text: str) -> str:
        return text.translate(_LATEX)

    cells = np.array([[escaped(text) for text in line] for line in table.cells()], dtype=object)
    bold = np.where(table.best(), "\\textbf{" + cells + "}", cells)
    grouped = any(head.group for head in table.columns)
    titles = [(head.group, head.title + _ARROWS[head.better]) for head in table.columns]
    heads = [tuple(map(escaped, title if grouped else title[1:])) for title in titles]
    names = pd.Index([escaped(row.in_papers or row.name) for row in table.rows], name=escaped(table.stub))
    frame = pd.DataFrame(bold, index=names, columns=pd.MultiIndex.from_tuples(heads), dtype=object)
    return str(
        frame.style.to_latex(
            hrules=True,
            multicol_align="c",
            column_format="l" + "r" * len(heads),
            position_float="centering",
            caption=escaped(f"{table.title}. {table.note}"),
        )
    )


def number_text(value: float, deviation: float = float("nan"), digits: int = 2) -> str:
    """Format a number for tables, such as `90.00 ± 1.25`, or `-` for NaN."""
    if value != value:
        return "-"
    return f"{value:.{digits}f}" + (f" ± {deviation:.{digits}f}" if deviation == deviation else "")


def aligned_columns(lines: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> list[str]:
    """Align lines of cells in columns, for a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
