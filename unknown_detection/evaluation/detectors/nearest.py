"""Finds the greatest inner products of rows with a bank of vectors in float32, with bounds on their errors.

A product in float32 is off by at most `TopProducts.error`. So which of a row's products is the k-th greatest is open
only among the few near it. These few are computed again in float64, which gives what a search in float64 gives, in
half the time on a CPU, and on any device of torch.

Tested by `tests/evaluation/detectors/test_neighbors.py`.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from unknown_detection.evaluation.detectors import arrays
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Floats, Integers
from unknown_detection.evaluation.models.models import out_of_memory, pick_device
from unknown_detection.precision import exact_float32

WORTH = 1 << 34
"""Multiplications from which on torch's import, of several seconds, is worth it: a second in float64 on two cores."""

_PRODUCTS = 1 << 23
"""Products that a thread holds at once: 32 MiB (ours; twice as many take up to 10 % longer)."""

_BANK_ROWS = 2048
"""Rows of the bank that are multiplied at once: they stay in a core's cache."""

_PAIRS = 64
"""Pairs of vectors that are compared in float64 at once: they stay in a core's cache."""

_LEAST_ROWS = 128
"""Rows for which the bank is read once, whatever its size: fewer would wait for memory."""

_DEVICE: ContextVar[str] = ContextVar("device", default="auto")


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Compute large matrix products of detectors inside the block on a device, named as for `models.pick_device`."""
    if device not in ("auto", "cpu") and importlib.util.find_spec("torch") is not None:
        pick_device(device)  # else the name would only be looked at where a product is large
    token = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def torch_device(multiplications: int, *kinds: str) -> str | None:
    """Return torch's device for a matrix product of so many multiplications, if it is of one of the given kinds.

    None if NumPy should do them. All kinds will do if none is named.
    """
    if multiplications < WORTH or importlib.util.find_spec("torch") is None:
        return None
    device = pick_device(_DEVICE.get())
    return device if not kinds or device.partition(":")[0] in kinds else None


@contextmanager
def computing_on(device: str) -> Iterator[None]:
    """Run the block's torch computations in full float32; a device without memory left raises `EvaluationError`."""
    import torch

    try:
        with exact_float32(), torch.inference_mode():
            yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise EvaluationError(
            f"{device} has no memory left to compare rows with the fitted ones. Give device=cpu."
        ) from error


@dataclass(frozen=True)
class Bank:
    """Vectors that rows are compared with: the rows of a matrix (N, D) divided by their lengths, with weights.

    A row of zeros has the length 1.

    A product with a vector is multiplied by the vector's weight.
    """

    rows: Floats
    lengths: Doubles
    weights: Doubles

    def __len__(self) -> int:
        return len(self.rows)

    def factored(self, rows: slice) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return some rows and the factors that turn them into weighted unit vectors, both float32."""
        factors = self.weights[rows] / self.lengths[rows]
        return self.rows[rows].astype(np.float32, copy=False), factors.astype(np.float32)

    def directions(self, rows: Integers | slice) -> Doubles:
        """Return some unit vectors without their weights, float64."""
        return self.rows[rows].astype(np.float64) / self.lengths[rows, None]


def make_bank(rows: Floats, weights: Doubles | float = 1.0) -> Bank:
    """Return a bank of the rows of a matrix, whose lengths are far from the ends of float32's range."""
    lengths = np.empty(len(rows))
    for some, values in arrays.pieces(rows):
        lengths[some] = np.linalg.norm(values, axis=1)
    return Bank(rows, np.where(lengths > 0, lengths, 1.0), np.broadcast_to(weights, lengths.shape))


@dataclass(frozen=True)
class TopProducts:
    """The greatest products of m rows with a bank, descending, and the rows of the bank they are with, both (m, K).

    They include every vector whose product may be one of the k greatest that were asked for, since a product in
    float32 is off by at most `error`. Where a row has fewer than K such vectors, the last products are minus infinity,
    or too small to be among the k greatest.
    """

    products: npt.NDArray[np.float32]
    index: Integers
    error: float

    def around(self, count: int) -> tuple[Integers, Integers]:
        """Return the first and the end of the places where the `count`-th greatest product may lie, shape (m,) each.

        Before the first place are only vectors with greater products; the end is the place after the last.
        """
        middle = self.products[:, count - 1, None]
        first = (self.products > middle + 2 * self.error).sum(axis=1)
        return first, (self.products >= middle - 2 * self.error).sum(axis=1)

    def exact(
        self, first: Integers, end: Integers, of: Callable[[Integers, Integers], Doubles], nothing: float
    ) -> Doubles:
        """Compute `of` rows and of rows of the bank, at the places from first to end; `nothing` behind these."""
        sizes = end - first
        row, place = np.nonzero(np.arange(sizes.max(initial=1)) < sizes[:, None])
        candidates = self.index[row, first[row] + place]
        values = np.full((len(sizes), sizes.max(initial=1)), nothing)
        for start in range(0, len(row), _PAIRS):
            pairs = slice(start, start + _PAIRS)
            values[row[pairs], place[pairs]] = of(row[pairs], candidates[pairs])
        return values


