"""OD-test: Shafaei, Schmidt and Little, A Less Biased Evaluation of Out-of-distribution Sample Detectors (BMVC 2019).

A threshold has to be chosen with the OoD data at hand, which differ from those met later. So OD-test fits the
threshold on one OoD set, D_m, and evaluates on another, D_t, for every ordered pair of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt
import pandas as pd

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.frame import TEST, beside, known_rows, names, unknown_splits
from unknown_detection.evaluation.metrics.ranking import rank
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, Shown, measure, summed

NAME = "od-test"

ROLES = ("near_ood", "far_ood", "novel_class", "adversarial", "synthetic", "corruption", "multi_label")
"""Roles of the OoD sets; `external` is excluded, because hyperparameters are chosen on it."""

STATISTICS: Mapping[str, Callable[[npt.NDArray[np.float64]], np.float64]] = {
    "mean": np.mean,
    "standard_deviation": np.std,
    "min": np.min,
    "lower_quartile": lambda values: np.quantile(values, 0.25),
    "median": np.median,
    "upper_quartile": lambda values: np.quantile(values, 0.75),
    "max": np.max,
}
"""Statistics of the figures of all pairs; the standard deviation is the population's."""


def figures(rows: pd.DataFrame) -> list[Figure]:
    """Evaluate a config by balanced accuracy.

    For every ordered pair of different OoD splits, D_m and D_t, the threshold is fitted on the in-distribution rows of
    `validation` with D_m, and evaluated on those of `test` with D_t. A detector that was fitted on `validation` itself
    has its threshold from rows that it has seen; reports name it. For comparison, the two-dataset setting uses one
    set as both: its rows, ordered by id, are divided into two halves, the threshold is fitted on one half and
    evaluated on the other, both ways, and the two results are averaged. Statistics over all pairs follow for both
    settings. Hyperparameters must not have been chosen on the OoD splits.
    """
    fitting, evaluated = known_rows(rows, "validation"), known_rows(rows)
    sets = unknown_splits(rows, ROLES)
    if len(sets) < 2:
        raise EvaluationError(
            f"{names(rows, 'config')[0]} has only one OoD split, {', '.join(sets)}, but OD-test fits on one and "
            "evaluates on another. Score a second one."
        )

    def judge(
        setting: str, fitted_on: str, fitted_rows: pd.DataFrame, unknown: str, unknown_rows: pd.DataFrame
    ) -> Figure:
        cut = threshold(*beside(fitting, fitted_rows))
        scores, flags = beside(evaluated, unknown_rows)
        named = {"setting": setting, "known": TEST, "unknown": unknown}
        ranking = rank((scores > cut).astype(np.int8), flags)[0]
        return measure(ranking, ["balanced_accuracy"], fitted_on=fitted_on, **named)[0]

    pairs = [judge("od_test", of_m, sets[of_m], of_t, sets[of_t]) for of_m, of_t in permutations(sets, 2)]
    two_dataset = []
    for name, split in sets.items():
        first, second = _halves(split)
        ways = [judge("two_dataset", name, first, name, second), judge("two_dataset", name, second, name, first)]
        value = (ways[0]["value"] + ways[1]["value"]) / 2
        two_dataset.append(ways[0] | {"value": value, "n_unknown": len(split)})
    return [*pairs, *_distribution(pairs), *two_dataset, *_distribution(two_dataset)]


def threshold(scores: npt.NDArray[np.float64], unknown: npt.NDArray[np.bool_]) -> float:
    """Return the lowest score that, used as a threshold above which rows are rejected, maximizes balanced accuracy.

    It is a row's score and not a number between two, so that monotone transforms of scores change no decision. Scores
    and flags of unknown rows are of shape (n,).
    """
    ranking = rank(scores, unknown)[0]
    n_known, n_unknown = ranking.sizes()
    # Balanced accuracy less 0.5, up to a factor, in integers, with each distinct score as the last one accepted.
    gain = ranking.known[1:] * n_unknown - ranking.unknown[1:] * n_known
    return float(np.unique(scores)[np.argmax(gain)])


def _halves(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Divide rows alternately in the order of ids, so that the halves do not depend on the order of rows."""
    second = np.zeros(len(rows), dtype=np.bool_)
    second[np.argsort(rows["id"].cat.codes.to_numpy())[1::2]] = True  # ids' codes are in the order of ids
    return rows[~second], rows[second]


def _distribution(figures: Sequence[Figure]) -> list[Figure]:
    values = np.array([figure["value"] for figure in figures])
    sets = " + ".join(dict.fromkeys(figure["unknown"] for figure in figures))
    combined = summed(figures) | {"unknown": sets, "fitted_on": sets}
    return [combined | {"statistic": name, "value": float(of(values))} for name, of in STATISTICS.items()]


PROTOCOL = Protocol(
    name=NAME,
    title="OD-test",
    paper="Shafaei, Schmidt and Little, A Less Biased Evaluation of Out-of-distribution Sample Detectors (2019)",
    settings={"od_test": "OD-test (three datasets)", "two_dataset": "Two datasets"},
    judge=figures,
    shows=tuple(
        Shown(title, {"setting": name, "statistic": "mean"})
        for title, name in (("Three datasets, mean", "od_test"), ("Two datasets, mean", "two_dataset"))
    ),
    tabulated={"statistic": ".+"},
    note="OD-test: the threshold is fitted on one OoD set and evaluated on another, for all ordered pairs. Two "
    "datasets: fitted and evaluated on halves of the same set.",
    plots=(),
)
