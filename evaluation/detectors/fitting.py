"""What the rows that a detector is fitted on must be, and their class means.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from evaluation.detectors.rows import Doubles, chunks, doubles, require_width
from evaluation.errors import EvaluationError
from evaluation.models.features import Features, Floats, Head

# How many classes an error names before it counts the others.
_NAMED = 5


def require_labels(features: Features, detector: str) -> None:
    """Refuse rows that are not of the model's classes.

    Args:
        features: rows to fit on.
        detector: name for the error.

    Raises:
        EvaluationError: there are no rows, or one has label -1 or a label that is no column of the logits.
    """
    if not len(features):
        raise EvaluationError(f"expected rows to fit {detector} on, found none; extract the split it is fitted on.")
    classes = features.logits.shape[1]
    outside = (features.labels < 0) | (features.labels >= classes)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise EvaluationError(
            f"expected in-distribution rows with labels 0 to {classes - 1} to fit {detector} on, found "
            f"{int(outside.sum()):,} of {len(features):,} rows with others, the first {str(features.ids[first])!r} "
            f"with label {features.labels[first]}; fit on an in-distribution split."
        )


def require_fit(features: Features, head: Head, detector: str) -> None:
    """Refuse rows that are not of the model's classes, or not of its last layer.

    Args:
        features: rows to fit on.
        head: the model's last layer.
        detector: name for the error.

    Raises:
        EvaluationError: as `require_labels`, or features or logits have another width than the layer.
    """
    require_labels(features, detector)
    require_width("penultimate features", features.penultimate, head.weight.shape[1])
    require_width("logits", features.logits, head.weight.shape[0])


def require_rows_of_each_class(
    labels: npt.NDArray[np.int64], classes: int, least: int, detector: str, what: str = "rows"
) -> None:
    """Refuse rows with too few of a class.

    Args:
        labels: class of each row; rows with -1 do not count.
        classes: number C of classes.
        least: rows that each class must have.
        detector: name for the error.
        what: what the rows are, such as "correctly classified rows".

    Raises:
        EvaluationError: a class has fewer.
    """
    counts = np.bincount(labels[labels >= 0], minlength=classes)
    short = np.flatnonzero(counts < least)
    if len(short):
        named = ", ".join(f"{counts[i]} of class {i}" for i in short[:_NAMED])
        more = f" and too few of {len(short) - _NAMED:,} more classes" if len(short) > _NAMED else ""
        raise EvaluationError(
            f"expected at least {least} {what} of each of the {len(counts):,} classes to fit {detector} on, "
            f"found {named}{more}; fit on more rows or leave {detector} out."
        )


def predicted(features: Features) -> npt.NDArray[np.int64]:
    """The class that the model gives each row, shape (n,): the first of the greatest logits."""
    classes: npt.NDArray[np.int64] = features.logits.argmax(axis=1).astype(np.int64, copy=False)
    return classes


def labels_if_correct(features: Features) -> npt.NDArray[np.int64]:
    """The label of each row that the model classifies right, and -1 of the others; shape (n,)."""
    return np.where(predicted(features) == features.labels, features.labels, -1)


def class_means(
    name: str, values: Floats, labels: npt.NDArray[np.int64], classes: int, ids: npt.NDArray[np.str_]
) -> Doubles:
    """Average the rows of each class.

    Args:
        name: what the values are, for the error.
        values: shape (n, D).
        labels: class of each row, 0 to `classes` - 1, each of which has a row; rows with -1 do not count.
        classes: number C of classes.
        ids: the n ids.

    Returns:
        Shape (C, D).

    Raises:
        EvaluationError: a value is NaN or infinite.
    """
    sums = np.zeros((classes, values.shape[1]))
    for rows in chunks(len(values), 2 * values.shape[1]):
        counted = np.flatnonzero(labels[rows] >= 0)
        places = (labels[rows][counted], counted)
        ones = sparse.csr_array((np.ones(len(counted)), places), (classes, rows.stop - rows.start))
        sums += ones @ doubles(name, values, rows, ids)
    means: Doubles = sums / np.bincount(labels[labels >= 0], minlength=classes)[:, None]
    return means
