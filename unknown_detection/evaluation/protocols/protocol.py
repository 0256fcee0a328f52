"""The declaration of a protocol: one file owns its figures, its tables and its pictures.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from unknown_detection.evaluation.display.names import metric_name, set_name
from unknown_detection.evaluation.display.tables import Heading
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.protocols.figures import Figure
from unknown_detection.evaluation.protocols.layout import Builder, Columns, LaidOut, distinct, each_config, heading
from unknown_detection.evaluation.protocols.results import FIGURE_KEY, Line
from unknown_detection.evaluation.scoring.rows import Rows


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

        Args:
            rows: the rows.
            lenient: whether configs that lack rows the protocol needs have no figures instead of an error: for a part
                of rows that can be evaluated as a whole.
        """
        found: list[Figure] = []
        for part in rows.by("config").values() if self.each_config else [rows]:
            try:
                found += self.judge(part)
            except EvaluationError:
                if not lenient:
                    raise
        return found

    def headline(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Select the figures by which detectors are ranked, one for each config, of figures on equal rows."""
        for shown in self.summary:
            found = shown.of(lines)
            if len(found):
                return found.merge(found.drop_duplicates("config")[FIGURE_KEY])
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
