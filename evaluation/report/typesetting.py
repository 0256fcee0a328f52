"""Setting figures as tables: what the layouts of all papers have in common.

Tested by `tests/evaluation/report/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.files import file_name
from evaluation.metrics.metrics import METRICS
from evaluation.protocols.results import ALL_VARIANTS, NAMES_A_FIGURE, Line
from evaluation.report.tables import Heading, Number, Row, Table, words


@dataclass(frozen=True)
class Setter:
    """Sets tables; knows what is common to those of one way of training.

    Attributes:
        labels: what tells its tables from others of the same layout.
        titles: of detectors.
        remark: what the notes of all its tables end with.
    """

    labels: tuple[str, ...]
    titles: Mapping[str, str]
    remark: str = ""

    def methods(self, lines: Sequence[Line]) -> dict[str, str]:
        """Names of detectors with their titles, in their order."""
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
        """A row for each detector; each column has the figures that are named as the one beside its heading."""
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
        """A table that is named like its neighbours."""
        full = ", ".join([title, *map(words, self.labels)])
        note = f"{note} {self.remark}".strip()
        return Table(file_name(*parts, *self.labels), full, note, stub, tuple(columns), tuple(rows), **others)


def figure_name(line: Line) -> tuple[str, ...]:
    """What tells a figure from others of the same detector and run."""
    return tuple(line[name] for name in NAMES_A_FIGURE)


def distinct(lines: Iterable[Line]) -> list[Line]:
    """The first line of each figure, whichever detector's it is."""
    found: dict[tuple[str, ...], Line] = {}
    for line in lines:
        found.setdefault(figure_name(line), line)
    return list(found.values())


def heading(group: str, line: Line) -> Heading:
    """The heading of a column of a metric."""
    metric = METRICS[line["metric"]]
    # Which side is positive stands in the note, once for the table.
    return Heading(group, metric.title.partition(" (")[0], metric.better)


def number(line: Line) -> Number:
    """A figure over runs as tables print it, in the unit of its paper."""
    deviation = None if line["std"] is None else line["std"] * line["factor"]
    return Number(line["mean"] * line["factor"], deviation)


def cell(line: Line | None) -> tuple[Number, ...]:
    """A cell with one number, or an empty one."""
    return () if line is None else (number(line),)


def over(lines: Sequence[Line]) -> str:
    """A sentence on how many runs numbers are of."""
    fewest, most = min(line["runs"] for line in lines), max(line["runs"] for line in lines)
    if most == 1:
        return "" if lines[0]["variant"] == ALL_VARIANTS else "One run."
    return f"Mean ± standard deviation over {most if fewest == most else f'{fewest} to {most}'} runs."
