"""The protocol of OpenOOD v1.5: near and far unknowns, with shifted known rows left out or counted as known.

Zhang et al., OpenOOD v1.5: Enhanced Benchmark for Out-of-Distribution Detection (2023), sections 2 and 3; open-set
classification: Dhamija, Günther and Boult, Reducing Network Agnostophobia (2018).

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.names import set_name
from unknown_detection.evaluation.display.tables import ResultTable
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.ranking import Ranking, rank_open_set
from unknown_detection.evaluation.protocols import pictures
from unknown_detection.evaluation.protocols.protocol import Protocol, Shown, by_detector
from unknown_detection.evaluation.protocols.results import Figure, Line, means, measure
from unknown_detection.evaluation.scoring.rows import (
    Rows,
    known_rows,
    rank_errors,
    rank_known_unknown,
    sides,
    unknown_splits,
)

NAME = "openood"
METRICS = ("fpr_at_95_tpr_unknown_positive", "auroc", "aupr_in_trapezoid", "aupr_out_trapezoid")
"""The columns of its tables, as its code computes them: unknown rows are positive for FPR, AUPR has trapezoids."""

UNKNOWN = ("near_ood", "far_ood", "novel_class")
"""Roles of unknown rows, each with a mean of its own. BROAD's novel classes are neither near nor far."""

SHIFTED = ("corruption",)
"""Roles of rows that are shifted, but of known classes. Images whose content is another one, as BROAD's adversarial,
synthetic and multi-label ones, are not among OpenOOD's shifts."""


def figures(rows: Rows) -> list[Figure]:
    """Compare known rows with each split of unknown ones, and average over the near, the far and the novel splits.

    Standard: the known rows are the in-distribution rows of `test`. Full spectrum: corrupted rows count as known, too.
    Both by FPR at 95 % TPR, unknown rows positive, AUROC, and AUPR with known (in) and with unknown rows (out)
    positive. Open-set recognition: as standard, by OSCR. Classification: the accuracy on the known rows of either.

    One of the configs that are evaluated together has in-distribution rows in `test`. Open-set recognition and
    accuracy need predictions, the full spectrum corrupted rows.
    """
    known = known_rows(rows, "test")
    configs = list(known.by("config"))
    if len(configs) > 1:
        raise EvaluationError(
            f"{' and '.join(configs)} each have in-distribution rows in test, but {NAME} compares with those of one "
            f"config. Give it with the configs that belong to it: --protocol {NAME}={configs[0]}."
        )
    unknown_splits(rows, UNKNOWN)  # refuses rows without any
    measured = _against_each(rows, "standard", "test", METRICS, lambda unknown: rank_known_unknown(known, unknown))
    if rows.prediction is not None:
        measured += _against_each(rows, "open_set", "test", ("oscr",), lambda unknown: _rank_open_set(known, unknown))
        measured += _accuracy(rows, "test", known)
    shifted = np.isin(rows.role, SHIFTED) & (rows.label >= 0)
    if shifted.any():
        names = " + ".join(["test", *rows.where(shifted).by("split")])
        spectrum = rows.where(rows.known & (rows.split == "test") | shifted)
        ranked = partial(rank_known_unknown, spectrum)
        measured += _against_each(rows, "full_spectrum", names, METRICS, ranked)
        measured += [] if rows.prediction is None else _accuracy(rows, names, spectrum)
    return measured


def _against_each(
    rows: Rows, setting: str, known: str, metrics: tuple[str, ...], ranked: Callable[[Rows], Ranking]
) -> list[Figure]:
    """Measure each split of unknown rows, and average by role."""
    named = {"protocol": NAME, "config": _configs(rows), "setting": setting, "known": known}
    measured: list[Figure] = []
    for role in UNKNOWN:
        of_role = [
            figure
            for split, unknown in rows.where(rows.role == role).by("split").items()
            for figure in measure(ranked(unknown), metrics, unknown=split, **named)
        ]
        measured += of_role + means(of_role, unknown=role)
    return measured


def _accuracy(rows: Rows, names: str, known: Rows) -> list[Figure]:
    """Measure the accuracy on known rows that have labels; no figure if none has."""
    labelled = known.where(known.label >= 0)
    named = {"protocol": NAME, "config": _configs(rows), "setting": "classification"}
    sides = {"known": f"{names}, right", "unknown": f"{names}, wrong"}
    return measure(rank_errors(labelled), ["accuracy"], **named, **sides) if len(labelled) else []


def _configs(rows: Rows) -> str:
    return " + ".join(rows.where(rows.known | np.isin(rows.role, (*UNKNOWN, *SHIFTED))).by("config"))


def _rank_open_set(known: Rows, unknown: Rows) -> Ranking:
    return rank_open_set(*sides(known, unknown), np.concatenate([known.wrong, unknown.wrong]))[2]


def tables(lines: pd.DataFrame) -> Iterator[ResultTable]:
    """Lay out each setting: the means over near, far and novel splits, accuracy, and each split."""
    accurate = lines["metric"] == "accuracy"
    for (config, setting, known), group in lines[~accurate].groupby(["config", "setting", "known"], sort=False):
        name, title = (NAME, config, setting), f"{PROTOCOL.title} on {config}: {PROTOCOL.settings[setting]}"
        note = f"In percent; unknown rows are positive for FPR@95%TPR, AUPR is by trapezoids. Known rows: {known}."
        # OSCR has the accuracy in it.
        of = accurate & (lines["config"] == config) & (lines["known"] == f"{known}, right") & (setting != "open_set")
        yield by_detector(name, title, note, pd.concat([group, lines[of]]), _mean)
        yield by_detector((*name, "splits"), f"{title}, each split", note, group, _split, shown=False)


def _mean(line: Line) -> str | None:
    if line["metric"] == "accuracy":
        return ""
    return f"{set_name(line['unknown'])} mean" if line["statistic"] else None


def _split(line: Line) -> str | None:
    return None if line["statistic"] else set_name(line["unknown"])


PROTOCOL = Protocol(
    name=NAME,
    title="OpenOOD v1.5",
    paper="Zhang et al., OpenOOD v1.5: Enhanced Benchmark for Out-of-Distribution Detection (2023)",
    settings={
        "standard": "Standard",
        "open_set": "Open-set recognition",
        "full_spectrum": "Full spectrum",
        "classification": "Classification",
    },
    with_predictions=("open_set", "classification"),
    judge=figures,
    each_config=False,
    summary=tuple(
        Shown("{set} mean", {"setting": "standard", "statistic": "mean", "metric": metric})
        for metric in ("auroc", "fpr_.*")
    ),
    tables=tables,
    pictures=(pictures.changes, pictures.roc_curves),
    drawn=lambda rows: rows.known | np.isin(rows.role, UNKNOWN),
)
