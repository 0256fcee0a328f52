"""Tables of results, written as CSV, LaTeX, part of a page and lines in a terminal, and the names in them.

Detectors, metrics, splits and settings have names as papers write them.

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
from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.metrics.metrics import ECE, METRICS, Metric
from unknown_detection.pages import content

BASELINE = "msp"
"""The detector that others are compared with, if it was scored."""

_SPLITS = {
    "autoattack_resnet50": "AutoAttack (ResNet-50)",
    "autoattack_vit": "AutoAttack (ViT)",
    "biggan": "BigGAN",
    "caltech45": "Caltech-45",
    "cocomagenet": "CoComageNet",
    "cocomagenet_mono": "CoComageNet-mono",
    "dtd": "DTD",
    "far_ood": "Far-OoD",
    "food32": "Food-32",
    "imagenet_o": "ImageNet-O",
    "inaturalist": "iNaturalist",
    "lsun_fix": "LSUN-FIX",
    "near_ood": "Near-OoD",
    "openimage_o": "OpenImage-O",
    "pgd_resnet50": "PGD (ResNet-50)",
    "pgd_vit": "PGD (ViT)",
    "places82": "Places-82",
    "stable_diffusion": "Stable Diffusion",
    "svhn": "SVHN",
}

_STATISTICS = {
    "standard_deviation": "std",
    "lower_quartile": "25 %",
    "upper_quartile": "75 %",
    "mixture_mean": "mean",
    "mixture_variance": "variance",
    "robustness": "score",
}


def detector_name(name: str) -> str:
    """Return the name of a detector in papers, for plots; of an unknown one, its name in the scores file."""
    return DETECTORS[name].title if name in DETECTORS else name


def paper_name(name: str) -> str:
    """Return a detector's name in papers, empty if it is the command line's but for capitals and signs."""
    title = detector_name(name)
    return "" if _letters(title) == _letters(name) else title


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def figure_metric(name: str) -> Metric:
    """Return a metric of figures: one of `METRICS`, or the ECE."""
    return ECE if name == ECE.name else METRICS[name]


def metric_name(name: str) -> str:
    """Return the name of a metric without its positive class, which a table's note states once."""
    return figure_metric(name).title.partition(" (")[0]


def set_name(unknown: str) -> str:
    """Return the name of a set of unknown rows, such as `DTD` for `far_ood_dtd`; several are joined by ` + `."""
    if " + " in unknown:
        return " + ".join(map(set_name, unknown.split(" + ")))
    split, comma, qualifier = unknown.partition(", ")
    short = split.removeprefix("far_ood_")
    return _SPLITS.get(short, short.replace("_", " ")) + comma + qualifier


def statistic_name(name: str) -> str:
    """Return a statistic's name as a column's heading."""
    return _STATISTICS.get(name, name)


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
