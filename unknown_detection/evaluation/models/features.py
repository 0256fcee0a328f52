"""Features of a split: the outputs of one forward pass that detectors read.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32] | Doubles
Integers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice
"""An index into n rows: row numbers, a mask, or a slice."""


class LazyBlocks(Sequence[Floats]):
    """Block features that are read on access, because they make up most of a split's features."""

    def __init__(self, count: int, read: Callable[[int], Floats]) -> None:
        self._count, self._read = count, read

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int | slice) -> Any:
        """Return a block's features by its number, or several blocks' by a slice."""
        chosen = range(self._count)[number]
        return self._read(chosen) if isinstance(chosen, int) else [self._read(block) for block in chosen]


@dataclass(frozen=True)
class Head:
    """The last linear layer: logits = penultimate @ weight.T + bias.

        >>> import numpy as np
        >>> head = ud.Head(weight=np.eye(10, 64), bias=np.zeros(10))

    Attributes:
        weight: shape (C, D).
        bias: shape (C,); zeros if the layer has none.
        negatives: of a text model, whose weights are embeddings of its classes' names times a scale, the embeddings of
            negative labels, shape (M, D), M = 0 where none were asked for; None for other models.
    """

    weight: Floats
    bias: Floats
    negatives: Floats | None = None


@dataclass(frozen=True)
class Features:
    """A model's features of one split: n rows in the release's order. Arrays of another tool will do.

        >>> import numpy as np
        >>> logits = np.array([[4.0, 0.0], [1.0, 2.0]])
        >>> rows = ud.Features(np.array(["a", "b"]), np.array([0, 1]), logits, penultimate=logits, blocks=())
        >>> ud.detectors.MaxLogit().fit(rows).score(rows)
        array([-4., -2.])

    Attributes:
        ids: the release's `id` of each row, shape (n,).
        labels: in-distribution class of each row, int64 of shape (n,); -1 for rows outside these classes.
        logits: shape (n, C), before the softmax.
        penultimate: input of the last linear layer, shape (n, D).
        blocks: spatial mean of each block's output, first to last, each of shape (n, D_b); for transformers, the class
            token if there is one, else the mean over tokens.
        members: logits of each member of an ensemble, or of each stochastic forward pass, of shape (n, C) each; empty
            for a single model.
        scores: other detectors' scores of these rows, by detector, of shape (n,) each; for detectors that combine
            scores.
        passed: outputs of a second pass over the images, by name, with n rows each; for detectors that run one.
        head: the model's last linear layer; None if the logits are not its output.
    """

    ids: npt.NDArray[np.str_]
    labels: npt.NDArray[np.int64]
    logits: Floats
    penultimate: Floats
    blocks: Sequence[Floats]
    members: tuple[Floats, ...] = ()
    scores: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    passed: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    head: Head | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        """Show shapes, not values."""
        shapes = f"logits {np.shape(self.logits)}, penultimate {np.shape(self.penultimate)}"
        return f"<features of {len(self):,} rows: {shapes}, {len(self.blocks)} blocks>"

    def take(self, rows: Rows) -> Features:
        """Select rows, in the given order."""
        return _mapped(self, lambda array: array[rows])

    def unlabelled(self) -> Features:
        """Replace all labels by -1, so that a detector cannot see them when it scores."""
        return replace(self, labels=np.full_like(self.labels, -1))


def read_only(features: Features) -> Features:
    """Return the features in read-only arrays, since other code reads the same ones."""

    def locked(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        view = array.view()
        view.flags.writeable = False
        return view

    head = features.head
    arrays = {} if head is None else {name: locked(of) for name, of in vars(head).items() if of is not None}
    return replace(_mapped(features, locked), head=head and Head(**arrays))


def _mapped(features: Features, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Features:
    """Return the same features with every array of rows changed; lazy ones are when they are read."""

    def changed(values: Any) -> Any:
        if isinstance(values, np.ndarray):
            return change(values)
        if isinstance(values, Mapping):
            return {name: change(of_name) for name, of_name in values.items()}
        if isinstance(values, LazyBlocks):
            return LazyBlocks(len(values), lambda number: change(values[number]))
        return tuple(map(change, values))

    arrays = (each.name for each in fields(features) if each.name != "head")
    return replace(features, **{name: changed(getattr(features, name)) for name in arrays})
