"""Runs a model over the images of a release, and stores its outputs block by block.

Tested by `tests/evaluation/features/test_extract.py`.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.blocks import Columns, ReusableFeatures, RowBlocks
from unknown_detection.evaluation.features.store import block_column
from unknown_detection.evaluation.models.models import Model, out_of_memory
from unknown_detection.evaluation.models.preprocessing import Preprocessing, load_batches
from unknown_detection.evaluation.releases import Key, Release
from unknown_detection.precision import FLOAT32
from unknown_detection.terminal.progress import Progress, log

ROWS = 512
"""Rows per stored block, rounded up to whole batches. A killed run loses at most one block."""

BatchFunction = Callable[[Model, Any, Sequence[str]], Columns]
"""Computes columns of B rows from a model, preprocessed images (B, 3, H, W) on the CPU and their ids."""


def block_rows(batch_size: int) -> int:
    """Return the rows of every stored block but a split's last."""
    return -(-ROWS // batch_size) * batch_size


def default_workers() -> int:
    """Return the number of processes that decode images by default: the cores that this process may use.

    None for a single core, and where processes are not forked (not on Linux): they would import the user's program.
    """
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 0
    return count if count > 1 else 0


def environment(device: str, batch_size: int) -> dict[str, Any]:
    """Return the environment of this process besides the model and the image: any change may alter the last digits."""
    import torch

    cuda = device.startswith("cuda")
    return {
        "device": torch.cuda.get_device_name(device) if cuda else f"{device} {platform.machine()}",
        "batch_size": batch_size,
        "threads": torch.get_num_threads() if device == "cpu" else 0,
        "torch": str(torch.__version__),
        "float32": FLOAT32,
    }


def outputs_of(model: Model, images: Any, ids: Sequence[str] = ()) -> Columns:
    """Compute a model's logits, penultimate features and pooled blocks, as float32."""
    outputs = model.forward(images)
    columns = {"logits": outputs.logits, "penultimate": outputs.penultimate}
    columns |= {block_column(number): outputs.blocks[name] for number, name in enumerate(model.layers.blocks)}
    return {name: values.float().cpu().numpy() for name, values in columns.items()}


@dataclass
class Runner:
    """Runs a model over the images of a release.

    Attributes:
        batch_size: images per batch; halved whenever the device has too little memory.
        workers: worker processes that decode images; 0 decodes in the main process, None for `default_workers`.
    """

    release: Release
    model: Model
    batch_size: int = 64
    workers: int | None = None

    def preprocessing(self, key: Key) -> Preprocessing:
        """Return the preprocessing of a split's images for the model."""
        side = self.release.prepared(*key)
        return self.model.preprocessing.prepared(side) if side else self.model.preprocessing

    def run(
        self,
        compute: BatchFunction,
        row_blocks: RowBlocks,
        key: Key,
        progress: Progress,
        other_splits: Sequence[RowBlocks] = (),
    ) -> tuple[int, int]:
        """Apply a function to every image of a split, in the release's order, and store new results.

        A row's values must not depend on the other rows. `other_splits` are results of the same function, whose images
        are not computed again; `progress` is called first with the number of rows that are there already.

        Returns the numbers of images that were computed, and that were reused from other splits. Raises
        `EvaluationError` if the release has no images of the split, one cannot be decoded, a result is not finite, or
        the device has no memory for a single image.
        """
        rows, model = len(self.release.rows(*key)), self.model
        while True:
            missing = row_blocks.begin(rows, block_rows(self.batch_size), environment(model.device, self.batch_size))
            finished = rows - sum(map(len, missing))
            progress(finished)

            def advance(count: int) -> None:
                nonlocal finished
                finished += count
                progress(count)

            try:
                return self.fill(compute, row_blocks, key, missing, advance, other_splits)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                if self.batch_size == 1:
                    raise EvaluationError(
                        f"{model.device} has no memory for a single image with {model.name}. Give --device cpu, or "
                        "end what else uses it."
                    ) from error
            # From the split's first row on, so that all of its rows are computed in batches of one size.
            self.batch_size = -(-self.batch_size // 2)
            log(f"{model.device} has too little memory: going on with --batch-size {self.batch_size}")
            progress(-finished)

    def fill(
        self,
        compute: BatchFunction,
        row_blocks: RowBlocks,
        key: Key,
        blocks: Sequence[range],
        progress: Progress,
        other_splits: Iterable[RowBlocks],
    ) -> tuple[int, int]:
        """Compute and store some blocks of a split; as `run`, but for torch's error where memory is too little."""
        if not blocks:
            return 0, 0
        rows, here = self.release.rows(*key), environment(self.model.device, self.batch_size)
        ids, labels = np.array(rows["id"].to_pylist()), rows["label"].to_numpy()
        reusable = ReusableFeatures(ids.tolist(), other_splits, here)
        new = [np.flatnonzero(~reusable.has[block.start : block.stop]) + block.start for block in blocks]
        batches = load_batches(
            self.release.images(*key),
            self.preprocessing(key),
            [numbers.tolist() for numbers in new],
            batch_size=self.batch_size,
            workers=default_workers() if self.workers is None else self.workers,
            pinned=self.model.device.startswith("cuda"),
        )
        for block, numbers in zip(blocks, new, strict=True):
            positions = np.arange(block.start, block.stop)
            reused = positions[reusable.has[positions]]
            pieces = [reusable.take(reused)] if len(reused) else []
            progress(len(reused))
            for _ in range(0, len(numbers), self.batch_size):
                of_batch, images = next(batches)
                names = ids[list(of_batch)].tolist()
                columns = compute(self.model, images, names + names[-1:] * (len(images) - len(names)))
                pieces.append({name: values[: len(names)] for name, values in columns.items()})
                _require_finite(pieces[-1], names, self.model.name)
                progress(len(names))
            order = np.argsort(np.concatenate([reused, numbers]))
            joined = {name: np.concatenate([columns[name] for columns in pieces])[order] for name in pieces[0]}
            row_blocks.write(block, {"id": ids[positions], "label": labels[positions]} | joined, len(rows), here)
        computed = sum(map(len, new))
        return computed, sum(map(len, blocks)) - computed


def _require_finite(columns: Columns, ids: Sequence[str], model: str) -> None:
    for name, values in columns.items():
        bad = np.flatnonzero(~np.isfinite(values.reshape(len(ids), -1)).all(axis=1))
        if len(bad):
            raise EvaluationError(
                f"{name} of {model} is NaN or infinite for {len(bad):,} images of a batch, such as {ids[bad[0]]}. "
                "Check the weights and that image."
            )
