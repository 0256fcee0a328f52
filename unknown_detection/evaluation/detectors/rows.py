"""Rows to fit on and to score: their checks, and computations in float64, in chunks that fit in memory.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Floats, Head

Doubles = npt.NDArray[np.float64]

Integers = npt.NDArray[np.int64]

Scores = npt.NDArray[np.float64]
"""One score per row, shape (n,); higher means more unknown."""

FEATURES, LOGITS = "penultimate features", "logits"
"""Names of a detector's inputs, in errors."""

# 8 Mi numbers, 64 MiB: enough rows per chunk for BLAS to run at full speed at ImageNet's widths.
_CHUNK = 1 << 23

_NAMED = 5
"""Number of classes that an error names before it counts the others."""


def dots(first: Doubles, second: Doubles) -> Doubles:
    """Return the inner product of each row with the same row of another matrix of shape (n, D), shape (n,)."""
    products: Doubles = np.einsum("nd,nd->n", first, second)
    return products


def chunks(count: int, doubles_per_row: int) -> Iterator[slice]:
    """Yield slices of `count` rows of which each takes `doubles_per_row` float64 numbers, and which fit in memory."""
    step = max(1, _CHUNK // max(1, doubles_per_row))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def pieces(values: Floats) -> Iterator[tuple[slice, Doubles]]:
    """Yield slices of rows that fit in memory three times, each with its rows in float64."""
    for rows in chunks(len(values), 3 * values.shape[1]):
        yield rows, values[rows].astype(np.float64, copy=False)


def require_width(name: str, values: Floats, width: int) -> None:
    """Refuse values, described by `name`, whose shape is not (n, width), for which a detector was fitted."""
    if values.ndim != 2 or values.shape[1] != width:
        raise EvaluationError(
            f"The {name} must have the shape (rows, {width}) that the detector was made for, found {values.shape}. "
            "Extract both splits with one model."
        )


def require_finite(name: str, values: Floats, ids: npt.NDArray[np.str_]) -> None:
    """Refuse NaN and infinity in values, described by `name`, of the rows `ids`."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # one pass without a copy; so large numbers that their sum overflows are rare
            return
    for rows in chunks(len(values), values.shape[1]):
        wrong = ~np.isfinite(values[rows]).all(axis=1)
        if wrong.any():
            raise EvaluationError(
                f"The {name} of {str(ids[rows][np.argmax(wrong)])!r} are NaN or infinite. Check the model's weights "
                "and that image, then extract again."
            )


def score_in_chunks(
    function: Callable[..., Scores],
    inputs: Mapping[str, Floats],
    ids: npt.NDArray[np.str_],
    doubles_per_row: int,
    columns: tuple[int, ...] = (),
) -> Scores:
    """Score rows in chunks, and refuse inputs and scores that are NaN or infinite.

    `function` maps the inputs in their order, each float64 of shape (m, width), to scores of shape (m, *columns), and
    holds `doubles_per_row` numbers in memory; inputs are matrices of n rows, by their description for errors.
    """
    for name, values in inputs.items():
        require_finite(name, values, ids)
    scores = np.empty((len(ids), *columns))
    # An overflow is either intended (a probability of 1) or caught by the check of the scores below.
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in chunks(len(ids), doubles_per_row):
            scores[rows] = function(*(values[rows].astype(np.float64, copy=False) for values in inputs.values()))
    finite = np.isfinite(scores).all(axis=tuple(range(1, scores.ndim)))
    if not finite.all():
        first = int(np.argmin(finite))
        raise EvaluationError(
            f"The score of {str(ids[first])!r} is {scores[first]}: its {' and '.join(inputs)} are outside the domain "
            "of this detector. Leave the detector out."
        )
    return scores


def require_labels(features: Features, detector: str) -> None:
    """Refuse no rows at all, and rows with label -1 or a label that is no column of the logits."""
    if not len(features):
        raise EvaluationError(f"There are no rows to fit {detector} on; extract the split that it is fitted on.")
    classes = features.logits.shape[1]
    outside = (features.labels < 0) | (features.labels >= classes)
    if outside.any():
        first = int(np.argmax(outside))
        raise EvaluationError(
            f"{int(outside.sum()):,} of {len(features):,} rows to fit {detector} on have no label from 0 to "
            f"{classes - 1}, the first {str(features.ids[first])!r} with label {features.labels[first]}. Fit on an "
            "in-distribution split."
        )


def require_rows_of_each_class(labels: Integers, classes: int, least: int, detector: str) -> None:
    """Refuse labels, of which -1 do not count, that give one of the classes fewer than `least` rows."""
    counts = np.bincount(labels[labels >= 0], minlength=classes)
    short = np.flatnonzero(counts < least)
    if len(short):
        named = ", ".join(f"{counts[i]} of class {i}" for i in short[:_NAMED])
        more = f" and too few of {len(short) - _NAMED:,} more classes" if len(short) > _NAMED else ""
        raise EvaluationError(
            f"{detector} needs at least {least} rows of each of the {len(counts):,} classes to fit on, found "
            f"{named}{more}. Fit on more rows, or leave {detector} out."
        )


def layer(head: Head) -> tuple[Doubles, Doubles]:
    """Return weight, shape (C, D), and bias, shape (C,), of the last layer as float64."""
    return head.weight.astype(np.float64), head.bias.astype(np.float64)


def predicted(features: Features) -> Integers:
    """Return the predicted class of each row, shape (n,): the first of the greatest logits."""
    classes: Integers = features.logits.argmax(axis=1).astype(np.int64, copy=False)
    return classes


def labels_if_correct(features: Features) -> Integers:
    """Return the labels of correctly classified rows, and -1 for the others; shape (n,)."""
    return np.where(predicted(features) == features.labels, features.labels, -1)


def labels_to_fit(features: Features, least: int, detector: str) -> tuple[Integers, str]:
    """Return the labels, -1 for rows that do not count, for a detector of correctly classified rows, and a remark.

    Of a class with fewer than `least` correctly classified rows, all rows count (ours), and the remark names it: the
    unified benchmark's OpenMax stops there, and OpenOOD's SHE gives rows predicted as such a class NaN.
    """
    classes = features.logits.shape[1]
    require_rows_of_each_class(features.labels, classes, least, detector)
    labels = labels_if_correct(features)
    short = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=classes) < least)
    if not len(short):
        return labels, ""
    named = ", ".join(map(str, short[:_NAMED])) + (f" and {len(short) - _NAMED:,} more" if len(short) > _NAMED else "")
    whose = "class" if len(short) == 1 else "classes"
    few = "none is" if least == 1 else f"fewer than {least} are"
    remark = f"with all rows of {whose} {named}, of which {few} classified right"
    return np.where(np.isin(features.labels, short), features.labels, labels), remark


def mean_features(features: Features) -> Doubles:
    """Return the mean of the penultimate features over all rows, shape (D,)."""
    total: Doubles = np.sum([z.sum(axis=0) for _, z in pieces(features.penultimate)], axis=0)
    return total / len(features)


def class_means(values: Floats, labels: Integers, classes: int) -> Doubles:
    """Return the mean row of each class, which has one at least; otherwise as `class_sums`."""
    return class_sums(values, labels, classes) / np.bincount(labels[labels >= 0], minlength=classes)[:, None]


def class_sums(
    values: Floats, labels: Integers, classes: int, of: Callable[[Doubles], Doubles] = lambda chunk: chunk
) -> Doubles:
    """Return the sums, shape (C, D), of the rows (n, D) of each class, or of `of` them; rows of -1 do not count."""
    sums = np.zeros((classes, values.shape[1]))
    for rows, chunk in pieces(values):
        counted = np.flatnonzero(labels[rows] >= 0)
        places = (labels[rows][counted], counted)
        sums += sparse.csr_array((np.ones(len(counted)), places), (classes, len(chunk))) @ of(chunk)
    return sums
