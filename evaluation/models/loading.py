"""Loads a split's images as batches for a model.

Tested by `tests/evaluation/scoring/test_score_images.py`.
"""

from __future__ import annotations

import struct
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from PIL import Image

from evaluation.errors import EvaluationError, first_line
from evaluation.models.preprocessing import Preprocessing
from unknown_detection.terminal.interrupts import left_to_the_parent

# What Pillow says of a header with more than 89 million pixels, and of one with twice as many.
_BOMBS = (Image.DecompressionBombWarning, Image.DecompressionBombError)

_DECODE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    *_BOMBS,
)
"""What Pillow and `datasets` raise on bytes that are no whole image, and on EXIF blocks that they cannot read."""


class _Images:
    """A map-style dataset for torch's DataLoader: a preprocessed image, or the error of one that cannot be decoded."""

    def __init__(self, rows: Any, preprocessing: Preprocessing) -> None:
        self._ids = rows.select_columns(["id"])
        self._images = rows.select_columns(["image"])  # reading the others costs as much as decoding a small image
        self._preprocessing = preprocessing

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, number: int) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                return self._preprocessing(self._images[number]["image"])
        # Returned and not raised, because a worker's exception arrives with its traceback as text.
        except EvaluationError as error:
            what = f"used: {error}. Build the release again, or get it again."
        except _DECODE_ERRORS as error:
            what = f"decoded: {first_line(error)}. Check the release with `python -m hf_scripts.verify`."
        return EvaluationError(f"The image of row {self._ids[number]['id']} cannot be {what}")


def batches(
    rows: Any,
    preprocessing: Preprocessing,
    row_ranges: Sequence[Sequence[int]],
    *,
    batch_size: int,
    workers: int,
    pinned: bool = False,
) -> Iterator[tuple[Sequence[int], Any]]:
    """Load images of some row ranges of a split in batches; no batch spans two ranges.

    A range's last batch is padded with its last image, because the algorithm of a convolution may depend on the batch
    size: so a row's features do not depend on where its range ends.

    Args:
        rows: the result of `Release.images`.
        preprocessing: applied to each image.
        row_ranges: row numbers of each range, ascending.
        batch_size: images in each batch.
        workers: worker processes that decode images, at most one for every two batches; 0 decodes in the main process.
        pinned: keep batches in pinned memory, from which a CUDA device copies them while it computes.

    Yields:
        Row numbers, and a float32 tensor of shape (batch_size, 3, H, W) that begins with their images.

    Raises:
        EvaluationError: an image cannot be decoded, or is not of the size that it is prepared for.
    """
    from torch.utils.data import DataLoader

    pieces = [part[first : first + batch_size] for part in row_ranges for first in range(0, len(part), batch_size)]
    count = min(workers, len(pieces) // 2)  # starting one takes longer than decoding a single batch
    loader = DataLoader(
        _Images(rows, preprocessing),
        batch_sampler=[list(piece) for piece in pieces],
        num_workers=count,
        multiprocessing_context="fork" if count and sys.platform == "linux" else None,
        collate_fn=partial(_filled, batch_size),
        pin_memory=pinned,
    )
    with left_to_the_parent():
        loaded = iter(loader)  # starts the workers
    for piece, images in zip(pieces, loaded, strict=True):
        if isinstance(images, EvaluationError):
            raise images
        yield piece, images


def _filled(size: int, images: list[Any]) -> Any:
    """Collate images to one tensor of a fixed batch size; the first error if there is one."""
    import torch

    for image in images:
        if isinstance(image, EvaluationError):
            return image
    return torch.stack(images + images[-1:] * (size - len(images)))
