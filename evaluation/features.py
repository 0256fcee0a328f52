"""What one forward pass over a split leaves: all that a detector may read without the images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """One split as a model sees it; n rows in the release's order.

    Attributes:
        ids: the release's `id` of each row, shape (n,).
        labels: in-distribution class of each row, int64 of shape (n,); -1 where no such class applies.
        logits: shape (n, C), before any softmax.
        penultimate: what the last linear layer reads, shape (n, D).
        blocks: the spatial (or token) mean after each block of the model, first to last; each of shape (n, D_b).
    """

    ids: npt.NDArray[np.str_]
    labels: npt.NDArray[np.int64]
    logits: Floats
    penultimate: Floats
    blocks: tuple[Floats, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Head:
    """The last linear layer: logits = penultimate @ weight.T + bias.

    Attributes:
        weight: shape (C, D).
        bias: shape (C,); zeros for a layer without one.
    """

    weight: Floats
    bias: Floats
