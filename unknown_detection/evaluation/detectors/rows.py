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


def pieces(name: str, values: Floats, ids: npt.NDArray[np.str_]) -> Iterator[tuple[slice, Doubles]]:
    """Yield slices of rows that fit in memory three times, each with its rows as `as_float64` returns them."""
    for rows in chunks(len(values), 3 * values.shape[1]):
        yield rows, as_float64(name, values, rows, ids)


def require_width(name: str, values: Floats, width: int) -> None:
    """Refuse values, described by `name`, whose shape is not (n, width), for which a detector was fitted."""
    if values.ndim != 2 or values.shape[1] != width:
        raise EvaluationError(
            f"The {name} must have the shape (rows, {width}) that the detector was made for, found {values.shape}. "
            "Extract both splits with one model."
        )


def as_float64(name: str, values: Floats, rows: slice, ids: npt.NDArray[np.str_]) -> Doubles:
    """Return some rows of values, shape (n, width), as float64; refuse NaN and infinity by `name` and the n `ids`."""
    chunk = values[rows].astype(np.float64, copy=False)
    finite = np.isfinite(chunk)
    if not finite.all():
        first = int(np.flatnonzero(~finite.all(axis=1))[0])
        raise EvaluationError(
            f"The {name} of {str(ids[rows][first])!r} are NaN or infinite. Check the model's weights and that image, "
            "then extract again."
        )
    return chunk


def score_in_chunks(
    function: Callable[..., Scores],
    inputs: Mapping[str, Floats],
    ids: npt.NDArray[np.str_],
    doubles_per_row: int,
    columns: tuple[int, ...] = (),
) -> Scores:
    """Score rows in chunks.

    Args:
        function: maps the inputs in their order, each float64 of shape (m, width), to scores of shape (m, *columns).
        inputs: matrices of n rows, by their description for errors.
        ids: the n ids.
        doubles_per_row: float64 numbers that `function` holds in memory per row.
        columns: (k,) if each row has k scores.
    """
    scores = np.empty((len(ids), *columns))
    # An overflow is either intended (a probability of 1) or caught by the check of the scores below.
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in chunks(len(ids), doubles_per_row):
            scores[rows] = function(*(as_float64(name, values, rows, ids) for name, values in inputs.items()))
    finite = np.isfinite(scores).all(axis=tuple(range(1, scores.ndim)))
    if not finite.all():
        first = int(np.flatnonzero(~finite)[0])
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
        first = int(np.flatnonzero(outside)[0])
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
    """Return the labels of the rows that a detector of correctly classified rows is fitted on, and a remark.

    These are the correctly classified rows. Of a class with fewer than `least` of them, all rows count (ours): the
    unified benchmark's OpenMax stops there, and OpenOOD's SHE gives rows predicted as such a class NaN.

    Returns:
        The labels, shape (n,), -1 for rows that do not count; and which classes have all of their rows, empty if none.
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
    total = np.zeros(features.penultimate.shape[1])
    for _, z in pieces(FEATURES, features.penultimate, features.ids):
        total += z.sum(axis=0)
    return total / len(features)


def class_means(name: str, values: Floats, labels: Integers, classes: int, ids: npt.NDArray[np.str_]) -> Doubles:
    """Return the mean row of each class, which has one at least; otherwise as `class_sums`."""
    sums = class_sums(name, values, labels, classes, ids)
    return sums / np.bincount(labels[labels >= 0], minlength=classes)[:, None]


def class_sums(
    name: str,
    values: Floats,
    labels: Integers,
    classes: int,
    ids: npt.NDArray[np.str_],
    of: Callable[[Doubles], Doubles] = lambda chunk: chunk,
) -> Doubles:
    """Return the sums of the rows of each class, or of a function `of` them; refuse NaN and infinity.

    Args:
        name: description of the values, for the error.
        values: shape (n, D).
        labels: class of each row, 0 to `classes` - 1; rows with -1 are ignored.
        classes: number C of classes; the sums are of shape (C, D).
        ids: the n ids.
        of: maps rows, shape (m, D), to an array of this shape.
    """
    sums = np.zeros((classes, values.shape[1]))
    for rows, chunk in pieces(name, values, ids):
        counted = np.flatnonzero(labels[rows] >= 0)
        places = (labels[rows][counted], counted)
        sums += sparse.csr_array((np.ones(len(counted)), places), (classes, len(chunk))) @ of(chunk)
    return sums
