"""Batches that halve themselves when a device's memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from builders.errors import BuildError

Result = TypeVar("Result")

_CPU_MESSAGES = ("can't allocate memory", "not enough memory")
"""How torch's allocator on the CPU says that memory ran out, in a plain RuntimeError."""


class Halving:
    """Works on images in batches, and halves their size for good when one does not fit into memory.

    Args:
        batch: images of a batch, to begin with.
    """

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def map(self, images: int, work: Callable[[slice], Result]) -> list[Result]:
        """Return the result of each batch of images, from the first to the last.

        Args:
            images: number of images.
            work: called with the rows of a batch. Called again with fewer after it ran out of memory.

        Raises:
            BuildError: memory does not suffice for one image.
        """
        results: list[Result] = []
        first = 0
        while first < images:
            rows = slice(first, min(first + self.batch, images))
            try:
                results.append(work(rows))
            except RuntimeError as error:  # torch.OutOfMemoryError is one
                if not _out_of_memory(error):
                    raise
            else:
                first = rows.stop
                continue
            # Outside of the handler, which keeps the tensors of the failed batch alive.
            self._halve(rows.stop - rows.start)
        return results

    def _halve(self, failed: int) -> None:
        if failed == 1:
            raise BuildError(
                "The device has too little memory to attack a single image. Free some, or use another one."
            )
        self.batch = failed // 2
        click.echo(f"memory ran out with {failed} images at a time; going on with {self.batch}", err=True)
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _out_of_memory(error: RuntimeError) -> bool:
    import torch

    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in _CPU_MESSAGES)