def kth_distances(z: Doubles, bank: Bank, counts: Sequence[int]) -> Doubles:
    """Return the distances of rows, each of length 1 or 0, to their k-th nearest vectors, shape (m, number of ks)."""

    def decide(z: Doubles, top: TopProducts) -> Doubles:
        def apart(rows: Integers, some: Integers) -> Doubles:
            # As a difference: from the product, the distance of a row to itself could be up to 1e-8.
            return np.linalg.norm(z[rows] - bank.directions(some), axis=1)

        distances = np.empty((len(z), len(counts)))
        for column, count in enumerate(counts):
            first, end = top.around(count)
            near = np.sort(top.exact(first, end, apart, np.inf), axis=1)
            distances[:, column] = near[np.arange(len(z)), count - 1 - first]
        return distances

    return _search(z, bank, max(counts), decide)


def top_means(z: Doubles, bank: Bank, counts: Sequence[int]) -> Doubles:
    """Return the mean of the k greatest products of rows, each of length 1 or 0, with a bank, (m, number of ks)."""

    def decide(z: Doubles, top: TopProducts) -> Doubles:
        def products(rows: Integers, some: Integers) -> Doubles:
            return arrays.dots(z[rows], bank.directions(some)) * bank.weights[some]

        _, end = top.around(max(counts))
        descending = -np.sort(-top.exact(np.zeros_like(end), end, products, -np.inf), axis=1)
        return np.stack([descending[:, :count].mean(axis=1) for count in counts], axis=1)

    return _search(z, bank, max(counts), decide)


def _search(z: Doubles, bank: Bank, count: int, decide: Callable[[Doubles, TopProducts], Doubles]) -> Doubles:
    """Call `decide` with some rows at a time, in threads, and their greatest products; join its results."""
    device = torch_device(len(z) * bank.rows.size, "cuda", "mps")  # on a CPU NumPy's partitions are faster
    # The bound of a sum of D products in any order, with the roundings of both factors and of the bounds around one.
    roundings = (z.shape[1] + 6) * 2.0**-24
    error = float(np.abs(bank.weights).max()) * roundings / (1 - roundings)
    top = _top_with_numpy if device is None else functools.partial(_top_on_device, device=device)

    def search(rows: slice) -> Doubles:
        return decide(z[rows], TopProducts(*top(z[rows].astype(np.float32), bank, count, 2 * error), error))

    if device is not None:
        return search(slice(0, len(z)))
    # A product on several threads would leave all but one idle in what follows it.
    threads = min((library["num_threads"] for library in _blas().info()), default=1)
    # As many blocks for each thread, of one size: none waits for the last one of another.
    rounds = -(-len(z) // (threads * max(_LEAST_ROWS, _PRODUCTS // len(bank))))
    blocks = [*arrays.chunks(len(z), at_once=max(_LEAST_ROWS, -(-len(z) // (threads * rounds))))]
    if threads == 1:
        return np.concatenate([*map(search, blocks)])
    with _blas().limit(limits=1), ThreadPoolExecutor(threads) as pool:
        return np.concatenate([*pool.map(search, blocks)])


@functools.cache
def _blas() -> Any:
    """Return what limits the threads of matrix products."""
    return ThreadpoolController().select(user_api="blas")


def _top_with_numpy(z: npt.NDArray[np.float32], bank: Bank, count: int, margin: float) -> tuple[Any, Integers]:
    products = np.empty((len(z), len(bank)), np.float32)
    for rows in arrays.chunks(len(bank), at_once=_BANK_ROWS):
        vectors, factors = bank.factored(rows)
        np.multiply(z @ vectors.T, factors, out=products[:, rows])
    # Of the greatest of 16 products each, the k-th greatest is hardly less than that of all, and found faster.
    of = 16 if 64 * count < len(bank) else 1
    groups = products[:, : len(bank) // of * of].reshape(len(z), of, -1).max(axis=1)
    least = np.partition(groups, -count, axis=1)[:, -count, None]
    row, column = np.divmod(np.flatnonzero(products >= least - np.float32(margin)), len(bank))
    sizes = np.bincount(row, minlength=len(z))
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    values, index = np.full((len(z), sizes.max()), -np.inf, np.float32), np.zeros((len(z), sizes.max()), np.int64)
    values[row, place], index[row, place] = products[row, column], column
    order = np.argsort(-values, axis=1)
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(index, order, axis=1)


def _top_on_device(
    z: npt.NDArray[np.float32], bank: Bank, count: int, margin: float, device: str
) -> tuple[Any, Integers]:
    import torch

    with computing_on(device):
        given = torch.from_numpy(z).to(device)
        products, index = given.new_empty((len(z), 0)), torch.empty((len(z), 0), dtype=torch.int64, device=device)
        for rows in arrays.chunks(len(bank), at_once=8 * _BANK_ROWS):
            vectors, factors = (torch.tensor(values, device=device) for values in bank.factored(rows))
            numbers = torch.arange(rows.start, rows.stop, device=device).expand(len(z), -1)
            products, index = torch.cat((products, given @ vectors.T * factors), 1), torch.cat((index, numbers), 1)
            least = products.topk(min(count, products.shape[1])).values[:, -1:]
            most = int((products >= least - margin).sum(dim=1).max())
            products, places = products.topk(most)
            index = index.gather(1, places)
        return products.cpu().numpy(), index.cpu().numpy()
