"""OD-test: Shafaei, Schmidt and Little, A Less Biased Evaluation of Out-of-distribution Sample Detectors (BMVC 2019).

A detector that rejects needs a threshold, and whoever sets it has some unknowns at hand, but not those to come. So the
threshold is fitted on one set of unknowns, D_m, and judged on another, D_t, for every ordered pair of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import numpy.typing as npt

from evaluation.errors import EvaluationError
from evaluation.metrics.ranking import rank
from evaluation.protocols.figures import Figure, measure
from evaluation.scoring.rows import Rows, known_rows, unknown_splits

NAME = "od-test"
SETTINGS = {"od_test": "OD-test (three datasets)", "two_dataset": "Two datasets"}
WITH_PREDICTIONS: tuple[str, ...] = ()

ROLES = ("near_ood", "far_ood", "novel_class", "adversarial", "synthetic", "corruption", "multi_label")
"""What sets of unknowns are made of: not of `external`, on which hyperparameters are chosen."""

STATISTICS: Mapping[str, Callable[[npt.NDArray[np.float64]], np.float64]] = {
    "mean": np.mean,
    "standard_deviation": np.std,
    "min": np.min,
    "lower_quartile": lambda values: np.quantile(values, 0.25),
    "median": np.median,
    "upper_quartile": lambda values: np.quantile(values, 0.75),
    "max": np.max,
}
"""How the figures of all pairs are distributed; the standard deviation is the population's."""


def figures(rows: Rows) -> list[Figure]:
    """Judge each config by balanced accuracy.

    For every ordered pair of different splits of unknowns, D_m and D_t, the threshold is fitted on the in-distribution
    rows of `validation` with D_m, and judged on those of `test` with D_t. Beside that stands the two-dataset figure,
    in which D_t is its own D_m: its rows, ordered by id, are dealt into two halves, the threshold is fitted on one and
    judged on the other, both ways, and the two are averaged. Statistics of all pairs follow in both settings.

    Args:
        rows: of one or several configs; hyperparameters must not have been chosen on the splits of unknowns.

    Raises:
        EvaluationError: a config has no in-distribution rows in `validation` or in `test`, or less than two splits of
            unknowns.
    """
    return [figure for config, of_config in rows.by("config").items() for figure in _of_config(config, of_config)]


def threshold(scores: npt.NDArray[np.float64], unknown: npt.NDArray[np.bool_]) -> float:
    """Fit a threshold: of all scores the lowest with the best balanced accuracy when all above it are rejected.

    A score of a row, and no number between two of them, so that monotone transforms of scores change no decision.

    Args:
        scores: shape (n,), higher = more unknown.
        unknown: shape (n,), bool.

    Raises:
        EvaluationError: a side has no rows, or scores are NaN or infinite.
    """
    ranking = rank(scores, unknown)[0]
    n_known, n_unknown = ranking.sizes()
    # In whole numbers what balanced accuracy is above 0.5, with each distinct score as the last one accepted.
    gain = ranking.known[1:] * n_unknown - ranking.unknown[1:] * n_known
    return float(np.unique(scores)[np.argmax(gain)])


def _of_config(config: str, rows: Rows) -> list[Figure]:
    fitting, judged = known_rows(rows, "validation"), known_rows(rows, "test")
    sets = unknown_splits(rows, ROLES)
    if len(sets) < 2:
        raise EvaluationError(
            f"expected two or more splits of unknowns in {config}, found {', '.join(sets)} alone; OD-test fits on one "
            "and judges on another."
        )

    def judge(setting: str, fitted_on: str, fit: Rows, unknown: str, judge: Rows) -> Figure:
        cut = threshold(*_sides(fitting, fit))
        scores, flags = _sides(judged, judge)
        (figure,) = measure(
            rank((scores > cut).astype(np.int8), flags)[0],
            ["balanced_accuracy"],
            protocol=NAME,
            config=config,
            setting=setting,
            known="test",
            unknown=unknown,
            fitted_on=fitted_on,
        )
        return figure

    pairs = [judge("od_test", of_m, sets[of_m], of_t, sets[of_t]) for of_m, of_t in permutations(sets, 2)]
    alone = []
    for name, split in sets.items():
        first, second = _halves(split)
        there, back = (judge("two_dataset", name, *both) for both in ((first, name, second), (second, name, first)))
        alone.append(replace(there, value=(there.value + back.value) / 2, n_unknown=len(split)))
    return [*pairs, *_distribution(pairs), *alone, *_distribution(alone)]


def _sides(known: Rows, unknown: Rows) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    return np.concatenate([known.score, unknown.score]), np.arange(len(known) + len(unknown)) >= len(known)


def _halves(rows: Rows) -> tuple[Rows, Rows]:
    """Every other row in the order of ids, so that the halves do not depend on the order of rows."""
    second = np.zeros(len(rows), dtype=np.bool_)
    second[np.argsort(rows.id)[1::2]] = True
    return rows.where(~second), rows.where(second)


def _distribution(figures: Sequence[Figure]) -> list[Figure]:
    values = np.array([figure.value for figure in figures])
    sets = " + ".join(dict.fromkeys(figure.unknown for figure in figures))
    whole = replace(
        figures[0],
        unknown=sets,
        fitted_on=sets,
        n_known=sum(figure.n_known for figure in figures),
        n_unknown=sum(figure.n_unknown for figure in figures),
    )
    return [replace(whole, statistic=name, value=float(of(values))) for name, of in STATISTICS.items()]
