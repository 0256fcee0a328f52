"""What one forward pass over a split leaves: all that a detector may read without the images.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice
"""What indexes an array of n rows: row numbers, a mask, or a slice."""


class Blocks(Sequence[Floats]):
    """Features of blocks that are read when they are asked for: together they are most of what a pass leaves.

    Args:
        count: how many blocks there are.
        read: gives the features of a block by its number, shape (n, D_b).
    """

    def __init__(self, count: int, read: Callable[[int], Floats]) -> None:
        self._count, self._read = count, read

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> Floats: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Floats]: ...
    def __getitem__(self, number: int | slice) -> Floats | Sequence[Floats]:
        """A block by its number, or several of them."""
        chosen = range(self._count)[number]
        return self._read(chosen) if isinstance(chosen, int) else [self._read(which) for which in chosen]

    def take(self, rows: Rows) -> Blocks:
        """Some of the rows of each."""
        return Blocks(self._count, lambda number: self._read(number)[rows])


@dataclass(frozen=True)
class Features:
    """One split as a model sees it; n rows in the release's order.

    Attributes:
        ids: the release's `id` of each row, shape (n,).
        labels: in-distribution class of each row, int64 of shape (n,); -1 where no such class applies.
        logits: shape (n, C), before any softmax.
        penultimate: what the last linear layer reads, shape (n, D).
        blocks: the spatial mean after each block of the model, first to last, each of shape (n, D_b); of tokens, the
            class token where there is one, else their mean.
        members: the logits of each member of an ensemble, or of each stochastic pass, of shape (n, C) each; empty for
            a single model.
        scores: by name of the detector, the scores (n,) that detectors gave these rows before; for those that read the
            scores of others.
    """

    ids: npt.NDArray[np.str_]
    labels: npt.NDArray[np.int64]
    logits: Floats
    penultimate: Floats
    blocks: Sequence[Floats]
    members: tuple[Floats, ...] = ()
    scores: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Rows) -> Features:
        """Some of the rows, in the order given."""
        blocks = self.blocks
        return Features(
            ids=self.ids[rows],
            labels=self.labels[rows],
            logits=self.logits[rows],
            penultimate=self.penultimate[rows],
            blocks=blocks.take(rows) if isinstance(blocks, Blocks) else [block[rows] for block in blocks],
            members=tuple(member[rows] for member in self.members),
            scores={name: scores[rows] for name, scores in self.scores.items()},
        )


@dataclass(frozen=True)
class Head:
    """The last linear layer: logits = penultimate @ weight.T + bias.

    Attributes:
        weight: shape (C, D).
        bias: shape (C,); zeros for a layer without one.
    """

    weight: Floats
    bias: Floats
