"""The greatest inner products of rows with a bank of vectors: searched in float32, decided in float64.

A computed product is wrong by at most `TopProducts.error`, so of each row's products only those near the k-th
greatest leave open which is the k-th. A caller computes these few again, and gets what a search in float64 gives, in
half the time on a CPU, and on any device of torch.

Tested by `tests/evaluation/detectors/test_neighbors.py`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors.base import Doubles, Integers
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features
from unknown_detection.evaluation.models.models import check_device, out_of_memory, pick_device
from unknown_detection.precision import exact_float32

Result = TypeVar("Result")

WORTH = 1 << 34
"""Multiplications from which on torch's import, of several seconds, is worth it: a second in float64 on two cores."""

_SPARE = 16
"""Products to find beyond those asked for, at least, and an eighth of their number. The bound of the error is 1.2e-4
for 2,048 features, where the thousandth of 254,000 random directions has some 30 others below it within twice that."""

_ROWS, _BANK_ROWS = 512, 2048
"""Rows, and rows of the bank, whose products are computed at once: they stay in a core's cache until they are read."""

_DEVICE: ContextVar[str] = ContextVar("device", default="auto")


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Compute large matrix products of detectors within the block on a device, as for `models.pick_device`."""
    check_device(device)
    token = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def torch_device(multiplications: int) -> str | None:
    """Return the device for matrix products of a number of multiplications in torch; None if NumPy should do them."""
    if multiplications < WORTH or importlib.util.find_spec("torch") is None:
        return None
    return pick_device(_DEVICE.get())


def cuda_device(multiplications: int) -> str | None:
    """As `torch_device`, for products in float64: CUDA only, because torch on a CPU takes as long as NumPy."""
    device = torch_device(multiplications)
    return device if device is not None and device.startswith("cuda") else None


def search_device(multiplications: int) -> str | None:
    """As `torch_device`, for a search: None for a CPU, on which NumPy's partitions are faster."""
    device = torch_device(multiplications)
    return None if device == "cpu" else device


@dataclass(frozen=True)
class Bank:
    """Vectors to compare with: the directions of N rows' penultimate features, each times a weight.

    `lengths` (N,) are those of the features, and 1 for rows of zeros.
    """

    features: Features
    lengths: Doubles
    weights: Doubles

    def __len__(self) -> int:
        return len(self.features)

    def pieces(self, size: int) -> Iterator[slice]:
        """Yield slices of at most `size` rows."""
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))

    def vectors(self, rows: slice) -> Doubles:
        """Return some vectors, float64."""
        return self.features.penultimate[rows].astype(np.float64) * (self.weights[rows] / self.lengths[rows])[:, None]

    def vectors32(self, rows: slice) -> npt.NDArray[np.float32]:
        """Return some vectors, float32, each number off by at most two roundings."""
        values = self.features.penultimate[rows]
        factors = (self.weights[rows] / self.lengths[rows])[:, None].astype(values.dtype, copy=False)
        return np.multiply(values, factors).astype(np.float32, copy=False)

    def directions(self, rows: Integers) -> Doubles:
        """Return the directions of some rows, float64."""
        return self.features.penultimate[rows].astype(np.float64) / self.lengths[rows, None]


@dataclass(frozen=True)
class TopProducts:
    """The greatest products of m rows with a bank, in descending order, and their rows of the bank, both (m, K).

    All other products are at most the last of these, by their computed value; `error` is the greatest of a product,
    and `complete` says whether the bank has no more than these K rows.
    """

    products: Doubles
    index: Integers
    error: float
    complete: bool

    def around(self, count: int) -> tuple[Integers, Integers, npt.NDArray[np.bool_]]:
        """Return between which places the vector with the `count`-th greatest product lies, each of shape (m,).

        These are the first, before which are only vectors with greater products, and the place after the last; and
        whether it is certainly among the K.
        """
        middle = self.products[:, count - 1, None]
        first = (self.products > middle + 2 * self.error).sum(axis=1)
        end = (self.products >= middle - 2 * self.error).sum(axis=1)
        return first, end, (end < self.products.shape[1]) | self.complete


