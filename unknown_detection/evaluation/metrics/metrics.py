"""Metrics of a detector's scores. Higher scores mean more unknown, everywhere.

Names state the positive class and the estimator where papers and libraries differ. No result depends on the order of
rows: tied scores share one threshold, and in risk-coverage curves each row of a tie has the tie's mean error, which is
the expectation over all orders.

`METRICS` lists all of them; each is computed from a `Ranking`, so one sort serves any number of metrics. It raises
`EvaluationError` if the ranking lacks a class that it needs. Those that users call are functions of scores, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from unknown_detection.evaluation.errors import (
    EvaluationError,
    a_kind,
    find_name,
    one_line,
    require_kinds,
    require_known,
    require_name,
)
from unknown_detection.evaluation.metrics.ranking import Counts, Ranking, Side, Takes, rank, rank_open_set

Floats = npt.NDArray[np.float64]
Estimator = Literal["average_precision", "trapezoid"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """Describes a metric, for code that iterates over all of them.

    Attributes:
        name: its name in results; includes the positive class and the estimator.
        title: for display.
        better: whether higher or lower values are better.
        of: computes it from a ranking.
        takes: the flags that the ranking is by.
        positive: the positive class; empty if it makes no difference.
        factor: the factor by which papers multiply it.
    """

    name: str
    title: str
    better: Better
    of: Callable[[Ranking], float]
    takes: Takes = "unknown"
    positive: Side | Literal[""] = ""
    factor: float = 100.0

    def value(self, ranking: Ranking) -> float:
        """Compute it; `EvaluationError` if its function returns no finite number."""
        value: Any = self.of(ranking)
        if not isinstance(value, Real) or not math.isfinite(value):
            raise EvaluationError(
                f"The metric {self.name} returned {one_line(repr(value), 60)} for {len(ranking):,} rows. Mend it: a "
                "metric returns one finite number."
            )
        return float(value)


Of = TypeVar("Of", bound=Callable[[Ranking], float])


METRICS: dict[str, Metric] = {}
"""All metrics by name, in the order of tables; `metric` adds one of one's own."""


def metric(
    title: str,
    better: Better,
    *,
    name: str = "",
    takes: Takes = "unknown",
    positive: Side | Literal[""] = "",
    factor: float = 100.0,
) -> Callable[[Of], Of]:
    """Register a function of a `Ranking` as a metric that protocols, tables and plots know by name.

        >>> @ud.metric("Known rows below all unknown ones", "higher")
        ... def clear(ranking):
        ...     return float(ranking.known[ranking.unknown == 0].max() / ranking.known[-1])

    Here `known` and `unknown` count the rows below each threshold, from none to all. `protocols.measure` then computes
    `clear` by its name. The arguments are those of `Metric`; without a name, the function's is taken.

    Raises:
        EvaluationError: there is another metric of this name, or `better` is something else.
    """
    require_known("direction of a metric", [better], get_args(Better))
    require_known("ranking that metrics take", [takes], get_args(Takes))
    require_known("positive class of a metric", [positive], ("", *get_args(Side)))

    def register(of: Of) -> Of:
        key = name or getattr(of, "__name__", "")
        require_name("metric", key)
        if key in METRICS and not is_redefined(METRICS[key].of, of):
            raise EvaluationError(f"There is a metric {key} already. Give yours another name.")
        made = Metric(key, title, better, of, takes, positive, factor)
        require_kinds(made, f"the metric {key}", {"title": str, "factor": Real})
        METRICS[key] = made
        return of

    return register


USUAL = {
    "AUROC": "auroc",
    "FPR95": "fpr_at_95_tpr_known_positive",
    "AUPR_IN": "aupr_in_average_precision",
    "AUPR_OUT": "aupr_out_average_precision",
}
"""The usual metrics by their columns. Of the two that are called FPR@95, it is that of the ODIN paper and of most
others."""


