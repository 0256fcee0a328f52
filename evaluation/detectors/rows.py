"""Arithmetic in float64, some rows at a time: the memory needed does not grow with the split.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from evaluation.detectors.base import Scores
from evaluation.errors import EvaluationError
from evaluation.models.features import Floats

Doubles = npt.NDArray[np.float64]

# 8 Mi numbers, 64 MiB: enough rows at a time for BLAS to run at full speed at ImageNet's widths.
_CHUNK = 1 << 23


def chunks(count: int, doubles: int) -> Iterator[slice]:
    """Cut rows into pieces that fit in memory.

    Args:
        count: rows there are.
        doubles: float64 numbers that are held at once for each row.
    """
    step = max(1, _CHUNK // max(1, doubles))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def require_width(name: str, values: Floats, width: int) -> None:
    """Refuse values of another width than the detector works on.

    Args:
        name: what they are, such as "logits".
        values: shape (n, width).
        width: columns that are expected.

    Raises:
        EvaluationError: they have another shape.
    """
    if values.ndim != 2 or values.shape[1] != width:
        raise EvaluationError(
            f"expected {name} of shape (rows, {width}) as the detector was made for, found {values.shape}; "
            f"extract both splits with one model."
        )


def doubles(name: str, values: Floats, rows: slice, ids: npt.NDArray[np.str_]) -> Doubles:
    """Some rows as float64.

    Args:
        name: what they are, such as "logits".
        values: shape (n, width).
        rows: which of the n.
        ids: the n ids, for the error.

    Raises:
        EvaluationError: a number is NaN or infinite.
    """
    chunk = values[rows].astype(np.float64, copy=False)
    finite = np.isfinite(chunk)
    if not finite.all():
        first = int(np.flatnonzero(~finite.all(axis=1))[0])
        raise EvaluationError(
            f"expected finite numbers in the {name}, found NaN or infinity for {str(ids[rows][first])!r}; "
            f"check the model's weights and that image, then extract again."
        )
    return chunk


def by_rows(
    function: Callable[..., Scores],
    inputs: Mapping[str, Floats],
    ids: npt.NDArray[np.str_],
    doubles_each: int,
    columns: tuple[int, ...] = (),
) -> Scores:
    """Score rows piece by piece.

    Args:
        function: takes the inputs in their order, each float64 of shape (m, width), and gives scores of shape
            (m, *columns).
        inputs: by what they are called in errors, matrices of n rows.
        ids: the n ids.
        doubles_each: float64 numbers that `function` holds at once for each row.
        columns: (k,) where each row has k scores.

    Returns:
        Scores, shape (n, *columns).

    Raises:
        EvaluationError: a number that was read or a score is NaN or infinite.
    """
    scores = np.empty((len(ids), *columns))
    # What overflows is either meant to (a probability of 1) or found in the scores below.
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in chunks(len(ids), doubles_each):
            scores[rows] = function(*(doubles(name, values, rows, ids) for name, values in inputs.items()))
    finite = np.isfinite(scores).all(axis=tuple(range(1, scores.ndim)))
    if not finite.all():
        first = int(np.flatnonzero(~finite)[0])
        raise EvaluationError(
            f"expected a finite score of every row, found {scores[first]} for {str(ids[first])!r}; "
            f"its {' and '.join(inputs)} are outside what this detector is defined for: leave the detector out."
        )
    return scores
