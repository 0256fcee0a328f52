"""The declaration of a protocol, the registry of all, and the layout of their tables.

Tested by `tests/evaluation/protocols/test_registry.py` and `tests/evaluation/display/test_tables.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from unknown_detection.evaluation.display.tables import (
    Heading,
    ResultTable,
    TableRow,
    figure_metric,
    metric_name,
    paper_name,
    set_name,
)
from unknown_detection.evaluation.errors import EvaluationError, one_line
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.metrics.metrics import is_redefined
from unknown_detection.evaluation.protocols.results import ALL_VARIANTS, FIGURE_KEY, Figure, Line
from unknown_detection.evaluation.scoring.rows import Rows

Mask = npt.NDArray[np.bool_]

_SPREADS: Mapping[str, Literal["lower", ""]] = {
    "standard_deviation": "",
    "mixture_variance": "lower",
    "robustness": "lower",
}
"""Statistics for which other values are better than for the metric that they are of."""

Titled = str | tuple[str, str] | None
"""The heading above a column's title, which is the metric's name; or both; None for no column."""


@dataclass(frozen=True)
class Shown:
    """Columns of the short table of results: figures of one kind.

    Attributes:
        group: heading above the metric's name; `{set}` in it is the name of the unknown rows.
        fields: what the figures' fields are, as regular expressions.
    """

    group: str
    fields: Mapping[str, str]


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
        tables: lays out figures over runs, with one value of `rows`, by `by_detector`; None for one table for each
            config.
        pictures: what is drawn: functions that yield each `pictures.Picture` of a `pictures.Scene`.
        drawn: which rows the pictures are of, shape (n,); all by default.
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
    tables: Callable[[pd.DataFrame], Iterator[ResultTable]] | None = None
    pictures: Sequence[Callable[[Any], Iterable[Any]]] = ()
    drawn: Callable[[Rows], Mask] = lambda rows: np.ones(len(rows), dtype=np.bool_)
    with_predictions: tuple[str, ...] = ()
    absent: Callable[[Rows], list[str]] = lambda rows: []
    each_config: bool = True

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

    def shown(self, lines: pd.DataFrame) -> list[pd.DataFrame]:
        """Select the figures of each part of `summary` that has some, with their heading in the column `group`."""
        selected = []
        for shown in self.summary:
            fits = [lines[name].str.fullmatch(pattern).astype(bool) for name, pattern in shown.fields.items()]
            selected.append(lines[np.all(fits, axis=0)].assign(group=shown.group))
        return [of for of in selected if len(of)]

    def headline(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Select the figures by which detectors are ranked, one for each config, of figures on equal rows."""
        for first in self.shown(lines):
            return first.merge(first.drop_duplicates("config")[FIGURE_KEY])
        return lines.iloc[:0]


PROTOCOLS: dict[str, Protocol] = {}
"""All protocols by name; `register` adds them."""


def register(protocol: Protocol) -> Protocol:
    """Add a protocol of one's own, which commands and functions then know by its name.

    A file with a function from `Rows` to `Figure`s and a `Protocol` is enough; its tables are laid out by config
    unless it says how. `--protocol FILE.py:NAME` registers one on the command line.

    Raises:
        EvaluationError: the name is another protocol's, or cannot be one.
    """
    if not isinstance(protocol, Protocol):
        raise EvaluationError(
            f"{one_line(type(protocol).__name__)} is not a protocol. Make it a Protocol, with its figures as judge."
        )
    if not re.fullmatch("[A-Za-z0-9]+(-[A-Za-z0-9]+)*", protocol.name):
        raise EvaluationError(
            f"{one_line(protocol.name)!r} cannot be the name of a protocol. Name it with letters, digits and hyphens."
        )
    known = PROTOCOLS.get(protocol.name, protocol)
    if known != protocol and not is_redefined(known.judge, protocol.judge):
        raise EvaluationError(f"There is a protocol {protocol.name} already. Give yours another name.")
    PROTOCOLS[protocol.name] = protocol
    return protocol


def setting_name(setting: str) -> str:
    """Return the title of a protocol's setting."""
    titles = {name: title for protocol in PROTOCOLS.values() for name, title in protocol.settings.items()}
    return titles.get(setting, setting.replace("_", " "))


def tables_of(protocol: Protocol, lines: pd.DataFrame) -> Iterator[ResultTable]:
    """Lay out a protocol's tables."""

    def titled(line: Line) -> str:
        task = f"{setting_name(line['setting'])}, " if len(protocol.settings) > 1 else ""
        return f"{task}{set_name(line['unknown'])}"

    if protocol.tables:
        return protocol.tables(lines)
    return each_config(protocol.name, protocol.title, "Rates and areas in percent.", lines, titled)


def each_config(
    name: str, title: str, note: str, lines: pd.DataFrame, titled: Callable[[Line], Titled]
) -> Iterator[ResultTable]:
    """Lay out one table for each config; otherwise as `by_detector`."""
    for config, group in lines.groupby("config", sort=False):
        yield by_detector((name, config), f"{title} on {config}", note, group, titled)


def by_detector(
    name: Sequence[str],
    title: str,
    note: str,
    lines: pd.DataFrame,
    titled: Callable[[Line], Titled],
    *,
    shown: bool = True,
) -> ResultTable:
    """Tabulate figures with one row per detector and training method, the best first.

    They are ranked by the protocol's headline or, without one, by the first column of which some values are better.
    `name` has the parts of the name of its files; the number of runs is added to the note. `lines` are figures over
    runs of one protocol, in the order of the columns, whose headings `titled` returns, given a line of any detector.
    """
    figures = lines.drop_duplicates(FIGURE_KEY).to_dict("records")
    columns = []
    for line in figures:
        heading = titled(line)
        if heading is not None:
            group, text = (heading, metric_name(line["metric"])) if isinstance(heading, str) else heading
            better = _SPREADS.get(line["statistic"], figure_metric(line["metric"]).better)
            columns.append((Heading(group, text, better), [line[key] for key in FIGURE_KEY]))
    index = pd.MultiIndex.from_frame(lines[["detector", "variant"]].drop_duplicates())
    keys = pd.MultiIndex.from_tuples([(*pair, *key) for pair in index for _, key in columns])
    measured = lines.set_index([*index.names, *FIGURE_KEY])
    cells = measured[["mean", "std"]].mul(measured["factor"], axis=0).reindex(keys)
    values, deviations = cells.to_numpy(float).T.reshape(2, len(index), len(columns))
    several = lines["variant"].nunique() > 1
    subtitles = [filter(None, (paper_name(detector), variant * several)) for detector, variant in index]
    rows = [TableRow(detector, ", ".join(texts)) for (detector, _), texts in zip(index, subtitles, strict=True)]
    note = f"{note} {_runs_note(lines)}".strip()
    headings = [head for head, _ in columns]
    table = ResultTable(
        safe_file_name(*name), title, note, "Detector", headings, rows, values, deviations, shown=shown
    )
    protocol = PROTOCOLS.get(lines["protocol"].iloc[0])
    headline = protocol.headline(lines) if protocol else lines.iloc[:0]
    if len(headline):
        means = headline.groupby([*index.names], sort=False)["mean"].mean().reindex(index)
        return table.in_order(best_first(means, figure_metric(headline["metric"].iloc[0]).better))
    ranked = next(number for number, head in enumerate(headings) if head.better)
    return table.in_order(best_first(values[:, ranked], headings[ranked].better))


def _runs_note(lines: pd.DataFrame) -> str:
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