def find_metrics(asked: str | Callable[..., float] | Iterable[str | Callable[..., float]] | None) -> list[Metric]:
    """Find metrics by their names, those of columns, FILE.py:NAME, or functions that `metric` decorated; None is none.

    Raises:
        EvaluationError: there is no metric of a name, it is one of decisions, or a function is not decorated.
        TypeError: it is something else.
    """
    if isinstance(asked, str | None):
        asked = [] if asked is None else [name.strip() for name in asked.split(",")]
    found = [*map(_find_metric, asked if isinstance(asked, Iterable) else [asked])]
    for of in found:
        if of.takes == "rejected":
            raise EvaluationError(f"{of.name} is of decisions, not of scores. Choose another metric.")
    return found


def _find_metric(metric: str | Callable[..., float]) -> Metric:
    if isinstance(metric, str) and ".py:" in metric:
        from unknown_detection.evaluation.files import load_python  # with Arrow, which metrics of scores do without

        metric = load_python(metric, "metric")[0]
    if isinstance(metric, str):
        name = find_name("metric", metric, {*METRICS, *USUAL} - {"AUROC"})  # which is `auroc` in other letters
        return METRICS[USUAL.get(name, name)]
    if not callable(metric):
        raise TypeError(f"A metric is a name or a function decorated with ud.metric, not {a_kind(metric)}.")
    name = getattr(metric, "__name__", a_kind(metric))
    for known in METRICS.values():
        if known.of is metric or (known.name == name and metric.__module__ == __name__):
            return known
    raise EvaluationError(
        f"{name} is not decorated as a metric. Write @ud.metric(TITLE, 'higher' or 'lower') above the function."
    )


def is_redefined(old: object, new: object) -> bool:
    """Whether a user's function is the same one defined again, as by running a notebook's cell twice."""
    first, second = ((getattr(of, "__module__", ""), getattr(of, "__qualname__", "")) for of in (old, new))
    return first == second and all(first) and not first[0].startswith("unknown_detection.")


@metric("AURC", "lower", name="aurc", takes="errors", factor=1000.0)
def risk_coverage_area(ranking: Ranking) -> float:
    """Mean height of the risk-coverage curve."""
    return sum(float(block.sum()) for block in _risk(ranking)) / len(ranking)


@metric("E-AURC", "lower", takes="errors", factor=1000.0)
def eaurc(ranking: Ranking) -> float:
    """Excess AURC: the AURC less the lowest AURC of any order of the same rows.

    Geifman et al., as for `aurc`. The optimum, all errors last, is the exact one; their closed form, r + (1 -
    r) ln(1 - r) for an error rate r, is its limit for many rows. From 0, for a perfect order, to less than 1.
    """
    rows, right = len(ranking), int(ranking.known[-1])
    # The optimum is the mean of (k - right) / k over k = right + 1..n; the sum of 1 / k is a difference of digammas.
    optimum = (rows - right - right * (digamma(rows + 1) - digamma(right + 1))) / rows
    return max(0.0, risk_coverage_area(ranking) - float(optimum))


def _risk(ranking: Ranking) -> Iterator[Floats]:
    for right, errors in ranking.blocks("known"):
        rows = right + errors
        tied = np.diff(rows)
        if tied.max() == 1:
            yield errors[1:] / rows[1:]
        else:
            # Each row of a tie has the tie's mean error.
            more = np.cumsum(np.repeat(np.diff(errors) / tied, tied))
            yield (errors[0] + more) / np.arange(rows[0] + 1, rows[-1] + 1)


@metric("AUGRC", "lower", name="augrc", takes="errors", factor=1000.0)
def generalized_risk_coverage_area(ranking: Ranking) -> float:
    """Area under the generalized risk-coverage curve."""
    areas = [np.diff(right + errors) * (errors[1:] + errors[:-1]) for right, errors in ranking.blocks("known")]
    return sum(int(area.sum()) for area in areas) / (2 * len(ranking) ** 2)


@metric("Accuracy", "higher", takes="misclassified")
def accuracy(ranking: Ranking) -> float:
    """Fraction of labelled known rows that are classified right."""
    if not len(ranking):
        raise EvaluationError("Accuracy is of known rows with a label, and there are none. Choose another metric.")
    return int(ranking.known[-1]) / len(ranking)


