"""Tasks of an executor that extract features on a cluster; each computes some blocks of a split."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from builders.executors.base import Executor, Progress, Resources, once_per_worker
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.blocks import ReusableFeatures, RowBlocks
from unknown_detection.evaluation.features.runner import Runner, block_rows, environment, outputs_of
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.models.models import check_device, open_model, out_of_memory, pick_device
from unknown_detection.evaluation.releases import Key, Release, load
from unknown_detection.terminal.progress import bar

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

    def run(self, progress: Progress) -> Any:
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

    def run(self, progress: Progress) -> None:
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
