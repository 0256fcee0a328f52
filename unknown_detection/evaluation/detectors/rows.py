"""Float64 computations in chunks of rows, so that memory does not grow with the split.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Floats

Doubles = npt.NDArray[np.float64]

Scores = npt.NDArray[np.float64]
"""One score per row, shape (n,); higher means more unknown."""

FEATURES, LOGITS = "penultimate features", "logits"
"""Names of a detector's inputs, in errors."""

# 8 Mi numbers, 64 MiB: enough rows per chunk for BLAS to run at full speed at ImageNet's widths.
_CHUNK = 1 << 23


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
    """Check that values, described by `name`, have the width that a detector was fitted for.

    Raises:
        EvaluationError: the shape is not (n, width).
    """
    if values.ndim != 2 or values.shape[1] != width:
        raise EvaluationError(
            f"The {name} must have the shape (rows, {width}) that the detector was made for, found {values.shape}. "
            "Extract both splits with one model."
        )


def as_float64(name: str, values: Floats, rows: slice, ids: npt.NDArray[np.str_]) -> Doubles:
    """Return some rows of values, shape (n, width), as float64; `name` and the n `ids` are for the error.

    Raises:
        EvaluationError: a value is NaN or infinite.
    """
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

    Raises:
        EvaluationError: an input or a score is NaN or infinite.
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