@metric("AUROC", "higher", name="auroc")
def roc_area(ranking: Ranking) -> float:
    """Area under the ROC curve."""
    known, unknown = ranking.sizes()
    # Integers until the division: exact for any number of rows that fits in memory.
    area = sum(int((np.diff(above) * (below[1:] + below[:-1])).sum()) for below, above in ranking.blocks("known"))
    return area / (2 * known * unknown)


@metric("OSCR", "higher", name="oscr", takes="open_set")
def open_set_area(ranking: Ranking) -> float:
    """Area under the curve of open-set classification."""
    right = int(ranking.known[-1])
    if not right and ranking.missed and ranking.unknown[-1]:
        return 0.0
    # The area under the ROC curve of the rows that are classified right, times their share.
    return roc_area(ranking) * (right / (right + ranking.missed))


def aupr(ranking: Ranking, positive: Side, estimator: Estimator) -> float:
    """Area under the precision-recall curve."""
    known, unknown = ranking.sizes()
    area = 0.0
    for true, false in ranking.blocks(positive):
        predicted = true + false
        # The curve begins at precision 1, where no row is predicted positive.
        precision = np.divide(true, predicted, out=np.ones(len(predicted)), where=predicted > 0)
        if estimator == "average_precision":
            heights = precision[1:]
        elif estimator == "trapezoid":
            heights = (precision[1:] + precision[:-1]) / 2
        else:
            raise EvaluationError(f"There is no estimator {estimator!r}; choose average_precision or trapezoid.")
        area += float((np.diff(true) * heights).sum())
    return area / (known if positive == "known" else unknown)


