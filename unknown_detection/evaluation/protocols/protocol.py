"""The declaration of a protocol, and the layout of its tables.

Tested by `tests/evaluation/protocols/test_registry.py` and `tests/evaluation/display/test_tables.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.names import figure_metric, metric_name, paper_name, set_name
from unknown_detection.evaluation.display.tables import Heading, ResultTable, TableRow
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.protocols.figures import Figure
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, FIGURE_KEY, Line
from unknown_detection.evaluation.scoring.rows import Rows

Columns = Sequence[tuple[Heading, Line]]
"""The headings of a table, each with the figure of any detector that its column shows."""

LaidOut = Iterator[tuple[ResultTable, bool]]
"""Tables, each with whether a page shows it at once."""

_SPREADS: Mapping[str, Literal["lower", ""]] = {
    "standard_deviation": "",
    "mixture_variance": "lower",
    "robustness": "lower",
}
"""Statistics for which other values are better than for the metric that they are of."""


@dataclass(frozen=True)
class Builder:
    """Builds tables that share labels, a remark and the order of detectors.

    Attributes:
        labels: what the names and titles of tables end in, such as the training method.
        remark: a sentence that ends each note.
        settings: titles of settings by name.
        ranked: returns the figures by which detectors are ordered, of some that a table is laid out of.
        variants: whether a row names its training method, too.
    """

    labels: tuple[str, ...] = ()
    remark: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    ranked: Callable[[pd.DataFrame], pd.DataFrame] = lambda lines: lines.iloc[:0]
    variants: bool = False

    def by_detector(
        self, parts: Sequence[str], title: str, note: str, columns: Columns, lines: pd.DataFrame
    ) -> ResultTable:
        """Build a table with one row per detector and variant; each column shows the figure next to its heading."""
        index = pd.MultiIndex.from_frame(lines[["detector", "variant"]].drop_duplicates())
        keys = [(*pair, *(line[key] for key in FIGURE_KEY)) for pair in index for _, line in columns]
        figures = lines.set_index([*index.names, *FIGURE_KEY])
        cells = figures[["mean", "std"]].mul(figures["factor"], axis=0).reindex(pd.MultiIndex.from_tuples(keys))
        values, deviations = cells.to_numpy(float).T.reshape(2, len(index), len(columns))
        subtitles = [filter(None, (paper_name(name), variant * self.variants)) for name, variant in index]
        rows = [TableRow(name, ", ".join(texts)) for (name, _), texts in zip(index, subtitles, strict=True)]
        headings, note = [head for head, _ in columns], f"{note} {runs_note(lines)}"
        table = self.table(parts, title, note, "Detector", headings, rows, values, deviations)
        ranked = self.ranked(lines)
        if len(ranked):
            better = figure_metric(ranked["metric"].iloc[0]).better
            means = ranked.groupby([*index.names], sort=False)["mean"].mean().reindex(index)
            return table.in_order(best_first(means, better))
        first = next((number for number, head in enumerate(table.columns) if head.better), None)
        return table if first is None else table.best_first(first)

    def table(
        self, parts: Sequence[str], title: str, note: str, stub: str, columns: Sequence[Heading],
        rows: Sequence[TableRow], values: Any, deviations: Any = None, **layout: Any
    ) -> ResultTable:  # fmt: skip
        """Build a table with the shared labels in its name and title; without deviations, each cell has one run."""
        name = safe_file_name(*parts, *self.labels)
        title = ", ".join([title, *(label.replace("_", " ") for label in self.labels)])
        note = " ".join(f"{note} {self.remark}".split())
        deviations = np.full(values.shape, np.nan) if deviations is None else deviations
        return ResultTable(name, title, note, stub, columns, rows, values, deviations, **layout)


def each_config(name: str, title: str, note: str, heading: Callable[[Line], Heading]) -> Callable[..., LaidOut]:
    """Return a layout with one table for each config, of all its figures; `heading` makes the heading of a column."""

    def tables(lines: pd.DataFrame, builder: Builder) -> LaidOut:
        for config, group in lines.groupby("config", sort=False):
            columns = [(heading(line), line) for line in distinct(group)]
            yield builder.by_detector((name, config), f"{title} on {config}", note, columns, group), True

    return tables


def distinct(lines: pd.DataFrame) -> list[Line]:
    """Return the first line of each figure, of any detector."""
    return list(lines.drop_duplicates(FIGURE_KEY).to_dict("records"))


def heading(group: str, line: Line, title: str = "") -> Heading:
    """Return the heading of a figure's column; without a title, the metric's name."""
    better = _SPREADS.get(line["statistic"], figure_metric(line["metric"]).better)
    return Heading(group, title or metric_name(line["metric"]), better)


def runs_note(lines: pd.DataFrame) -> str:
    """Return a sentence on the number of runs."""
    fewest, most = lines["runs"].min(), lines["runs"].max()
    if most == 1:
        return "" if lines["variant"].iloc[0] == ALL_VARIANTS else "One run."
    runs = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"Mean ± sample standard deviation (of n - 1) over {runs} runs; a single run has none and is never bold."


def best_first(means: Iterable[float], better: str) -> list[int]:
    """Return the positions of figures, the best first and undefined ones last; ties stay in their order."""
    values = np.array([*means], dtype=float) * (-1 if better == "higher" else 1)
    return list(np.argsort(values, kind="stable"))  # NaN is last


@dataclass(frozen=True)
class Shown:
    """Columns of the short table of results: figures of one kind.

    Attributes:
        group: heading above the metric's name; `{set}` in it is the name of the unknown rows.
        fields: what the figures' fields are, as regular expressions.
    """

    group: str
    fields: Mapping[str, str]

    def of(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Select these figures."""
        chosen = pd.Series(True, index=lines.index)
        for name, pattern in self.fields.items():
            chosen &= lines[name].str.fullmatch(pattern).astype(bool)
        return lines[chosen]


