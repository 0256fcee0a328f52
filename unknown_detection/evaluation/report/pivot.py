"""A table of figures over runs, detectors x columns, as text for a terminal, a page, CSV and LaTeX.

A number has three forms: a value in a figure, a line of the tidy table, and a cell here. Pages and terminals show
percent, frames rates from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.metrics.ranking import ONE_SIDED
from unknown_detection.evaluation.protocols.protocol import AS_PUBLISHED, FIGURE_KEY, Protocol, matching
from unknown_detection.evaluation.report.names import (
    detector_name,
    metric_name,
    set_name,
    setting_name,
    shown_name,
)
from unknown_detection.pages import content

FEW = 200
"""Rows below which a column says on how many it is (ours): an AUROC of 0.9 is then uncertain by some 4 points."""

_FIRST = 12
"""Rows of a table that a page shows before the reader asks for all."""

_ARROWS = {"higher": " ↑", "lower": " ↓", "": ""}
_SPREAD = "standard_deviation"
"""The statistic of which neither high nor low values are better."""

_LATEX = str.maketrans(
    {"±": r"$\pm$", "×": r"$\times$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "\\": r"\textbackslash{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {sign: f"\\{sign}" for sign in "&%$#_{}"}
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pivot:
    """Figures over runs with one row per detector and training method, and one column per figure.

    Attributes:
        name: name of its files, without an ending.
        title: one line.
        note: text below it.
        mean: means over runs as papers print them, by (detector, variant) and (group, metric).
        std: sample standard deviations, NaN for single runs.
        better: which values are better in each column: higher, lower or neither.
        lines: the same figures, one a line, as rates.
    """

    name: str
    title: str
    note: str
    mean: pd.DataFrame
    std: pd.DataFrame
    better: Sequence[str]
    lines: pd.DataFrame

    def cells(self) -> pd.DataFrame:
        """Return the cells as text, such as `90.00 ± 1.25`; `-` for an undefined figure.

        Rows have their names as commands spell them, with the papers' in brackets; columns an arrow to better values.
        """
        mean = self.mean.map("{:.2f}".format).mask(self.mean.isna(), "-")
        cells = mean + self.std.map(" ± {:.2f}".format).mask(self.std.isna(), "")
        names = [shown_name(detector, variant) for detector, variant in self._rows()]
        heads = [(group, metric + _ARROWS[to]) for (group, metric), to in zip(self.mean, self.better, strict=True)]
        return cells.set_axis(names, axis=0).set_axis(pd.MultiIndex.from_tuples(heads), axis=1)

    def _rows(self) -> list[tuple[str, str]]:
        """Return the detector of each row, with the training method if there are several."""
        several = self.mean.index.get_level_values("variant").nunique() > 1
        return [(detector, variant * several) for detector, variant in self.mean.index]

    def best(self) -> npt.NDArray[np.bool_]:
        """Return which cells are bold: the best of each column and those that print alike; none if most cells tie.

        Where some numbers are means over runs, single runs are not compared with them.
        """
        signs = np.array([{"higher": 1.0, "lower": -1.0, "": np.nan}[better] for better in self.better])
        compared, means = np.round(self.mean.to_numpy(float), 2) * signs, np.isfinite(self.std.to_numpy(float))
        compared[means.any(axis=0, keepdims=True) & ~means] = np.nan
        is_best = compared == np.fmax.reduce(compared, axis=0, keepdims=True, initial=-np.inf)
        several = np.isfinite(compared).sum(axis=0)
        bold: npt.NDArray[np.bool_] = is_best & (several > 1) & (is_best.sum(axis=0) <= np.maximum(2, several // 2))
        return bold

    def text(self, most: int) -> list[str]:
        """Return the table for a terminal, with its title and its first rows."""
        cells = self.cells()
        flat = cells.set_axis([" ".join(filter(None, of)) for of in cells], axis=1).rename_axis(columns="detector")
        wide = {name: len(name) + 1 for name in flat}  # pandas puts one space between names, which have spaces, too
        hidden = [f"and {len(cells) - most} more"] * (len(cells) > most)
        return [
            f"{self.title}, best first",
            *flat.iloc[:most].to_string(col_space=wide).splitlines(),
            *hidden,
            self.note,
        ]

    def page(self) -> content.PageTable:
        """Return the table for a page, which shows twelve rows until the reader asks for all."""
        cells, rows = self.cells(), []
        columns = [
            content.PageColumn("Detector"),
            *(content.PageColumn(metric, True, group) for group, metric in cells),
        ]
        for name, texts, values, bold in zip(
            cells.index, cells.to_numpy(), self.mean.to_numpy(), self.best(), strict=True
        ):
            word, bracket, rest = name.partition(" (")
            rows.append([Markup("{} <small>({}</small>").format(word, rest) if bracket else name] + [
                content.Cell(text, order=float(value) if np.isfinite(value) else None, style="strong" if best else "")
                for text, value, best in zip(texts, values, bold, strict=True)
            ])  # fmt: skip
        anchor = content.anchor("table", self.name)
        return content.PageTable(anchor, self.title, columns, rows, self.note, first=_FIRST)

    def csv(self) -> str:
        """Format the table as CSV with a mean and a deviation for each number, in full precision."""
        heads = [" ".join(filter(None, of)) for of in self.mean]
        pairs = np.stack([self.mean.to_numpy(float), self.std.to_numpy(float)], axis=-1).reshape(len(self.mean), -1)
        lines = [["detector", "training", *(text for head in heads for text in (head, f"{head} std"))]]
        for names, numbers in zip(self.mean.index, pairs.tolist(), strict=True):
            lines.append([*names, *("" if value != value else repr(value) for value in numbers)])
        return csv_text(lines)

    def latex(self) -> str:
        """Format the table as LaTeX, for the package booktabs; detectors have their names in papers."""

        def escaped(text: str) -> str:
            return text.translate(_LATEX)

        cells = self.cells().map(escaped)
        frame = cells.mask(self.best(), "\\textbf{" + cells + "}")
        names = [", ".join(filter(None, (detector_name(name), variant))) for name, variant in self._rows()]
        frame.index = pd.Index([*map(escaped, names)], name="Detector")
        frame.columns = pd.MultiIndex.from_tuples([tuple(map(escaped, heads)) for heads in cells])
        how: dict[str, Any] = {"hrules": True, "multicol_align": "c", "position_float": "centering"}
        caption = escaped(f"{self.title}. {self.note}".strip())
        return str(frame.style.to_latex(**how, column_format="l" + "r" * len(frame.columns), caption=caption))


def pivot(
    lines: pd.DataFrame, groups: Sequence[str], name: Sequence[str], title: str, note: str, order: Sequence[Any]
) -> Pivot:
    """Arrange figures over runs in a table, columns in the order of the figures; `groups` has each figure's heading.

    `order` has (detector, variant), the best first; others follow.
    """
    lines = lines.assign(group=groups)
    columns = lines.drop_duplicates(FIGURE_KEY)
    metrics = [_heading(of) for of in columns.to_dict("records")]
    better = [
        "" if statistic == _SPREAD else METRICS[metric].better
        for statistic, metric in zip(columns["statistic"], columns["metric"], strict=True)
    ]
    rows = [*lines[["detector", "variant"]].drop_duplicates().itertuples(index=False, name=None)]
    place = {key: number for number, key in enumerate(order)}
    index = pd.MultiIndex.from_tuples(sorted(rows, key=lambda row: place.get(row, len(place))))
    index.names = ["detector", "variant"]
    keys = pd.MultiIndex.from_frame(columns[FIGURE_KEY])
    measured = lines.set_index([*index.names, *FIGURE_KEY])
    cells = measured[["mean", "std"]].mul(measured["factor"], axis=0).unstack([*range(2, 2 + len(FIGURE_KEY))])
    heads = pd.MultiIndex.from_arrays([columns["group"], metrics], names=["group", "metric"])
    mean, std = (cells[of].reindex(index=index, columns=keys).set_axis(heads, axis=1) for of in ("mean", "std"))
    note = " ".join(filter(None, (note, _runs_note(lines))))
    return Pivot(safe_file_name(*name), title, note, mean, std, better, lines)


def shown_tables(
    protocol: Protocol, lines: pd.DataFrame, order: Sequence[Any], kind: str = AS_PUBLISHED, note: str = "In percent."
) -> Iterator[Pivot]:
    """Yield a table of what a protocol shows for each config; figures on fewer rows stand beside those on all rows."""
    but_rows = [key for key in FIGURE_KEY if key != "rows"]
    for config, of_config in lines[lines["rows"].isin([AS_PUBLISHED, kind])].groupby("config", sort=False):
        parts = protocol.shown(of_config)
        if not parts or not (of_config["rows"] == kind).any():
            continue
        shown = pd.concat([of for part in parts for _, of in part.groupby(but_rows, sort=False)])
        groups = [
            group.replace("{set}", set_name(of)) for group, of in zip(shown["group"], shown["unknown"], strict=True)
        ]
        name, title = [protocol.name, config, "results"], f"{protocol.title} on {config}"
        if kind != AS_PUBLISHED:
            what, sides = kind.removeprefix("without_"), np.where(shown["rows"] == kind, "without", "all")
            groups = [", ".join(filter(None, of)) for of in zip(groups, sides, strict=True)]
            name, title = [what, protocol.name, config], f"Effect of {what} on {config}"
        elif config.count(" + ") > 1:
            title = protocol.title
        yield pivot(shown, groups, name, title, note, order)


def full_tables(protocol: Protocol, lines: pd.DataFrame, order: Sequence[Any]) -> Iterator[Pivot]:
    """Yield tables of all figures of a protocol on all rows, one for each value of `tables_by`.

    What tells columns apart is their heading: configs, settings, sets of rows and statistics, as far as they differ.
    """
    chosen = matching(lines[lines["rows"] == AS_PUBLISHED], protocol.tabulated)
    if not len(chosen):
        return
    for values, of_table in chosen.groupby([*protocol.tables_by], sort=False):
        differ = [name for name in ("config", "setting", "unknown") if of_table[name].nunique() > 1]
        named = dict(zip(protocol.tables_by, values, strict=True))
        groups = []
        for line in of_table.to_dict("records"):
            parts = {"config": line["config"], "setting": setting_name(line["setting"])}
            parts["unknown"] = "all" if line["unknown"].count(" + ") > 1 else set_name(line["unknown"])
            mean = " mean" if line["statistic"] == "mean" else ""
            groups.append(", ".join(parts[name] for name in differ) + mean)
        titled = {"setting": setting_name(named.get("setting", "")), "unknown": set_name(named.get("unknown", ""))}
        words = [titled.get(name, value) for name, value in named.items()]
        title = f"{protocol.title}: {', '.join(filter(None, words))}"
        yield pivot(of_table, groups, (protocol.name, *words), title, protocol.note, order)


def best_first(protocol: Protocol, lines: pd.DataFrame) -> list[tuple[str, str]]:
    """Order pairs (detector, variant) by the protocol's headline on all rows: best first, undefined ones last.

    It is the one order of all tables and plots of a protocol: the mean over configs of the first figure of each.
    """
    pairs = [*lines[["detector", "variant"]].drop_duplicates().itertuples(index=False, name=None)]
    parts = protocol.shown(lines[lines["rows"] == AS_PUBLISHED])
    if not parts:
        return pairs
    headline = parts[0].merge(parts[0].drop_duplicates("config")[FIGURE_KEY])
    means = headline.groupby(["detector", "variant"], sort=False)["mean"].mean()
    sign = -1 if METRICS[headline["metric"].iloc[0]].better == "higher" else 1
    order = (means * sign).sort_values(kind="stable", na_position="last").index.tolist()
    return [*dict.fromkeys([*order, *pairs])]


def _heading(line: Mapping[Any, Any]) -> str:
    """Return a column's heading: its metric, and how many rows the smaller side has (both, for errors) if few."""
    metric, statistic, sides = METRICS[line["metric"]], line["statistic"], (line["n_known"], line["n_unknown"])
    rows = sum(sides) if metric.takes in ONE_SIDED else min(sides)
    few = f", n = {rows}" if 0 < rows < FEW else ""
    of = "" if statistic in ("", "mean") else f", {statistic.replace('_', ' ')}"
    return metric_name(metric.name) + few + of


def _runs_note(lines: pd.DataFrame) -> str:
    fewest, most = lines["runs"].min(), lines["runs"].max()
    if most == 1:
        return "One run." if lines["variant"].nunique() == 1 else "One run each."
    runs = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"Mean ± sample standard deviation (of n - 1) over {runs} runs; a single run has none and is never bold."
