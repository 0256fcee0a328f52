"""Runs a model over the images of a release, and stores its outputs by image id: here, or in tasks on a cluster.

Tested by `tests/evaluation/features/test_extract.py` and `tests/evaluation/features/test_tasks.py`.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pyarrow as pa
import pyarrow.compute as pc
from PIL import features

from builders.executors.base import Executor, Resources, once_per_worker
from builders.executors.base import Progress as TaskProgress
from builders.executors.local import LocalExecutor
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.table import Columns, Numbers, RowTable, block_column, differences
from unknown_detection.evaluation.models.models import Model, open_model, out_of_memory, pick_device
from unknown_detection.evaluation.models.preprocessing import Preprocessing, load_batches
from unknown_detection.evaluation.models.text import Texts
from unknown_detection.evaluation.releases import Key, Release, load
from unknown_detection.precision import FLOAT32
from unknown_detection.terminal.progress import Progress
from unknown_detection.words import quantity

ROWS = 512
"""Rows of a part, rounded up to whole batches. A killed run loses at most one part of each process."""

BatchFunction = Callable[[Model, Any, Sequence[str]], Columns]
"""Computes columns of B rows from a model, preprocessed images (B, 3, H, W) on the CPU and their ids."""

_MULTIPLE = 8
"""Images that a small batch is a multiple of; ours: kernels work on so many at once."""

_PARTS = 4
"""Parts of a task on a cluster, some 2,000 images; ours: a GPU waits for a task's first batch to be decoded."""

_DECODERS = 4
"""Processes that decode images for a task with a GPU, unless the caller says how many; ours."""


def default_workers() -> int:
    """Return the number of processes that decode images by default: the cores that this process may use.

    None for a single core, and where processes are not forked (not on Linux): they would import the user's program.
    """
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 0
    return count if count > 1 else 0


def outputs_of(model: Model, images: Any, ids: Sequence[str] = ()) -> Columns:
    """Run a model on images, and return logits, penultimate features and pooled blocks as float32."""
    outputs = model.forward(images)
    columns = {"logits": outputs.logits, "penultimate": outputs.penultimate}
    columns |= {block_column(number): outputs.blocks[name] for number, name in enumerate(model.layers.blocks)}
    return {name: values.float().cpu().numpy() for name, values in columns.items()}


@dataclass(frozen=True)
class Opening:
    """Opens the driver's release and model in a worker, once for all of its tasks.

    `release` has its `source`, `revision` and `digest`, `model` the arguments of `open_model` but for the device, in
    its order, and `texts` the names and prompts of a text model; `device` is `cpu`, or `cuda` for the GPU that a task
    is given. On the number of `threads` of torch on the CPU the last digits depend.
    """

    release: tuple[str, str | None, str]
    model: tuple[str, Path | None, tuple[str, ...], bool, Path | Mapping[str, Any] | None]
    model_digest: str
    device: str
    threads: int
    texts: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def __call__(self) -> tuple[Release, Model]:
        """Open both; raises as `load` and `open_model`, or if a digest is not the driver's."""
        import torch

        torch.set_num_threads(self.threads)
        source, revision, digest = self.release
        spec, weights, names, pretrained, classes = self.model
        try:
            release = load(source, revision)
            said = Texts(lambda: self.texts[0], self.texts[1])
            how: dict[str, Any] = {"pretrained": pretrained, "classes": classes, "texts": said}
            model = open_model(spec, weights, names, **how, device=self.device)
        except EvaluationError as error:
            raise EvaluationError(f"On the node {platform.node()}: {error}") from error
        if (release.digest, model.digest) != (digest, self.model_digest):
            subject = f"model {spec}" if release.digest == digest else f"release {source}"
            raise EvaluationError(
                f"The {subject} on the node {platform.node()} has another digest than where the command runs. Give "
                "all nodes the same files and versions."
            )
        return release, model


