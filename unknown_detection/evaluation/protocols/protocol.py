"""Defines protocols: functions that compute figures from one detector's joined frame, and what is shown of them.

A figure is a plain dictionary, one number with what identifies it (`FIGURE_KEY`), made by `measure` and `means`.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from unknown_detection.evaluation import frame
from unknown_detection.evaluation.errors import (
    EvaluationError,
    a_kind,
    one_line,
    require_kinds,
    require_known,
    require_name,
)
from unknown_detection.evaluation.metrics.metrics import METRICS, is_redefined
from unknown_detection.evaluation.metrics.ranking import ONE_SIDED, Ranking
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS

Figure = dict[str, Any]

FIGURE_KEY = ["protocol", "config", "setting", "known", "unknown", "metric", "positive", "rows", "statistic"]
FIGURE_KEY += ["fitted_on"]
"""The fields that identify a figure among those of a detector and run; the others are `value`, `factor` (by which the
protocol's paper multiplies it), `n_known`, `n_unknown` and `left_out`."""

_KINDS = {
    **dict.fromkeys(("title", "paper", "note"), str),
    **dict.fromkeys(("judge", "drawn", "absent"), Callable),
    **dict.fromkeys(("settings", "tabulated"), Mapping),
    **dict.fromkeys(("shows", "tables_by", "plots", "of_paper"), list | tuple),
}
"""The kinds of a protocol's fields."""

_FIGURE: dict[str, Any] = dict.fromkeys((name for name in FIGURE_KEY if name not in ("protocol", "rows")), str)
_FIGURE |= {"value": Real, "factor": Real, "n_known": Integral, "n_unknown": Integral}
"""What a figure of a protocol must have, and the kinds; of which protocol and rows it is, others say."""

AS_PUBLISHED = "as_published"

CHOSEN = "metrics"
"""Name of the protocol of the metrics that a report is given (`protocols.chosen`), which no other one has."""

Plot = Literal["heatmap", "roc", "densities", "risk_coverage"]


@dataclass(frozen=True)
class Shown:
    """A group of columns in the table of results, and which figures they show.

    Attributes:
        group: heading above the metric's name; `{set}` in it is the name of the unknown rows.
        fields: what the figures' fields are, as regular expressions.
    """

    group: str
    fields: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Protocol:
    """An evaluation protocol for one detector on one model.

    Attributes:
        name: its name on the command line and in figures; it is the default of configs whose names begin with it.
        title: for display.
        paper: the paper that describes it.
        judge: computes the figures of a joined frame, without any treatment of duplicates.
        settings: its tasks by their names in figures, with titles for display.
        shows: columns of the table of results; detectors are ranked by the first.
        tables_by: the fields of figures that have a table of their own for each value.
        tabulated: which figures these tables have, as fields with regular expressions; all by default.
        note: a sentence below them.
        plots: what is drawn.
        drawn: which rows ROC curves, densities and risk-coverage curves are of; by default all but those of splits
            for fitting and tuning.
        absent: lists in sentences which of the paper's sets are not among the rows.
        each_config: whether each config is judged alone, or all of them together.
        of_paper: what names of configs begin with whose results the paper prints; others have AUROC first.
    """

    name: str
    title: str
    paper: str
    judge: Callable[[pd.DataFrame], list[Figure]]
    settings: Mapping[str, str] = field(default_factory=dict)
    shows: Sequence[Shown] = ()
    tables_by: Sequence[str] = ("config",)
    tabulated: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    plots: Sequence[Plot] = ("roc", "densities", "heatmap")
    drawn: Callable[[pd.DataFrame], pd.Series] = lambda rows: ~rows["split"].isin(FIT_AND_TUNE_SPLITS)
    absent: Callable[[pd.DataFrame], list[str]] = lambda rows: []
    each_config: bool = True
    of_paper: tuple[str, ...] = ("",)

    def figures(self, rows: pd.DataFrame, *, lenient: bool = False) -> list[Figure]:
        """Compute the figures of rows of one or more configs, and name protocol and config where a figure does not.

        `lenient` leaves out configs that lack rows which the protocol needs, instead of an error: for a part of rows
        that can be evaluated as a whole.
        """
        measured: list[Figure] = []
        for part in frame.by(rows, "config").values() if self.each_config else [rows]:
            try:
                judged = self.judge(part)
            except EvaluationError:
                if not lenient:
                    raise
            else:
                measured += self._checked(judged, config=" + ".join(frame.names(part, "config")))
        return measured

    def _checked(self, judged: Any, **named: str) -> list[Figure]:
        """Return the figures of a user's judge as a list, with what they are of; refuse what none can be shown of."""
        listed = [*judged] if isinstance(judged, Iterable) else [judged]
        if not all(isinstance(figure, Mapping) for figure in listed):
            raise EvaluationError(
                f"The judge of the protocol {self.name} returned {one_line(repr(judged), 60)}, not a list of figures. "
                "Return those of measure, measure_each and means, added to one list."
            )
        figures = [{**named, **figure, "protocol": self.name} for figure in listed]
        for figure in figures:
            for name in (name for name, kind in _FIGURE.items() if not isinstance(figure.get(name), kind)):
                has = f"{one_line(repr(figure[name]), 60)} as {name}" if name in figure else f"no {name}"
                raise EvaluationError(
                    f"A figure of the protocol {self.name} has {has}. Take those of measure, which is given texts as "
                    "setting=, known= and unknown=."
                )
            require_known(f"metric for the protocol {self.name}", [figure["metric"]], METRICS)
        return figures

    def shown(self, lines: pd.DataFrame) -> list[pd.DataFrame]:
        """Select the figures of each part of `shows`, with its heading in the column `group`; omits empty parts."""
        own = not lines["config"].str.startswith((*self.of_paper,)).any()
        # AURC stands for papers that use it: of one's own images, AUROC is first.
        shows = sorted(self.shows, key=lambda shown: own and shown.fields.get("metric") != "auroc")
        selected = [matching(lines, shown.fields).assign(group=shown.group) for shown in shows]
        return [of for of in selected if len(of)]


def matching(lines: pd.DataFrame, fields: Mapping[str, str]) -> pd.DataFrame:
    """Select the figures whose fields match regular expressions."""
    fits = [
        lines[name].isin([*filter(re.compile(pattern).fullmatch, lines[name].unique())])
        for name, pattern in fields.items()
    ]
    return lines[np.all(fits, axis=0)] if fits else lines


def figures(protocol: str | Protocol, rows: pd.DataFrame) -> list[Figure]:
    """Compute the figures of a detector's joined frame by a protocol, given itself or by its name.

    Returns:
        The protocol's figures on all rows; if the release has information on duplicates, the same on the rows without
        these and those that share their source images; and likewise without rows whose class overlaps a known one. A
        figure that is over fewer splits then names these only, or those that it lacks, and has no `left_out`, since
        there is none to compare it with. A protocol that cannot do without the rows has no such figures.
    """
    if isinstance(protocol, str):
        require_known("protocol", [protocol], PROTOCOLS)
        protocol = PROTOCOLS[protocol]
    published = protocol.figures(rows)
    whole = {_key(figure): figure["n_known"] + figure["n_unknown"] for figure in published}
    if len(whole) < len(published):
        key, _ = Counter(map(_key, published)).most_common(1)[0]
        raise EvaluationError(
            f"The protocol {protocol.name} has several figures of {one_line(', '.join(filter(None, key[1:])))}. Tell "
            "them apart, as by other texts for setting=, known= or unknown=."
        )
    measured = [{**figure, "rows": AS_PUBLISHED, "left_out": 0} for figure in published]
    for kind in frame.REDUCED:
        out = frame.left_out(rows, kind)
        if out is None:
            continue
        emptied = _emptied(rows, out)
        for figure in protocol.figures(rows[~out], lenient=True) if out.any() else published:
            roles = figure["unknown"].split(" + ") if figure["statistic"] else []
            if gone := [split for role in roles for split in emptied.get(role, ())]:
                figure = figure | {"unknown": f"{figure['unknown']}, without {', '.join(gone)}"}
            all_rows = whole.get(_key(figure))
            lost = None if all_rows is None else all_rows - figure["n_known"] - figure["n_unknown"]
            measured.append({**figure, "rows": kind, "left_out": lost})
    return measured


def _emptied(rows: pd.DataFrame, out: npt.NDArray[np.bool_]) -> dict[str, list[str]]:
    """Return by role the splits to evaluate of which all rows are left out, sorted."""
    lost = rows[~rows["split"].isin(FIT_AND_TUNE_SPLITS)].assign(out=pd.Series(out, rows.index))
    whole = lost.groupby(["role", "split"], observed=True)["out"].all()
    gone = whole[whole].reset_index()
    return {role: sorted(of["split"]) for role, of in gone.groupby("role", observed=True)}


def _key(figure: Figure) -> tuple[Any, ...]:
    return tuple(figure[name] for name in FIGURE_KEY if name != "rows")


def measure(ranking: Ranking, metrics: Iterable[str], **named: str) -> list[Figure]:
    """Compute metrics, keys of `METRICS`, from a ranking; NaN for a metric of two classes if one has no rows.

    `named` has the other fields that identify the figures, such as `setting`, `known` and `unknown`.
    """
    known, unknown = int(ranking.known[-1]) + ranking.missed, int(ranking.unknown[-1])
    measured = []
    for name in metrics:
        require_known("metric", [name], METRICS)
        metric = METRICS[name]
        enough = len(ranking) if metric.takes in ONE_SIDED else known and unknown
        value = metric.value(ranking) if enough else float("nan")
        numbers = {"value": value, "factor": metric.factor, "n_known": known, "n_unknown": unknown}
        measured.append(
            {"statistic": "", "fitted_on": "", **named, "metric": name, "positive": metric.positive, **numbers}
        )
    return measured


def measure_each(
    known: pd.DataFrame, unknown: Mapping[str, pd.DataFrame], metrics: Sequence[str], /, **named: str
) -> list[Figure]:
    """Compute metrics of the known rows against each unknown split, given by name.

    Metrics that need predictions are passed over where the rows have none.
    """
    require_known("metric", metrics, METRICS)
    measured = []
    for split, rows in unknown.items():
        ranked = frame.rankings(known, rows, takes={METRICS[name].takes for name in metrics})
        for name in metrics:
            if METRICS[name].takes in ranked:
                measured += measure(ranked[METRICS[name].takes], [name], unknown=split, **named)
    return measured


def measure_roles(
    rows: pd.DataFrame, known: pd.DataFrame, roles: Iterable[str], metrics: Sequence[str], /, **named: str
) -> list[Figure]:
    """Compute metrics of the known rows against each split of some roles, and the mean over each role's splits.

    A split with rows of several roles, as FACETS's, is named with each of them.
    """
    measured: list[Figure] = []
    for role, splits in frame.unknown_by_role(rows, roles).items():
        of_role = measure_each(known, splits, metrics, **named)
        measured += of_role + means(of_role, n_known=len(known), unknown=role)
    return measured


def means(figures: Sequence[Figure], *, n_known: int | None = None, **named: str) -> list[Figure]:
    """Return the unweighted mean of each metric's figures; NaN if one of these is.

    `n_known` is the number of known rows if all figures are over the same ones, which then count once. `named` has
    what the means are of, such as `unknown` and `config`; by default the figures' own sets, joined.
    """
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure["metric"], []).append(figure)
    return [
        {
            **summed(group),
            **({} if n_known is None else {"n_known": n_known}),
            "unknown": " + ".join(figure["unknown"] for figure in group),
            **named,
            "statistic": "mean",
            "value": float(np.mean([figure["value"] for figure in group])),
        }
        for group in groups.values()
    ]


