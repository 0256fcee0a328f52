"""What is computed of many rows, in chunks, and the checks of rows that are fitted on or scored.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features, Floats, Integers
from unknown_detection.words import first_few, quantity

ROWS, _CHUNK = 4096, 1 << 21
"""Rows that are computed at once, and their numbers, 16 MiB: BLAS runs at full speed, and few copies are at hand."""


def dots(first: Doubles, second: Doubles) -> Doubles:
    """Return the inner product of each row with the same row of another matrix of shape (n, D), shape (n,)."""
    return np.einsum("nd,nd->n", first, second)


def chunks(count: int, width: int = 1, at_once: int | None = None) -> Iterator[slice]:
    """Yield slices of `count` rows, each of `at_once` rows, or of as many rows of this width as fit in 16 MiB."""
    step = at_once or max(1, min(ROWS, _CHUNK // max(1, width)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def pieces(values: Floats) -> Iterator[tuple[slice, Doubles]]:
    """Yield the rows in chunks that fit in memory: the slice, and its rows in float64."""
    for rows in chunks(len(values), values.shape[1]):
        yield rows, values[rows].astype(np.float64, copy=False)


def require_blocks(blocks: Sequence[object], detector: str) -> None:
    """Refuse a model without blocks, or features without those of blocks."""
    if not blocks:
        raise EvaluationError(
            f"{detector} needs features of the model's blocks, and there are none. Name modules that run once in the "
            "model's attribute `feature_blocks`, and extract again."
        )


def require_finite(name: str, values: Floats, ids: npt.NDArray[np.str_]) -> None:
    """Refuse values with NaN or infinity; `name` describes them, and `ids` are those of their rows."""
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
    function: Callable[..., Doubles],
    inputs: Mapping[str, Floats],
    ids: npt.NDArray[np.str_],
    columns: tuple[int, ...] = (),
    at_once: int | None = None,
) -> Doubles:
    """Score the rows in chunks, and refuse inputs and scores that are NaN or infinite.

    `function` maps the inputs in their order, each float64 of shape (m, width), to scores of shape (m, *columns);
    inputs are matrices of n rows, by their description for errors.
    """
    scores = np.empty((len(ids), *columns))
    # An overflow is either intended (a probability of 1) or caught by the check of the scores below, as a division by
    # zero is: that of a row at the mean, or of a row of zeros.
    with np.errstate(all="ignore"):
        for rows in chunks(len(ids), sum(values.shape[1] for values in inputs.values()), at_once):
            for name, values in inputs.items():
                require_finite(name, values[rows], ids[rows])
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
    """Refuse features without rows, and rows whose label is no column of the logits."""
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
    """Refuse labels with fewer than `least` rows of some class; -1 is no class."""
    counts = np.bincount(labels[labels >= 0], minlength=classes)
    short = np.flatnonzero(counts < least).tolist()
    if short:
        named = first_few([f"{counts[number]} of class {number}" for number in short])
        raise EvaluationError(
            f"{detector} needs at least {quantity(least, 'row')} of each of the {len(counts):,} classes to fit on, "
            f"found {named}. Fit on more rows, or leave {detector} out."
        )


def unit(values: Doubles) -> Doubles:
    """Divide vectors, along the last axis, by their Euclidean length; those of zeros stay."""
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    return values / np.where(lengths > 0, lengths, 1.0)


def predicted(features: Features) -> Integers:
    """Return the predicted class of each row, shape (n,): the first of the greatest logits."""
    return features.logits.argmax(axis=1).astype(np.int64, copy=False)


def labels_if_correct(features: Features) -> Integers:
    """Return the labels of correctly classified rows, and -1 for the others; shape (n,)."""
    return np.where(predicted(features) == features.labels, features.labels, -1)


def labels_to_fit(features: Features, least: int, detector: str) -> tuple[Integers, str]:
    """Return the labels to fit on, -1 for misclassified rows, and a remark on classes with too few correct rows.

    Of a class with fewer than `least` correctly classified rows, all rows count (ours), and the remark names it: the
    unified benchmark's OpenMax stops there, and OpenOOD's SHE gives rows predicted as such a class NaN.
    """
    classes = features.logits.shape[1]
    require_rows_of_each_class(features.labels, classes, least, detector)
    labels = labels_if_correct(features)
    short = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=classes) < least).tolist()
    if not short:
        return labels, ""
    counted = np.where(np.isin(features.labels, short), features.labels, labels)
    return counted, f"with all rows of class {first_few(short)}, too few of which are classified right"


def mean_features(features: Features) -> Doubles:
    """Return the mean of the penultimate features over all rows, shape (D,)."""
    return features.penultimate.mean(axis=0, dtype=np.float64)


def class_means(
    values: Floats, labels: Integers, classes: int, of: Callable[[Doubles], Doubles] = lambda chunk: chunk
) -> Doubles:
    """Return the mean of each class's rows after applying `of`, shape (C, D); -1 is no class, and of no rows NaN."""
    sums = np.zeros((classes, values.shape[1]))
    for rows, chunk in pieces(values):
        counted = np.flatnonzero(labels[rows] >= 0)
        places = (labels[rows][counted], counted)
        sums += sparse.csr_array((np.ones(len(counted)), places), (classes, len(chunk))) @ of(chunk)
    counts = np.bincount(labels[labels >= 0], minlength=classes)[:, None]
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def draw_rows(ids: npt.NDArray[np.str_], count: int, seed: int) -> Integers:
    """Draw the places of at most `count` rows by their ids, whatever the order of rows; sorted by id."""
    by_id = np.argsort(ids, kind="stable")
    if len(by_id) <= count:
        return by_id
    return by_id[np.sort(np.random.default_rng(seed).choice(len(by_id), count, replace=False))]