@dataclass
class Runner:
    """Runs a model over the images of a release.

    Attributes:
        batch_size: images per batch.
        workers: worker processes that decode images; 0 decodes in the main process, None for `default_workers`.
        opening: opens both in another process, which a runner is sent to without them; None if it stays in this one.
    """

    release: Release
    model: Model
    batch_size: int = 64
    workers: int | None = None
    opening: Opening | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how the release and the model are opened."""
        return _opened, (self.opening, self.batch_size, self.workers)

    @property
    def resources(self) -> Resources:
        """The cores and GPUs that a task which runs the model occupies."""
        if self.opening is None:
            return Resources()
        if self.opening.device == "cuda":
            return Resources(cpus=max(1, self.workers or 0), gpus=1)
        return Resources(cpus=max(self.opening.threads, self.workers or 0))

    def environment(self) -> dict[str, Any]:
        """Return the device, batch size and versions, on which the last digits of results depend."""
        import torch

        device = self.model.device
        cuda, torchvision = device.startswith("cuda"), importlib.metadata.version("torchvision")
        return {
            "device": torch.cuda.get_device_name(device) if cuda else f"{device} {platform.machine()}",
            "batch_size": self.batch_size,
            "threads": torch.get_num_threads() if device == "cpu" else 0,
            "torch": str(torch.__version__),
            "float32": FLOAT32,
            "images": f"Pillow {PIL.__version__}, libjpeg {features.version('jpg')}, torchvision {torchvision}",
        }

    def preprocessing(self, key: Key) -> Preprocessing:
        """Return the preprocessing of a split's images for the model."""
        side = self.release.prepared(*key)
        return self.model.preprocessing.prepared(side) if side else self.model.preprocessing


