"""Metrics of a detector's scores. Higher scores mean more unknown, everywhere.

Names state the positive class and the estimator where papers and libraries differ. No result depends on the order of
rows: tied scores share one threshold, and in risk-coverage curves each row of a tie has the tie's mean error, which is
the expectation over all orders.

`METRICS` lists all of them; each is computed from a `Ranking`, so one sort serves any number of metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics import curves
from unknown_detection.evaluation.metrics.curves import Estimator, Floats
from unknown_detection.evaluation.metrics.ranking import Ranking, Side, rank, rank_open_set, unmasked


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
    return curves.aurc(_ranked(scores, errors))


def eaurc(scores: npt.ArrayLike, errors: npt.ArrayLike) -> float:
    """Excess AURC: the AURC less the lowest AURC that any order of the same rows can reach; arguments as for `aurc`.

    Geifman et al., as for `aurc`. The optimum, all errors last, is the exact one; their closed form, r + (1 - r)
    ln(1 - r) for an error rate r, is its limit for many rows. 0 for a perfect order or if all rows are of one kind;
    always less than 1.
    """
    return curves.eaurc(_ranked(scores, errors))


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
    return curves.auroc(_ranked(scores, unknown))


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
    return curves.fpr_at_95_tpr(_ranked(scores, unknown), positive)


def detection_error(scores: npt.ArrayLike, unknown: npt.ArrayLike, *, positive: Side) -> float:
    """Mean of false negative and false positive rate at the threshold of `fpr_at_95_tpr`; arguments as there.

    0.5 (1 - TPR) + 0.5 FPR, from 0 to 0.525: the definition in words of most papers; some papers' numbers are
    `least_detection_error_at_95_tpr`. The TPR is that of the threshold: 95 %, or more where none meets 95 % exactly.

    Liang, Li and Srikant, Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks (ICLR
    2018), section 4.3.
    """
    return curves.detection_error(_ranked(scores, unknown), positive)


def interpolated_fpr_at_95_tpr(scores: npt.ArrayLike, unknown: npt.ArrayLike, *, positive: Side) -> float:
    """As `fpr_at_95_tpr`, at a true positive rate of exactly 95 %, interpolated linearly between thresholds.

    As in the package ood-metrics, with which the numbers in the tables of FACETS and of the optimizer paper agree. If
    several thresholds have a true positive rate of 95 %, the last of them counts, as there.
    """
    return curves.interpolated_fpr_at_95_tpr(_ranked(scores, unknown), positive)


def least_detection_error_at_95_tpr(scores: npt.ArrayLike, unknown: npt.ArrayLike, *, positive: Side) -> float:
    """Minimum of `detection_error` over the thresholds with a true positive rate of at least 95 %; arguments as there.

    As in the package ood-metrics, with which the tables of FACETS and of the optimizer paper agree, although the texts
    define `detection_error`. The package weights both rates by the numbers of rows; the texts by 0.5, as here. From 0
    to 0.5; never above `detection_error`, never below `least_detection_error`.
    """
    return curves.least_detection_error_at_95_tpr(_ranked(scores, unknown), positive)


def least_detection_error(scores: npt.ArrayLike, unknown: npt.ArrayLike) -> float:
    """Minimum over all thresholds of the mean of false negative and false positive rate; arguments as for `auroc`.

    One minus the detection accuracy of Lee et al., A Simple Unified Framework for Detecting Out-of-Distribution
    Samples and Adversarial Attacks (NeurIPS 2018). From 0 to 0.5; never above `detection_error`.
    """
    return curves.least_detection_error(_ranked(scores, unknown))


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
    return curves.oscr(rank_open_set(scores, unknown, errors)[2])


def balanced_accuracy(unknown: npt.ArrayLike, rejected: npt.ArrayLike) -> float:
    """Mean of the fraction of known rows accepted and the fraction of unknown rows rejected.

    0.5 for random decisions, 1 if all are right.

    Args:
        unknown: shape (n,), bool or 0 and 1.
        rejected: shape (n,), bool or 0 and 1: the detector's decisions.

    Raises:
        EvaluationError: a side has no rows, lengths differ, or a decision is neither 0 nor 1.
    """
    decided = unmasked("decisions", rejected)
    if not np.isin(decided, (0, 1)).all():
        raise EvaluationError("Decisions must be bool, or 0 and 1; compare scores with a threshold first.")
    # For a score with two values, the area under the ROC curve is the mean of the two rates.
    return curves.auroc(_ranked(decided.astype(np.int8), unknown))


def all_metrics(scores: npt.ArrayLike, unknown: npt.ArrayLike, errors: npt.ArrayLike) -> dict[str, float]:
    """Compute all metrics of the same scores, at little more than the cost of one sort; arguments as for `oscr`.

    Returns:
        The values by name, as in `METRICS`, except metrics of decisions.
    """
    rankings = dict(zip(("unknown", "errors", "open_set"), rank_open_set(scores, unknown, errors), strict=True))
    return {name: metric.of(rankings[metric.takes]) for name, metric in METRICS.items() if metric.takes in rankings}


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


def _ranked(scores: npt.ArrayLike, flags: npt.ArrayLike) -> Ranking:
    return rank(scores, flags)[0]


def _both(name: str, title: str, of: Callable[..., float]) -> tuple[Metric, ...]:
    """Describe a metric with either side positive, of which lower is better; the title has a place for the side."""
    return tuple(
        Metric(
            f"{name}_{side}_positive",
            title.format(f"{side} positive"),
            "lower",
            partial(of, positive=side),
            positive=side,
        )
        for side in ("known", "unknown")
    )


def _aupr(side: Side) -> tuple[Metric, ...]:
    """Describe the area under the precision-recall curve by both estimators."""
    name = {"known": "in", "unknown": "out"}[side]
    return tuple(
        Metric(
            f"aupr_{name}_{estimator}",
            f"AUPR-{name.capitalize()} ({short})",
            "higher",
            partial(curves.aupr, positive=side, estimator=estimator),
            positive=side,
        )
        for estimator, short in _ESTIMATORS.items()
    )


_ESTIMATORS: Mapping[Estimator, str] = {"average_precision": "AP", "trapezoid": "trapezoid"}
_LEAST = "Detection error (least at 95%TPR or more, {})"
_ALL = (
    Metric("aurc", "AURC", "lower", curves.aurc, takes="errors", factor=1000.0),
    Metric("eaurc", "E-AURC", "lower", curves.eaurc, takes="errors", factor=1000.0),
    Metric("accuracy", "Accuracy", "higher", curves.accuracy, takes="errors"),
    Metric("auroc", "AUROC", "higher", curves.auroc),
    Metric("oscr", "OSCR", "higher", curves.oscr, takes="open_set"),
    *_aupr("known"),
    *_aupr("unknown"),
    *_both("fpr_at_95_tpr", "FPR@95%TPR ({})", curves.fpr_at_95_tpr),
    *_both("detection_error", "Detection error ({})", curves.detection_error),
    *_both("interpolated_fpr_at_95_tpr", "FPR@95%TPR (interpolated, {})", curves.interpolated_fpr_at_95_tpr),
    *_both("least_detection_error_at_95_tpr", _LEAST, curves.least_detection_error_at_95_tpr),
    Metric("least_detection_error", "Least detection error", "lower", curves.least_detection_error),
    Metric("balanced_accuracy", "Balanced accuracy", "higher", curves.auroc, takes="rejected"),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}
"""All metrics by name, in the order of tables."""
