"""The one sequence of steps that writes a release folder, wherever its rows come from.

Rows come from a person's sources (`builders.pipeline.from_sources`) or from a published index
(`builders.pipeline.from_index`). Each of the two says which rows there are and how the release describes them; what is
done with them is the same.
"""

from __future__ import annotations

import abc
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.duplicates.comparisons import are_compared, write_pixels
from builders.errors import BuildError, os_errors_as_build_errors
from builders.generate.contract import Generator
from builders.pipeline.finish import Contents, finish_release
from builders.pipeline.generated import ShardWork
from builders.pipeline.request import Run, generators_of
from builders.pipeline.state import TRIES, State, locked
from builders.plan.originals import companion_rows
from builders.plan.planner import PlannedSplit
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.release.manifest import read_or_empty
from builders.release.split_entries import SplitEntry
from builders.sources.base import IN_PLACE, SourceIndex
from builders.sources.sizes import estimated_bytes
from builders.storage.atomic import ChangedMeanwhileError
from builders.storage.paths import is_remote
from builders.writing.packs import remove_packs, unpack
from builders.writing.places import STAGING, Places, packed_rows, rows_taken
from builders.writing.read_plan import ReadPlan, join, locate


class PlannedRelease(abc.ABC):
    """The splits that a run writes: which rows they have, and how the release describes them.

    Attributes:
        run: the run.
        indexes: the opened sources, by key.
        planned: the rows of every split that is written, or of its parts.
    """

    run: Run
    indexes: Mapping[str, SourceIndex]
    planned: Sequence[PlannedSplit]

    @property
    @abc.abstractmethod
    def adopted_digests(self) -> Mapping[str, str]:
        """A digest of what each part of a split was adopted from, or empty (`builders.pipeline.state.State`)."""

    @property
    def generators(self) -> Mapping[str, Generator]:
        """The generators of the splits whose images are generated, by `config/split`."""
        return generators_of(self.run.benchmark, self.run.request.splits)

    @abc.abstractmethod
    def labels(self) -> Mapping[str, Sequence[str]]:
        """In-distribution classes by config."""

    def final(self) -> PlannedRelease:
        """What is written in the end, asked once the folder is held and its state was checked.

        Raises:
            BuildError: what has to be read or written for it cannot be.
        """
        return self

    @abc.abstractmethod
    def order(self, key: str) -> Callable[[pa.Table], npt.NDArray[np.int64]]:
        """The order of a joined split's rows (`config/split`), for `builders.writing.read_plan.join`."""

    def beside(self, plan: ReadPlan) -> ReadPlan:
        """Add what the split's generator is given beside the source images, where that is not of a source.

        Raises:
            BuildError: it cannot be read.
        """
        return plan

    def expecting(self, plan: ReadPlan) -> ReadPlan:
        """Add what each row has to turn out as, where that is known."""
        return plan

    @abc.abstractmethod
    def describe(self, written: Sequence[ReadPlan], before: Manifest) -> Contents:
        """Write the indexes and the tables of exclusions of what was written, and describe it.

        Args:
            written: plans of the splits whose shards are finished.
            before: the folder's manifest from earlier runs.
        """


def write_release(planned: PlannedRelease) -> Manifest:
    """Write what was planned into the release folder and return its manifest.

    Shards that an earlier run finished are used as they are. The result does not depend on the executor.

    Raises:
        BuildError: the folder is in use or holds other choices, an image is unreadable or has other content than was
            published, or the disk refuses.
    """
    run, layout = planned.run, planned.run.layout
    with os_errors_as_build_errors("write the release"), locked(layout):
        state = State(run, planned.adopted_digests, planned.generators)
        state.check(planned.labels())
        planned = planned.final()
        located = [planned.beside(plan) for plan in locate_splits(planned, planned.planned)]
        state.record({plan.key: plan.digest for plan in located})
        work = ShardWork(run, planned.indexes)
        ready = work.generate(located)
        chosen = [planned.expecting(ready[key]) for key in run.request.splits if key in ready]
        tasks = work.tasks(chosen)
        _refuse_full_disk([task.size for task in tasks if task.data is not None], layout)
        run.meter.step("writing", sum(task.stop - task.start for task in tasks))
        run.executor.run(tasks, run.meter.advance)
        manifest = _finish(planned, chosen, work)
        _remove_packs(layout, located, work)
    return manifest