@dataclass(frozen=True)
class Protocol:
    """An evaluation protocol for one detector on one model.

    Attributes:
        name: its name on the command line and in figures; it is the default of configs whose names begin with it.
        title: for display.
        paper: the paper that describes it.
        settings: its tasks by their names in figures, with titles for display.
        judge: computes the figures of rows, without any treatment of duplicates.
        summary: columns of the short table; detectors are ranked by the first.
        tables: lays out figures over runs, with one value of `rows`; None for one table for each config.
        pictures: chooses what is drawn, of a `pictures.Scene`; yields each `pictures.Picture`.
        with_predictions: the settings that need predictions.
        absent: lists in sentences which of the paper's sets are not among the rows.
        each_config: whether each config is judged alone, or all of them together.
    """

    name: str
    title: str
    paper: str
    settings: Mapping[str, str]
    judge: Callable[[Rows], list[Figure]]
    summary: Sequence[Shown] = ()
    tables: Callable[[pd.DataFrame, Builder], LaidOut] | None = None
    pictures: Callable[[Any], Iterable[Any]] = lambda scene: ()
    with_predictions: tuple[str, ...] = ()
    absent: Callable[[Rows], list[str]] = lambda rows: []
    each_config: bool = True
    note: str = field(default="Rates and areas in percent.", kw_only=True)

    def figures(self, rows: Rows, *, lenient: bool = False) -> list[Figure]:
        """Compute the figures of rows of one or more configs.

        `lenient` leaves out configs that lack rows which the protocol needs, instead of an error: for a part of rows
        that can be evaluated as a whole.
        """
        measured: list[Figure] = []
        for part in rows.by("config").values() if self.each_config else [rows]:
            try:
                measured += self.judge(part)
            except EvaluationError:
                if not lenient:
                    raise
        return measured

    def headline(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Select the figures by which detectors are ranked, one for each config, of figures on equal rows."""
        for shown in self.summary:
            selected = shown.of(lines)
            if len(selected):
                return selected.merge(selected.drop_duplicates("config")[FIGURE_KEY])
        return lines.iloc[:0]

    def columns(self, lines: pd.DataFrame) -> Columns:
        """Return the columns of the short table that there are figures of."""
        return [
            (heading(shown.group.format(set=set_name(line["unknown"])), line), line)
            for shown in self.summary
            for line in distinct(shown.of(lines))
        ]

    def lay_out(self, lines: pd.DataFrame, builder: Builder) -> LaidOut:
        """Lay out the protocol's tables."""
        return (self.tables or each_config(self.name, self.title, self.note, self._heading))(lines, builder)

    def _heading(self, line: Line) -> Heading:
        setting = self.settings.get(line["setting"], line["setting"])
        several = f"{setting}, " if len(self.settings) > 1 else ""
        return heading(f"{several}{set_name(line['unknown'])}", line, metric_name(line["metric"]))