def _from_95_tpr(ranking: Ranking, positive: Side) -> tuple[Counts, Counts]:
    """Count true and false positives from the first threshold on with a TPR of at least 95 %."""
    ranking.sizes()  # refuses one class alone
    true, false = ranking.positives(positive)
    # Integers, because 0.95 n may exceed 95 % in floating point.
    first = int(np.searchsorted(true, -(-19 * int(true[-1]) // 20)))
    return true[first:], false[first:]


def first_fpr_at_95_tpr(ranking: Ranking, positive: Side) -> float:
    """False positive rate at a true positive rate of at least 95 %."""
    _, false = _from_95_tpr(ranking, positive)
    return int(false[0]) / int(false[-1])


def detection_error(ranking: Ranking, positive: Side) -> float:
    """Mean of false negative and false positive rate at the threshold of `first_fpr_at_95_tpr`, from 0 to 0.525.

    Liang, Li and Srikant, Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks (ICLR
    2018), section 4.3. Some papers' numbers are `least_detection_error_at_95_tpr`.
    """
    true, false = _from_95_tpr(ranking, positive)
    return 0.5 * (1 - int(true[0]) / int(true[-1])) + 0.5 * (int(false[0]) / int(false[-1]))


def interpolated_fpr_at_95_tpr(ranking: Ranking, positive: Side) -> float:
    """False positive rate at a true positive rate of exactly 95 %, interpolated linearly between thresholds.

    As in the package ood-metrics, with which the numbers in the tables of FACETS and of the optimizer paper agree. If
    several thresholds have a true positive rate of 95 %, the last of them counts, as there.
    """
    ranking.sizes()  # refuses one class alone
    true, false = ranking.positives(positive)
    # Integers, because 0.95 n may exceed 95 % in floating point.
    below = int(np.searchsorted(true, 19 * int(true[-1]) // 20, side="right")) - 1
    missing = 19 * int(true[-1]) - 20 * int(true[below])
    mistaken = float(false[below])
    if missing:
        step = 20 * int(true[below + 1] - true[below])
        mistaken += missing / step * float(false[below + 1] - false[below])
    return mistaken / int(false[-1])


def least_detection_error_at_95_tpr(ranking: Ranking, positive: Side) -> float:
    """Minimum of `detection_error` over the thresholds with a true positive rate of at least 95 %, from 0 to 0.5.

    As in the package ood-metrics, with which the tables of FACETS and of the optimizer paper agree, although the texts
    define `detection_error`. The package weights both rates by the numbers of rows; the texts by 0.5, as here.
    """
    true, false = _from_95_tpr(ranking, positive)
    return 0.5 * float((1 - true / true[-1] + false / false[-1]).min())


_AUPR: tuple[tuple[str, Side, Estimator, str], ...] = (
    ("aupr_in_average_precision", "known", "average_precision", "AUPR-In (AP)"),
    ("aupr_in_trapezoid", "known", "trapezoid", "AUPR-In (trapezoid)"),
    ("aupr_out_average_precision", "unknown", "average_precision", "AUPR-Out (AP)"),
    ("aupr_out_trapezoid", "unknown", "trapezoid", "AUPR-Out (trapezoid)"),
)
for _name, _side, _estimator, _title in _AUPR:
    metric(_title, "higher", name=_name, positive=_side)(partial(aupr, positive=_side, estimator=_estimator))

_LEAST = "Detection error (least at 95%TPR or more, {})"
_AT_95_TPR: tuple[tuple[str, Side, str, Callable[..., float]], ...] = (
    ("fpr_at_95_tpr", "known", "FPR@95%TPR ({})", first_fpr_at_95_tpr),
    ("fpr_at_95_tpr", "unknown", "FPR@95%TPR ({})", first_fpr_at_95_tpr),
    ("detection_error", "known", "Detection error ({})", detection_error),
    ("interpolated_fpr_at_95_tpr", "known", "FPR@95%TPR (interpolated, {})", interpolated_fpr_at_95_tpr),
    ("least_detection_error_at_95_tpr", "known", _LEAST, least_detection_error_at_95_tpr),
)
for _name, _side, _title, _of in _AT_95_TPR:
    _of_side = partial(_of, positive=_side)
    metric(_title.format(f"{_side} positive"), "lower", name=f"{_name}_{_side}_positive", positive=_side)(_of_side)

# For decisions, a score of two values, the area under the ROC curve is the mean of the rates of right ones.
metric("Balanced accuracy", "higher", name="balanced_accuracy", takes="rejected")(roc_area)


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
    return risk_coverage_area(rank(scores, errors)[0])


def augrc(scores: npt.ArrayLike, errors: npt.ArrayLike) -> float:
    """Area under the generalized risk-coverage curve: the mean share of rows that are accepted errors.

        >>> ud.augrc([0.1, 0.4, 0.35, 0.8], errors=[0, 0, 1, 1])  # (0 + 1/2 + 1 + 3/2) / 4 / 4
        0.1875

    Traub et al., Overcoming Common Flaws in the Evaluation of Selective Classification Systems (NeurIPS 2024): it
    weighs each error alike, where AURC weighs those at low coverage most. The risk at a coverage is the number of
    errors among the accepted rows, those with the lowest scores, over the number of all rows; between thresholds it is
    linear, so ties are averaged. So it is a(1 - a)(1 - AUROC) + (1 - a)^2 / 2, for an accuracy a and the AUROC of
    errors against right rows. From 0 (no errors) to 0.5; papers print it times 1,000. Arguments as for `aurc`.
    """
    return generalized_risk_coverage_area(rank(scores, errors)[0])


def risk_coverage(scores: npt.ArrayLike, errors: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Compute the risk-coverage curve, whose mean height is the AURC; arguments as for `aurc`.

    These are coverage, k / n for k = 1..n, and the error rate among the k rows with the lowest scores; both of shape
    (n,).
    """
    risks = np.concatenate(list(_risk(rank(scores, errors)[0])))
    return np.arange(1, len(risks) + 1) / len(risks), risks


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
    return roc_area(rank(scores, unknown)[0])


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
    return aupr(rank(scores, unknown)[0], "known", estimator)


def aupr_out(scores: npt.ArrayLike, unknown: npt.ArrayLike, *, estimator: Estimator) -> float:
    """Area under the precision-recall curve with the unknown rows positive; otherwise as `aupr_in`.

    >>> ud.aupr_out([0.1, 0.4, 0.35, 0.8], unknown=[0, 0, 1, 1], estimator="average_precision")  # (1 + 2/3) / 2
    0.8333333333333333
    """
    return aupr(rank(scores, unknown)[0], "unknown", estimator)


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
    return first_fpr_at_95_tpr(rank(scores, unknown)[0], positive)


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
    return open_set_area(rank_open_set(scores, unknown, errors)[2])
