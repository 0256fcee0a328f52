"""Writes a release folder from a build plan, in one sequence of steps.

Rows come from a person's sources (`builders.pipeline.from_sources`) or from a published index
(`builders.pipeline.from_index`); both give a `BuildPlan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.compute as pc

from builders.duplicates.checked import remove_checked_pixels
from builders.duplicates.pixels import ROW_BYTES
from builders.errors import BuildError, os_errors_as_build_errors
from builders.executors.base import Executor, Meter
from builders.generate.batches import SEALED_SUFFIX
from builders.pipeline.build_plan import BuildPlan
from builders.pipeline.finish import finish_release, with_written_splits
from builders.pipeline.read_plan import STAGING, ReadPlan, locate_splits
from builders.pipeline.repeated import copy_published, with_repeated_splits
from builders.pipeline.shard_work import ShardWork
from builders.pipeline.state import TRIES, State, locked
from builders.pipeline.without_duplicates import leave_duplicates_out
from builders.release.entries import Manifest
from builders.release.images import LEAVE_OUT, image_place
from builders.release.manifest import read_or_empty
from builders.release.reader import UndecodableError
from builders.release.remarks import summary as remarks_summary
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.files import require_room
from builders.storage.folders import remove_staged
from builders.storage.paths import as_path
from builders.storage.stores.errors import ChangedMeanwhileError


def write_release(plan: BuildPlan, executor: Executor, meter: Meter) -> Manifest:
    """Write what was planned into the release folder and return its manifest.

    Shards that an earlier run finished are used as they are. The result does not depend on the executor.

    Raises:
        BuildError: the folder is in use or holds other choices, an image is unreadable or has other content than was
            published, or the disk refuses.
    """
    request, layout = plan.request, plan.request.layout
    with os_errors_as_build_errors("write the release"), locked(layout):
        state = State(plan)
        state.check()
        if request.without_duplicates:
            plan = leave_duplicates_out(plan, executor, meter)
        for key, files in plan.repeated.files.items():
            copy_published(layout, key, plan.repeated.rows[key], files)
        located = locate_splits(plan.planned, plan.indexes, layout, meter)
        draws = {key: digest for split in plan.planned for key, digest in split.draws.items()}
        state.record({split.key: split.digest for split in located}, draws)
        work = ShardWork(plan, executor, meter)
        ready = work.generate(located)
        chosen = [ready[key] for key in request.splits if key in ready]
        tasks = work.tasks(chosen)
        kept = [(task.stop - task.start) * ROW_BYTES for task in tasks if task.pixels is not None]
        require_room(request.out, [*(task.size for task in tasks if task.data is not None), *kept])
        with meter.step("writing", sum(task.stop - task.start for task in tasks)) as advance:
            written = executor.run(tasks, advance)
        if told := remarks_summary(shard.remarks for shard in written):
            meter.note(told)
        manifest = _finish(plan, chosen, work, meter)
        # The packs and sealed residuals; lengths and records are kept. In a store, this run's own alone go.
        own = [*(pack.path for split in located for pack in split.packs), *work.packs()]
        remove_staged(layout.state / STAGING, (PACK_SUFFIX, SEALED_SUFFIX), own)
        if work.checked is not None and manifest.by_key().keys() >= plan.draws.benchmark.splits.keys():
            remove_checked_pixels(layout)
    return manifest


def _finish(plan: BuildPlan, chosen: Sequence[ReadPlan], work: ShardWork, meter: Meter) -> Manifest:
    """Describe the written splits and add them to the manifest; again if another run changed that meanwhile."""
    layout = plan.request.layout
    for tries_left in reversed(range(TRIES)):
        before = read_or_empty(layout.root)
        try:
            with meter.step("finishing", sum(split.table.num_rows for split in chosen)) as advance:
                manifest = with_written_splits(plan, chosen, before, advance)
                manifest = with_repeated_splits(plan.repeated, layout, chosen, manifest, advance)
            return finish_release(plan, before, manifest, work.executor, meter)
        except ChangedMeanwhileError:  # in a store, which is not locked
            if not tries_left:
                raise
            meter.note("another run changed the release at the same time; this one adds its splits to that")
        except UndecodableError as error:
            raise _with_file(error, chosen, work.roots) from error
    raise AssertionError("the last try returns or raises")


def _with_file(error: UndecodableError, chosen: Sequence[ReadPlan], roots: Mapping[str, str]) -> BuildError:
    """Return the error with the file in the person's source, if the row is one of those that this run has read."""
    for split in chosen:
        rows = split.table.filter(pc.equal(split.table["id"], error.row_id))
        if rows.num_rows and split.image_generator is None:
            place = image_place(rows, 0, str(as_path(roots[rows["root"][0].as_py()]) / rows["file"][0].as_py()))
            return BuildError(
                f"{place} cannot be used ({error.reason}). Replace it with a good copy, and give the same command "
                f"with --check decode, which decodes all images before it writes them{LEAVE_OUT}."
            )
    return error
