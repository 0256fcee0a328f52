"""Checks of hyperparameters and of the rows that a detector is fitted on, and means over classes.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unknown_detection.evaluation.detectors.rows import FEATURES, Doubles, pieces
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Floats, Head

Integers = npt.NDArray[np.int64]

# Number of classes that an error names before it counts the others.
_NAMED = 5


def require_range(allowed: bool, rule: str, *found: float) -> None:
    """Check hyperparameters.

    Raises:
        EvaluationError: they are not.
    """
    if not allowed:
        others = "another" if len(found) == 1 else "others"
        raise EvaluationError(f"{rule}, found {' and '.join(map(str, found))}; give {others}.")


def require_labels(features: Features, detector: str) -> None:
    """Check that rows have labels of the model's classes.

    Raises:
        EvaluationError: there are no rows, or one has label -1 or a label that is no column of the logits.
    """
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
    """Check that every class has enough rows.

    Args:
        labels: class of each row; rows with -1 are ignored.
        classes: number C of classes.
        least: minimum number of rows per class.
        detector: name for the error.

    Raises:
        EvaluationError: a class has fewer rows.
    """
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

    Args:
        features: the labelled rows.
        least: minimum number of rows of each class.
        detector: name for the error.

    Returns:
        The labels, shape (n,), -1 for rows that do not count; and which classes have all of their rows, empty if none.

    Raises:
        EvaluationError: a class has fewer rows.
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
    """Average the rows of each class.

    Args:
        name: description of the values, for the error.
        values: shape (n, D).
        labels: class of each row, 0 to `classes` - 1; each class has a row; rows with -1 are ignored.
        classes: number C of classes; the means are of shape (C, D).
        ids: the n ids.

    Raises:
        EvaluationError: a value is NaN or infinite.
    """
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
    """Add up the rows of each class, or a function `of` them of the same shape; otherwise as `class_means`."""
    sums = np.zeros((classes, values.shape[1]))
    for rows, chunk in pieces(name, values, ids):
        counted = np.flatnonzero(labels[rows] >= 0)
        places = (labels[rows][counted], counted)
        sums += sparse.csr_array((np.ones(len(counted)), places), (classes, len(chunk))) @ of(chunk)
    return sums