def search_bank(z: Doubles, bank: Bank, count: int, *, device: str | None, exact: bool = False) -> TopProducts:
    """Find the greatest products of rows, shape (m, D), each of length 1 or 0, with a bank.

    At least `count` are found, and a few more so that `TopProducts.around` is certain: on a device of torch, or with
    NumPy for None, or in float64 with NumPy if `exact`.
    """
    count = min(count + max(_SPARE, count // 8), len(bank))
    if device is None:
        products, index = _search_with_numpy(z, bank, count, exact=exact)
    else:
        parts = compute_in_halves(lambda rows: _search_on_device(rows, bank, count), device, z)
        products, index = (np.concatenate(column) for column in zip(*parts, strict=True))
    # The bound of a sum of D products in any order, with the roundings of both factors.
    roundings = (z.shape[1] + 4) * 2.0 ** (-53 if exact else -24)
    error = float(np.abs(bank.weights).max()) * roundings / (1 - roundings)
    return TopProducts(products, index, error, complete=count == len(bank))


def _search_with_numpy(z: Doubles, bank: Bank, count: int, *, exact: bool) -> tuple[Doubles, Integers]:
    values = z if exact else z.astype(np.float32)
    parts = [values[start : start + _ROWS] for start in range(0, len(values), _ROWS)]
    best = [(np.empty((len(part), 0), values.dtype), np.empty((len(part), 0), dtype=np.int64)) for part in parts]
    for rows in bank.pieces(_BANK_ROWS):
        transposed = (bank.vectors(rows) if exact else bank.vectors32(rows)).T
        best = [
            _with_greater(*top, part @ transposed, rows.start, count) for part, top in zip(parts, best, strict=True)
        ]
    products, index = (np.concatenate(column) for column in zip(*best, strict=True))
    order = np.argsort(-products, axis=1)
    return np.take_along_axis(products, order, axis=1).astype(np.float64), np.take_along_axis(index, order, axis=1)


def _with_greater(
    products: npt.NDArray[Any], index: Integers, new: npt.NDArray[Any], start: int, count: int
) -> tuple[npt.NDArray[Any], Integers]:
    """Return the `count` greatest of each row's products and of new ones, those of the bank's rows from `start` on."""
    rows, width = new.shape
    if not products.size:
        values, places = _greatest(new, count)
        return values, places + start
    if products.shape[1] < count:
        numbers = np.hstack((index, np.broadcast_to(np.arange(start, start + width), new.shape)))
        values, places = _greatest(np.hstack((products, new)), count)
        return values, np.take_along_axis(numbers, places, axis=1)
    # Of random rows, few are greater, so that one comparison is all that most take.
    flat = np.flatnonzero(new > products.min(axis=1, keepdims=True))
    row = flat // width
    sizes = np.bincount(row, minlength=rows)
    column = np.arange(count, count + len(flat)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    values = np.full((rows, count + sizes.max(initial=0)), -np.inf, new.dtype)
    numbers = np.zeros(values.shape, dtype=np.int64)
    values[:, :count], numbers[:, :count] = products, index
    values[row, column], numbers[row, column] = new.ravel()[flat], flat - row * width + start
    values, places = _greatest(values, count)
    return values, np.take_along_axis(numbers, places, axis=1)


def _greatest(values: npt.NDArray[Any], count: int) -> tuple[npt.NDArray[Any], Integers]:
    """Return the `count` greatest values of each row, unordered, with their places; all if there are fewer."""
    rows, width = values.shape
    count = min(count, width)
    # NumPy finds the least of them with vector instructions, which `argpartition` does not use.
    least = np.partition(values, width - count, axis=1)[:, width - count, None]
    flat = np.flatnonzero(values >= least)
    if len(flat) != rows * count:  # other values equal the least
        flat = (np.argpartition(values, width - count, axis=1)[:, -count:] + width * np.arange(rows)[:, None]).ravel()
    return values.ravel()[flat].reshape(rows, count), (flat % width).reshape(rows, count)


@functools.cache
def _blas() -> Any:
    """Return what limits the threads of matrix products; None where threadpoolctl is not installed."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return None
    return ThreadpoolController().select(user_api="blas")


def in_threads(compute: Callable[..., Doubles], *matrices: Doubles) -> Doubles:
    """Compute parts of the rows of some matrices in threads, as many as matrix products take, and join the results.

    A product on several threads would leave all but one idle in what follows it.
    """
    blas = _blas()
    threads = min((library["num_threads"] for library in blas.info()), default=1) if blas is not None else 1
    parts = min(threads, os.cpu_count() or 1, -(-len(matrices[0]) // 64))
    if parts < 2:
        return compute(*matrices)
    with blas.limit(limits=1), ThreadPoolExecutor(parts) as pool:
        split = [np.array_split(matrix, parts) for matrix in matrices]
        return np.concatenate(list(pool.map(compute, *split)))


def compute_in_halves(compute: Callable[..., Result], device: str, *rows: Doubles) -> list[Result]:
    """Compute on a device in float32, on half of the rows at a time when its memory runs out.

    `compute` is called with tensors on the device, of the same rows of each matrix; the results are in their order.
    """
    import torch

    try:
        with exact_float32():
            return [compute(*(torch.from_numpy(values.astype(np.float32)).to(device) for values in rows))]
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        if len(rows[0]) <= 1:
            raise EvaluationError(
                f"{device} has no memory to compare a single row with the fitted ones. Give --device cpu."
            ) from error
    half = len(rows[0]) // 2
    first, second = (tuple(values[part] for values in rows) for part in (slice(half), slice(half, None)))
    return compute_in_halves(compute, device, *first) + compute_in_halves(compute, device, *second)


def _search_on_device(z: Any, bank: Bank, count: int) -> tuple[Doubles, Integers]:
    import torch

    products, index = z.new_empty((len(z), 0)), torch.empty((len(z), 0), dtype=torch.int64, device=z.device)
    for rows in bank.pieces(8 * _BANK_ROWS):
        new = z @ torch.from_numpy(bank.vectors32(rows)).to(z.device).T
        greatest, places = new.topk(min(count, new.shape[1]), dim=1)
        products = torch.cat((products, greatest), dim=1)
        index = torch.cat((index, places + rows.start), dim=1)
        if products.shape[1] > count:
            products, places = products.topk(count, dim=1)
            index = index.gather(1, places)
    order = products.argsort(dim=1, descending=True)
    return products.gather(1, order).double().cpu().numpy(), index.gather(1, order).cpu().numpy()