def summed(figures: Sequence[Figure]) -> Figure:
    """Return the first figure, with the numbers of rows added up over all of them."""
    return figures[0] | {name: sum(figure[name] for figure in figures) for name in ("n_known", "n_unknown")}


PROTOCOLS: dict[str, Protocol] = {}
"""All protocols by name; `register` adds them."""


def register(protocol: Protocol) -> Protocol:
    """Register a protocol of one's own, so that commands and functions know it by its name.

    A file with a function from a joined frame to figures and a `Protocol` is enough. `--protocol FILE.py:NAME`
    registers one on the command line.

    Raises:
        EvaluationError: the name is another protocol's or can be none, or a field is of another kind.
    """
    if not isinstance(protocol, Protocol):
        raise EvaluationError(
            f"{one_line(type(protocol).__name__)} is not a protocol. Make it a Protocol, with its figures as judge."
        )
    name = protocol.name
    require_name("protocol", name)
    require_kinds(protocol, f"the protocol {name}", _KINDS)
    require_known(f"plot, for the protocol {name}", protocol.plots, get_args(Plot))
    for shown in protocol.shows:
        if not isinstance(shown, Shown):
            raise EvaluationError(f"shows of the protocol {name} has {a_kind(shown)}. List values of Shown.")
    shows = [shown.fields for shown in protocol.shows]
    for fields in (*shows, protocol.tabulated, dict.fromkeys(protocol.tables_by, "")):
        require_known(f"field of figures, for the protocol {name}", fields, FIGURE_KEY)
        try:
            [*map(re.compile, fields.values())]
        except re.error as error:
            raise EvaluationError(
                f"{error.pattern!r} of the protocol {name} is no regular expression: {error.msg}. Mend it."
            ) from error
    known = PROTOCOLS.get(name, protocol)
    if name == CHOSEN or (known != protocol and not is_redefined(known.judge, protocol.judge)):
        raise EvaluationError(f"There is a protocol {name} already. Give yours another name.")
    PROTOCOLS[name] = protocol
    return protocol
