"""Lays out figures over runs as tables: a row for each detector, a column for each figure, the best first.

Tested by `tests/evaluation/display/test_tables.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.names import beside, metric, metric_name
from unknown_detection.evaluation.display.tables import Heading, Row, Table
from unknown_detection.evaluation.files import file_name
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, FIGURE_KEY, Line

Columns = Sequence[tuple[Heading, Line]]
"""The headings of a table, each with the figure of any detector that its column shows."""

LaidOut = Iterator[tuple[Table, bool]]
"""Tables, each with whether a page shows it at once."""

_SPREADS: Mapping[str, Literal["lower", ""]] = {
    "standard_deviation": "",
    "mixture_variance": "lower",
    "robustness": "lower",
}
"""Statistics for which other values are better than for the metric that they are of."""


@dataclass(frozen=True)
class Builder:
    """Builds the tables of one training method, whose labels, remark and order of detectors they share.

    Attributes:
        labels: what the names and titles of tables end in, such as the training method.
        remark: a sentence that ends each note.
        settings: titles of settings by name.
        ranked: returns the figures by which detectors are ordered, of some that a table is laid out of.
    """

    labels: tuple[str, ...] = ()
    remark: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    ranked: Callable[[pd.DataFrame], pd.DataFrame] = lambda lines: lines.iloc[:0]

    def by_detector(self, parts: Sequence[str], title: str, note: str, columns: Columns, lines: pd.DataFrame) -> Table:
        """Build a table with one row per detector; each column shows the figure of the line next to its heading."""
        names = lines["detector"].unique().tolist()
        keys = [(name, *(line[key] for key in FIGURE_KEY)) for name in names for _, line in columns]
        figures = lines.set_index(["detector", *FIGURE_KEY])
        shape = len(names), len(columns)
        found = figures[["mean", "std"]].mul(figures["factor"], axis=0).reindex(pd.MultiIndex.from_tuples(keys))
        rows = [Row(name, beside(name)) for name in names]
        table = self.table(
            parts, title, f"{note} {over(lines)}", "Detector", [head for head, _ in columns], rows,
            *(found[name].to_numpy(float).reshape(shape) for name in ("mean", "std")),
        )  # fmt: skip
        ranked = self.ranked(lines)
        if len(ranked):
            better = metric(ranked["metric"].iloc[0]).better
            means = ranked.groupby("detector", sort=False)["mean"].mean().reindex(names)
            return table.in_order(best_first(means, better))
        first = next((number for number, head in enumerate(table.columns) if head.better), None)
        return table if first is None else table.best_first(first)

    def table(
        self, parts: Sequence[str], title: str, note: str, stub: str, columns: Sequence[Heading], rows: Sequence[Row],
        *numbers: Any, **others: Any
    ) -> Table:  # fmt: skip
        """Build a table with the shared labels in its name and title; deviations may be left out."""
        full = ", ".join([title, *(label.replace("_", " ") for label in self.labels)])
        note = " ".join(f"{note} {self.remark}".split())
        values, deviations = numbers if len(numbers) > 1 else (numbers[0], np.full(np.shape(numbers[0]), np.nan))
        return Table(file_name(*parts, *self.labels), full, note, stub, columns, rows, values, deviations, **others)


def each_config(name: str, title: str, note: str, heading: Callable[[Line], Heading]) -> Callable[..., LaidOut]:
    """Return a layout with one table for each config, of all its figures; `heading` makes the heading of a column."""

    def tables(lines: pd.DataFrame, builder: Builder) -> LaidOut:
        for config, found in lines.groupby("config", sort=False):
            columns = [(heading(line), line) for line in distinct(found)]
            yield builder.by_detector((name, config), f"{title} on {config}", note, columns, found), True

    return tables


def distinct(lines: pd.DataFrame) -> list[Line]:
    """Return the first line of each figure, of any detector."""
    return list(lines.drop_duplicates(FIGURE_KEY).to_dict("records"))


def heading(group: str, line: Line, title: str = "") -> Heading:
    """Return the heading of a figure's column; without a title, the metric's name."""
    better = _SPREADS.get(line["statistic"], metric(line["metric"]).better)
    return Heading(group, title or metric_name(line["metric"]), better)


def over(lines: pd.DataFrame) -> str:
    """Return a sentence on the number of runs."""
    fewest, most = lines["runs"].min(), lines["runs"].max()
    if most == 1:
        return "" if lines["variant"].iloc[0] == ALL_VARIANTS else "One run."
    runs = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"Mean ± sample standard deviation (of n - 1) over {runs} runs; a single run has none and is never bold."


def best_first(means: Iterable[float], better: str) -> list[int]:
    """Return the places of figures, the best first and undefined ones last; ties stay in their order."""
    values = np.array([*means], dtype=float) * (-1 if better == "higher" else 1)
    return list(np.argsort(values, kind="stable"))  # NaN is last
