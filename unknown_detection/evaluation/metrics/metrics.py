"""Metrics of a detector's scores. Higher scores mean more unknown, everywhere.

Names state the positive class and the estimator where papers and libraries differ. No result depends on the order of
rows: tied scores share one threshold, and in risk-coverage curves each row of a tie has the tie's mean error, which is
the expectation over all orders.

`METRICS` lists all of them; each is computed from a `Ranking`, so one sort serves any number of metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics import curves
from unknown_detection.evaluation.metrics.curves import Estimator, Floats
from unknown_detection.evaluation.metrics.ranking import Ranking, Side, rank, rank_open_set


def aurc(scores: npt.ArrayLike, errors: npt.ArrayLike) -> float:
    """Area under the risk-coverage curve: the mean error rate among the k rows with the lowest scores, k = 1..n.

        >>> ud.aurc([0.1, 0.4, 0.35, 0.8], errors=[0, 0, 1, 1])  # (0 + 1/2 + 1/3 + 1/2) / 4
        0.3333333333333333

    Geifman, Uziel and El-Yaniv, Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers (ICLR 2019); ties
    averaged. Papers print it times 1,000. From 0 (no errors) to 1 (nothing but errors).

    Args:
        scores: shape (n,), higher = more unknown.
        errors: shape (n,), bool or 0 and 1: misclassified rows, and unknown rows if they are evaluated, too.

    Raises:
        EvaluationError: scores are NaN or infinite, or lengths differ.
    """
    return curves.risk_coverage_area(_ranked(scores, errors))


def risk_coverage(scores: npt.ArrayLike, errors: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Compute the risk-coverage curve, whose mean height is the AURC; arguments as for `aurc`.

    Returns:
        Coverage, k / n for k = 1..n, and the error rate among the k rows with the lowest scores; both of shape (n,).
    """
    risk = curves.risk(_ranked(scores, errors))
    return np.arange(1, len(risk) + 1) / len(risk), risk


def auroc(scores: npt.ArrayLike, unknown: npt.ArrayLike) -> float:
    """Area under the ROC curve: the probability that an unknown row scores above a known one, ties counted half.

        >>> ud.auroc([0.1, 0.4, 0.35, 0.8], unknown=[0, 0, 1, 1])
        0.75

    It does not depend on which class is positive. 0.5 for guessing, 1 for a perfect order.

    Args:
        scores: shape (n,), higher = more unknown.
        unknown: shape (n,), bool or 0 and 1.

    Raises:
        EvaluationError: a side has no rows, scores are NaN or infinite, or lengths differ.
    """
    return curves.roc_area(_ranked(scores, unknown))


def aupr_in(scores: npt.ArrayLike, unknown: npt.ArrayLike, *, estimator: Estimator) -> float:
    """Area under the precision-recall curve with the known rows positive; `scores` and `unknown` as for `auroc`.

        >>> ud.aupr_in([0.1, 0.4, 0.35, 0.8], unknown=[0, 0, 1, 1], estimator="average_precision")  # (1 + 2/3) / 2
        0.8333333333333333

    The fraction of known rows for random scores, 1 for a perfect order.

    Args:
        scores: shape (n,).
        unknown: shape (n,).
        estimator: `average_precision` sums precision over the steps of recall, as scikit-learn does; `trapezoid`
            interpolates linearly, as pytorch-ood and OpenOOD do, which is too optimistic for tied scores.
    """
    return curves.aupr(_ranked(scores, unknown), "known", estimator)


def aupr_out(scores: npt.ArrayLike, unknown: npt.ArrayLike, *, estimator: Estimator) -> float:
    """Area under the precision-recall curve with the unknown rows positive; otherwise as `aupr_in`.

    >>> ud.aupr_out([0.1, 0.4, 0.35, 0.8], unknown=[0, 0, 1, 1], estimator="average_precision")  # (1 + 2/3) / 2
    0.8333333333333333
    """
    return curves.aupr(_ranked(scores, unknown), "unknown", estimator)


def fpr_at_95_tpr(scores: npt.ArrayLike, unknown: npt.ArrayLike, *, positive: Side) -> float:
    """False positive rate at the first threshold with a true positive rate of at least 95 %; lower is better.

        >>> ud.fpr_at_95_tpr([0.1, 0.4, 0.35, 0.8], unknown=[0, 0, 1, 1], positive="known")
        0.5

    Args:
        scores: shape (n,), higher = more unknown.
        unknown: shape (n,), bool or 0 and 1.
        positive: `known`, as in the ODIN paper and most others (unknown rows accepted when 95 % of the known rows
            are), or `unknown`, as in OpenOOD since v1.5 and in pytorch-ood. The two are different metrics.

    Raises:
        EvaluationError: as for `auroc`, or there is no such side.
    """
    return curves.first_fpr_at_95_tpr(_ranked(scores, unknown), positive)


