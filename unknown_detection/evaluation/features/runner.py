"""Runs a model over the images of a release, and stores its outputs block by block: here, or in tasks on a cluster.

Tested by `tests/evaluation/features/test_extract.py` and `tests/evaluation/features/test_tasks.py`.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from builders.executors.base import Executor, Resources, once_per_worker
from builders.executors.base import Progress as TaskProgress
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.blocks import Columns, ReusableFeatures, RowBlocks
from unknown_detection.evaluation.features.store import FeatureStore, block_column
from unknown_detection.evaluation.models.models import Model, check_device, open_model, out_of_memory, pick_device
from unknown_detection.evaluation.models.preprocessing import Preprocessing, load_batches
from unknown_detection.evaluation.releases import Key, Release, load
from unknown_detection.precision import FLOAT32
from unknown_detection.terminal.progress import Progress, bar, log

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


_BLOCKS = 4
"""Blocks of a task, some 2,000 images; ours: a GPU waits for the first batch of each task to be decoded."""

_DECODERS = 4
"""Processes that decode images for a task with a GPU, unless the caller says how many; ours."""


@dataclass(frozen=True)
class Setup:
    """Opens the driver's release and model in a worker. As a task it returns the worker's environment.

    `release` has its `source`, `revision` and `digest`, `model` the arguments of `open_model` but for the device, in
    its order; `device` is `cpu`, or `cuda` for the GPU that a task is given. On the number of `threads` of torch on
    the CPU the last digits depend.
    """

    release: tuple[str, str | None, str]
    model: tuple[str, Path | None, tuple[str, ...], bool, Path | None]
    model_digest: str
    device: str
    batch_size: int
    workers: int
    threads: int

    @property
    def resources(self) -> Resources:
        """What a task occupies."""
        if self.device == "cuda":
            return Resources(cpus=max(1, self.workers), gpus=1)
        return Resources(cpus=max(self.threads, self.workers))

    def run(self, progress: TaskProgress) -> Any:
        """Set the number of threads of this process, and return what results depend on in it."""
        import torch

        torch.set_num_threads(self.threads)
        return environment(pick_device(self.device), self.batch_size)

    def __call__(self) -> Runner:
        """Open the release and the model; raises as `load` and `open_model`, or if a digest is not the driver's."""
        source, revision, digest = self.release
        spec, weights, names, pretrained, classes = self.model
        try:
            release = load(source, revision)
            model = open_model(spec, weights, names, pretrained=pretrained, classes=classes, device=self.device)
        except EvaluationError as error:
            raise EvaluationError(f"On the node {platform.node()}: {error}") from error
        for subject, local, driver in (
            (f"release {source}", release.digest, digest),
            (f"model {spec}", model.digest, self.model_digest),
        ):
            if local != driver:
                raise EvaluationError(
                    f"The {subject} on the node {platform.node()} has the digest {local[:12]}, and where the command "
                    f"runs {driver[:12]}. Give all nodes the same files and versions."
                )
        return Runner(release, model, self.batch_size, self.workers)


@dataclass(frozen=True)
class ExtractBlocks:
    """Computes the features of some blocks of a split, and writes each into its file.

    `environment` is the first worker's, which all must have; `folder` has the split's blocks, `other_splits` are the
    folders of splits that have some of these rows' features.
    """

    setup: Setup
    environment: Mapping[str, Any]
    key: Key
    folder: Path
    blocks: tuple[range, ...]
    other_splits: tuple[Path, ...]

    @property
    def resources(self) -> Resources:
        """What the task occupies."""
        return self.setup.resources

    def run(self, progress: TaskProgress) -> None:
        """Compute the blocks that an earlier try of this task has not written."""
        local = self.setup.run(progress)
        if local != self.environment:
            differing = sorted(name for name in local if local[name] != self.environment.get(name))
            texts = [f"{name} {local[name]} instead of {self.environment.get(name)}" for name in differing]
            raise EvaluationError(
                f"The node {platform.node()} would give features other last digits than the first one: "
                f"{', '.join(texts)}. Use nodes of one kind, with the same packages."
            )
        runner, target = once_per_worker(self.setup), RowBlocks(self.folder)
        left = [block for block in self.blocks if not target.has(block)]
        progress(sum(map(len, self.blocks)) - sum(map(len, left)), 0)
        other_splits = [RowBlocks(folder) for folder in self.other_splits]
        try:
            runner.fill(outputs_of, target, self.key, left, lambda rows: progress(rows, 0), other_splits)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            raise EvaluationError(
                f"{local['device']} on the node {platform.node()} has too little memory for batches of "
                f"{self.setup.batch_size} images. Give a smaller --batch-size."
            ) from error