def _finish(planned: PlannedRelease, chosen: Sequence[ReadPlan], work: ShardWork) -> Manifest:
    """Describe what was written, and add it to the manifest; again if another run changed that meanwhile."""
    run = planned.run
    for left in reversed(range(TRIES)):
        run.meter.step("finishing", sum(plan.table.num_rows for plan in chosen))
        before = read_or_empty(run.layout.root)
        try:
            contents = planned.describe(chosen, before)
            for plan in chosen:
                _keep_pixels(run, work, plan, contents.split(plan.key))
            return finish_release(run, before, contents)
        except ChangedMeanwhileError:  # in a store, which is not locked
            if not left:
                raise
            run.meter.note("another run changed the release at the same time; this one adds its splits to that")
    raise AssertionError("the last try returns or raises")


def _remove_packs(layout: Layout, plans: Sequence[ReadPlan], work: ShardWork) -> None:
    """Remove the packs of a finished build: all that are there, but in a store this run's own alone."""
    staging = layout.state / STAGING
    if is_remote(staging):
        for path in (*(pack.path for plan in plans for pack in plan.packs), *work.packs()):
            path.unlink(missing_ok=True)
    else:
        remove_packs(staging)


def locate_splits(planned: PlannedRelease, splits: Sequence[PlannedSplit]) -> list[ReadPlan]:
    """Find the images of some splits, and join those that are declared in parts.

    Raises:
        BuildError: a source changed since it was opened, or the disk has no space for what is unpacked.
    """
    run, indexes = planned.run, planned.indexes
    staging = run.layout.state / STAGING
    _refuse_full_disk_for_packs(splits, indexes, run.layout)
    run.meter.step("finding", sum(split.size for split in splits))
    places = Places(
        indexes,
        {
            key: unpack(index, rows, staging, run.meter.advance)
            for key, index in indexes.items()
            if len(rows := packed_rows(index, rows_taken(indexes, splits, key)))
        },
        run.meter.advance,
    )
    parts: dict[str, list[ReadPlan]] = {}
    for split in splits:
        located = locate(split, places)
        parts.setdefault(split.split_key, []).append(located)
    return [join(found, planned.order(key)) for key, found in parts.items()]


def _keep_pixels(run: Run, work: ShardWork, plan: ReadPlan, entry: SplitEntry) -> None:
    """Keep what later runs need to compare a split with theirs, where its shards will not have it."""
    path = run.layout.pixels(entry.digest)
    if entry.data:
        path.unlink(missing_ok=True)
    elif are_compared(run.benchmark, plan.key) and not path.exists():
        generated = plan.table.filter(pc.equal(plan.table["unreadable"], ""))
        write_pixels(run.layout, entry.digest, work.pixels(generated))


def _refuse_full_disk_for_packs(
    splits: Sequence[PlannedSplit], indexes: Mapping[str, SourceIndex], layout: Layout
) -> None:
    # Images from containers lie on the disk twice during a build; until they are unpacked their bytes are an estimate.
    if (layout.state / STAGING).exists():
        return
    needed = 0
    for split in splits:
        needed += _packed_bytes(indexes[split.split.source.key], split.split.partitions, split.rows)
        if (companions := split.split.companions) is not None:
            index = indexes[companions.of.key]
            rows = companion_rows(index, companions.partitions[0], split.table["source_id"])
            needed += _packed_bytes(index, companions.partitions, rows)
    if not is_remote(layout.root):
        _refuse_full_disk([needed], layout)


def _packed_bytes(index: SourceIndex, partitions: Sequence[str], rows: npt.NDArray[np.int64]) -> int:
    pieces = [piece for piece in index.pieces if piece.partition in partitions]
    return 2 * estimated_bytes(index, rows) if any(piece.how not in IN_PLACE for piece in pieces) else 0


def _refuse_full_disk(sizes: Sequence[int], layout: Layout) -> None:
    """Refuse files that do not fit: all of them, or for a store the largest, which is written here first.

    Raises:
        BuildError: there is too little free space.
    """
    if not is_remote(layout.root):
        needed, folder, remedy = sum(sizes), layout.root, "Free some, or give another --out"
    else:
        needed, folder = max(sizes, default=0), Path(tempfile.gettempdir())
        remedy = (
            "Files are written there before they are sent: set TMPDIR to a folder with space for one of each worker"
        )
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BuildError(
            f"{folder} has {free / 1e9:,.1f} GB of free space, and the build needs {needed / 1e9:,.1f} GB. {remedy}, "
            "and run the same command again."
        )