def _size_for(rows: int, model: Model, function: BatchFunction, full: tuple[Any, list[str], Columns] | None) -> int:
    """Return a size for a batch of few rows in place of the full one, which it is padded to otherwise; 0 for none.

    The algorithm of a convolution may depend on the batch size. So a few images of a batch that was full are computed
    again: the size will do where all numbers are those of the full batch, to the last bit.
    """
    size = -(-rows // _MULTIPLE) * _MULTIPLE
    if full is None or 2 * size >= len(full[1]):
        return 0
    images, names, columns = full
    again = function(model, images[:size], names[:size])
    return size if all(np.array_equal(again[name], columns[name][:size]) for name in columns) else 0


def _require_finite(columns: Columns, ids: Sequence[str], model: str) -> None:
    for name, values in columns.items():
        bad = np.flatnonzero(~np.isfinite(values.reshape(len(ids), -1)).all(axis=1))
        if len(bad):
            raise EvaluationError(
                f"{name} of {model} is NaN or infinite for {len(bad):,} images of a batch, such as {ids[bad[0]]}. "
                "Check the weights and that image."
            )


def _opened(opening: Opening, batch_size: int, workers: int | None) -> Runner:
    return Runner(*once_per_worker(opening), batch_size, workers, opening)


@dataclass(frozen=True)
class ComputeParts:
    """A task that computes parts of a split and writes each to its file; any process may run it, more than once.

    `environment` is the one that all workers must have; None asks for the worker's. `folder` and `of` are the table's.
    """

    runner: Runner
    function: BatchFunction
    environment: Mapping[str, Any] | None
    folder: Path
    of: str
    key: Key
    parts: tuple[Numbers, ...]

    @property
    def resources(self) -> Resources:
        """Cores and GPUs of the task."""
        return self.runner.resources

    def run(self, progress: TaskProgress) -> Mapping[str, Any]:
        """Compute the parts that no earlier try of this task has written; return the worker's environment."""
        runner, table, here = self.runner, RowTable(self.folder, self.of), self.runner.environment()
        if self.environment not in (None, here):
            raise EvaluationError(
                f"The node {platform.node()} would give features other last digits than the first one: "
                f"{differences(here, self.environment or {})}. Use nodes of one kind, with the same packages."
            )
        ids, key = runner.release.rows(*self.key)["id"], "/".join(self.key)
        left = [part for part in self.parts if not table.path(key, int(part[0]), ids.take(part)).exists()]
        progress(sum(map(len, self.parts)) - sum(map(len, left)), 0)
        if not left:
            return here
        batches = load_batches(
            runner.release.images(*self.key),
            runner.preprocessing(self.key),
            [part.tolist() for part in left],
            batch_size=runner.batch_size,
            workers=default_workers() if runner.workers is None else runner.workers,
            pinned=runner.model.device.startswith("cuda"),
        )
        full: tuple[Any, list[str], Columns] | None = None
        for part in left:
            pieces = []
            for _ in range(0, len(part), runner.batch_size):
                numbers, images = next(batches)
                names = ids.take(numbers).to_pylist()
                try:
                    size = _size_for(len(names), runner.model, self.function, full) or len(images)
                    columns = self.function(runner.model, images[:size], (names + names[-1:] * size)[:size])
                except RuntimeError as error:
                    if not out_of_memory(error):
                        raise
                    count, less = quantity(len(images), "image"), max(1, len(images) // 2)
                    raise EvaluationError(
                        f"{here['device']} of {platform.node()} has no memory for {count} with {runner.model.name}. "
                        f"Give batch_size={less}, end what else uses it, or choose the CPU."
                    ) from error
                full = (images, names, columns) if len(names) == len(images) else full
                pieces.append({name: values[: len(names)] for name, values in columns.items()})
                _require_finite(pieces[-1], names, runner.model.name)
                progress(len(names), 0)
            joined = {name: np.concatenate([columns[name] for columns in pieces]) for name in pieces[0]}
            table.write(key, int(part[0]), ids.take(part), joined, here)
        return here


def fill(
    runner: Runner,
    function: BatchFunction,
    table: RowTable,
    keys: Sequence[Key],
    progress: Progress,
    *,
    executor: Executor | None = None,
    share: tuple[int, int] = (1, 1),
) -> dict[Key, int]:
    """Apply a function to those images of some splits that a table lacks, and store the results in the table.

    A row's values must not depend on the other rows. An image of several splits is run once. `progress` is called
    first with the number of rows that are there already. Of `share` (k, n), every n-th part is computed, from the k-th
    on. Returned is how many rows of each split were computed.

    Raises:
        EvaluationError: the release has no images of a split, one cannot be decoded, a result is not finite, the
            device has no memory for a batch, or a worker has other files or packages than the first.
    """
    if not keys:
        return {}
    run, alone = (executor or LocalExecutor(1)).run, share == (1, 1)
    asking = ComputeParts(runner, function, None, table.folder, table.of, keys[0], ())
    here = run([asking], lambda images, size: None)[0]
    size = -(-ROWS // runner.batch_size) * runner.batch_size
    plan = _plan(runner.release, table, keys, size, here, alone=alone)
    # By its place among all parts, not among those that are left while others work.
    mine = {key: (share[0] - 1 - number) % share[1] for number, key in enumerate(keys)}
    left = {key: [part for of, part in plan if of == key and part[0] // size % share[1] == mine[key]] for key in keys}
    computed = {key: sum(map(len, parts)) for key, parts in left.items()}
    progress(sum(len(runner.release.rows(*key)) - count for key, count in computed.items()))
    step = len(plan) + 1 if executor is None else _PARTS  # here one after another, as one load of images
    tasks = [
        ComputeParts(runner, function, here, table.folder, table.of, key, tuple(parts[first : first + step]))
        for key, parts in left.items()
        for first in range(0, len(parts), step)
    ]
    run(tasks, lambda images, size: progress(images))
    for unfinished in table.folder.glob(".*") if alone else ():  # of killed processes
        unfinished.unlink()
    return computed


def _plan(
    release: Release, table: RowTable, keys: Iterable[Key], size: int, here: Mapping[str, Any], *, alone: bool
) -> list[tuple[Key, Numbers]]:
    """Return the parts to compute; an image of several splits is in the first of them only."""
    plan: list[tuple[Key, Numbers]] = []
    planned = pa.array([], pa.string())
    for key in keys:
        ids = release.rows(*key)["id"]
        elsewhere = pc.is_in(ids, value_set=planned).to_numpy()
        parts = [part[~elsewhere[part]] for part in table.left("/".join(key), ids, size, here, alone=alone)]
        plan += [(key, part) for part in parts if len(part)]
        planned = pa.concat_arrays([planned, *(ids.take(part).combine_chunks() for part in parts)])
    return plan


def on_a_cluster(device: str, workers: int | None) -> tuple[str, int]:
    """Resolve a device and a number of decoding processes for the tasks of a cluster.

    `auto` is CUDA if this machine has it; one GPU of several, or Apple's, is refused. Without a number, none decode on
    the CPU, where tasks are as many as the cores allow, and four with a GPU.
    """
    device = pick_device(device) if device == "auto" else device
    if device not in ("cpu", "cuda"):
        raise EvaluationError(
            f"{device} is a device of one machine, but a cluster gives each task its own. Give cpu, cuda or auto."
        )
    default = _DECODERS if device == "cuda" else 0
    return device, default if workers is None else workers