def worker_environment(executor: Executor, setup: Setup) -> Mapping[str, Any]:
    """Ask a first worker for its environment; `BuildError` if none has the resources or the packages."""
    (found,) = executor.run([setup], lambda images, size: None)
    return dict(found)


def run_tasks(
    executor: Executor,
    setup: Setup,
    computed_in: Mapping[str, Any],
    release: Release,
    quiet: bool,
    store: FeatureStore,
    keys: Sequence[Key],
) -> Iterator[tuple[Key, tuple[int, int]]]:
    """Store the features of splits by an executor's tasks; yield each with its counts, as `Runner.run` returns them.

    An image of several splits is run once, as without an executor: a split that has images of one before it waits for
    that one. The caller holds `FeatureStore.writing`.
    """
    for group in _without_common_images(release, keys):
        tasks, counts = [], {}
        for key in group:
            blocks, ids, others = (
                store.row_blocks(*key),
                release.rows(*key)["id"].to_pylist(),
                store.other_splits(*key),
            )
            missing = blocks.begin(len(ids), block_rows(setup.batch_size), computed_in)
            has = ReusableFeatures(ids, others if missing else (), computed_in).has
            reused = sum(int(np.count_nonzero(has[block.start : block.stop])) for block in missing)
            counts[key] = sum(map(len, missing)) - reused, reused
            folders = tuple(other.folder for other in others) if reused else ()
            tasks += [
                ExtractBlocks(setup, computed_in, key, blocks.folder, tuple(missing[n : n + _BLOCKS]), folders)
                for n in range(0, len(missing), _BLOCKS)
            ]
        rows = sum(len(release.rows(*key)) for key in group)
        with bar(rows, ", ".join("/".join(key) for key in group), quiet=quiet) as shown:
            shown.update(rows - sum(map(sum, counts.values())))
            executor.run(tasks, lambda images, size: shown.update(images))
        for key in group:
            for unfinished in store.row_blocks(*key).folder.glob(".*"):  # of killed workers
                unfinished.unlink()
            yield key, counts[key]


def on_a_cluster(device: str, workers: int | None) -> tuple[str, int]:
    """Resolve a device and a number of decoding processes for the tasks of a cluster.

    `auto` is CUDA if this machine has it; one GPU of several, or Apple's, is refused. Without a number, none decode on
    the CPU, where tasks are as many as the cores allow, and four with a GPU.
    """
    check_device(device)
    device = pick_device(device) if device == "auto" else device
    if device not in ("cpu", "cuda"):
        raise EvaluationError(
            f"--device {device} names a device of one machine, but a cluster gives each task its own. Give cpu, cuda "
            "or auto."
        )
    default = _DECODERS if device == "cuda" else 0
    return device, default if workers is None else workers


def _without_common_images(release: Release, keys: Sequence[Key]) -> Iterator[list[Key]]:
    """Group consecutive splits that have no image in common, in their order."""
    group: list[Key] = []
    seen: set[str] = set()
    for key in keys:
        ids = set(release.rows(*key)["id"].to_pylist())
        if not seen.isdisjoint(ids):
            yield group
            group, seen = [], set()
        group.append(key)
        seen |= ids
    if group:
        yield group
