"""Images of a split as batches for a model, in the release's order.

Tested by `tests/evaluation/scoring/test_score_images.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from evaluation.errors import EvaluationError, first_line
from evaluation.models.preprocessing import Preprocessing


class _Images:
    """A map-style dataset as torch's DataLoader takes it: an image, preprocessed, or what is wrong with it."""

    def __init__(self, rows: Any, preprocessing: Preprocessing) -> None:
        self._ids = rows.select_columns(["id"])
        self._images = rows.select_columns(["image"])  # the other columns cost as much time as decoding a small image
        self._preprocessing = preprocessing

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, number: int) -> Any:
        try:
            return self._preprocessing(self._images[number]["image"])
        # What Pillow and `datasets` raise for bytes that are no image. Given back, because a worker's exception would
        # come with its traceback as text.
        except (OSError, SyntaxError, ValueError) as error:
            name = self._ids[number]["id"]
            return EvaluationError(
                f"expected an image in row {name}, found one that cannot be decoded: {first_line(error)}; "
                "`python -m hf_scripts.verify` checks every image of a release."
            )


def batches(
    rows: Any, preprocessing: Preprocessing, parts: Sequence[Sequence[int]], *, batch_size: int, workers: int
) -> Iterator[tuple[Sequence[int], Any]]:
    """Load images of some parts of a split, batch by batch; no batch reaches over the end of a part.

    A last batch of fewer rows is filled up with its last image, because how a convolution is computed depends on how
    many images there are: so a row's numbers do not depend on where a part ends.

    Args:
        rows: what `Release.images` gives.
        preprocessing: what each image goes through.
        parts: row numbers, in order.
        batch_size: images in each batch.
        workers: processes that decode; 0 decodes in this one.

    Yields:
        Row numbers, and a float32 tensor of shape (batch_size, 3, H, W) whose first images are theirs.

    Raises:
        EvaluationError: an image cannot be decoded.
    """
    from torch.utils.data import DataLoader

    pieces = [part[first : first + batch_size] for part in parts for first in range(0, len(part), batch_size)]
    loader = DataLoader(
        _Images(rows, preprocessing),
        batch_sampler=[list(piece) for piece in pieces],
        num_workers=min(workers, len(pieces)),
        collate_fn=_Fill(batch_size),
    )
    for piece, images in zip(pieces, loader, strict=True):
        if isinstance(images, EvaluationError):
            raise images
        yield piece, images


class _Fill:
    """Makes one tensor of a batch, of a fixed number of images; a class, so that it can be sent to a worker."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, images: list[Any]) -> Any:
        import torch

        for image in images:
            if isinstance(image, EvaluationError):
                return image
        return torch.stack(images + images[-1:] * (self._size - len(images)))