def oscr(scores: npt.ArrayLike, unknown: npt.ArrayLike, errors: npt.ArrayLike) -> float:
    """Open-set classification rate: area under the curve of correct classifications against accepted unknown rows.

        >>> ud.oscr([0.1, 0.4, 0.35, 0.8], unknown=[0, 0, 1, 1], errors=[0, 1, 1, 1])  # the first is below both
        0.5

    The curve has, for each threshold, the fraction of known rows that are classified right and score below it (CCR)
    over the fraction of unknown rows that score below it (FPR): Dhamija, Günther and Boult, Reducing Network
    Agnostophobia (NeurIPS 2018), section 4. The area is the probability that a known row is classified right and
    scores below an unknown one, ties counted half: the accuracy times the AUROC of the correctly classified rows. (The
    paper's inequalities count ties as wrong, so that equal scores of all rows would have 0 instead of half.) From 0 to
    the accuracy on known rows, which a perfect order reaches. Arguments as for `auroc` and `aurc`; errors of unknown
    rows are not read.
    """
    return curves.open_set_area(rank_open_set(scores, unknown, errors)[2])


@dataclass(frozen=True)
class Metric:
    """Describes a metric, for code that iterates over all of them.

    Attributes:
        name: its name in results; includes the positive class and the estimator.
        title: for display.
        better: whether higher or lower values are better.
        of: computes it from a ranking.
        takes: the flags that the ranking is by: `unknown` rows, or `errors`; `open_set` means both, see
            `rank_open_set`; `rejected` means flags of unknown rows, with decisions in place of scores.
        positive: the positive class; empty if it makes no difference.
        factor: the factor by which papers multiply it.
    """

    name: str
    title: str
    better: Literal["higher", "lower"]
    of: Callable[[Ranking], float]
    takes: Literal["unknown", "errors", "open_set", "rejected"] = "unknown"
    positive: Side | Literal[""] = ""
    factor: float = 100.0


Of = TypeVar("Of", bound=Callable[[Ranking], float])


def _ranked(scores: npt.ArrayLike, flags: npt.ArrayLike) -> Ranking:
    return rank(scores, flags)[0]


METRICS: dict[str, Metric] = {}
"""All metrics by name, in the order of tables; `metric` adds one of one's own."""


def metric(
    title: str,
    better: Literal["higher", "lower"],
    *,
    name: str = "",
    takes: Literal["unknown", "errors", "open_set", "rejected"] = "unknown",
    positive: Side | Literal[""] = "",
    factor: float = 100.0,
) -> Callable[[Of], Of]:
    """Make a function of a `Ranking` a metric that protocols, tables and plots know by name.

        >>> @ud.metric("Known rows below all unknown ones", "higher")
        ... def clear(ranking):
        ...     return float(ranking.known[ranking.unknown == 0].max() / ranking.known[-1])

    Here `known` and `unknown` count the rows below each threshold, from none to all. `protocols.measure` then computes
    `clear` by its name. The arguments are those of `Metric`; without a name, the function's is taken.

    Raises:
        EvaluationError: there is a metric of this name.
    """

    def register(of: Of) -> Of:
        key = name or of.__name__
        if key in METRICS:
            raise EvaluationError(f"There is a metric {key} already. Give yours another name.")
        METRICS[key] = Metric(key, title, better, of, takes, positive, factor)
        return of

    return register


metric("AURC", "lower", name="aurc", takes="errors", factor=1000.0)(curves.risk_coverage_area)
metric("E-AURC", "lower", takes="errors", factor=1000.0)(curves.eaurc)
metric("Accuracy", "higher", takes="errors")(curves.accuracy)
metric("AUROC", "higher", name="auroc")(curves.roc_area)
metric("OSCR", "higher", name="oscr", takes="open_set")(curves.open_set_area)

_AUPR: tuple[tuple[str, Side, Estimator, str], ...] = (
    ("aupr_in_average_precision", "known", "average_precision", "AUPR-In (AP)"),
    ("aupr_in_trapezoid", "known", "trapezoid", "AUPR-In (trapezoid)"),
    ("aupr_out_average_precision", "unknown", "average_precision", "AUPR-Out (AP)"),
    ("aupr_out_trapezoid", "unknown", "trapezoid", "AUPR-Out (trapezoid)"),
)
for _name, _side, _estimator, _title in _AUPR:
    metric(_title, "higher", name=_name, positive=_side)(partial(curves.aupr, positive=_side, estimator=_estimator))

_LEAST = "Detection error (least at 95%TPR or more, {})"
_AT_95_TPR: tuple[tuple[str, Side, str, Callable[..., float]], ...] = (
    ("fpr_at_95_tpr", "known", "FPR@95%TPR ({})", curves.first_fpr_at_95_tpr),
    ("fpr_at_95_tpr", "unknown", "FPR@95%TPR ({})", curves.first_fpr_at_95_tpr),
    ("detection_error", "known", "Detection error ({})", curves.detection_error),
    ("interpolated_fpr_at_95_tpr", "known", "FPR@95%TPR (interpolated, {})", curves.interpolated_fpr_at_95_tpr),
    ("least_detection_error_at_95_tpr", "known", _LEAST, curves.least_detection_error_at_95_tpr),
)
for _name, _side, _title, _of in _AT_95_TPR:
    _of_side = partial(_of, positive=_side)
    metric(_title.format(f"{_side} positive"), "lower", name=f"{_name}_{_side}_positive", positive=_side)(_of_side)

# For decisions, a score of two values, the area under the ROC curve is the mean of the rates of right ones.
metric("Balanced accuracy", "higher", name="balanced_accuracy", takes="rejected")(curves.roc_area)
