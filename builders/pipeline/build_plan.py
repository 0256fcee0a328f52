"""The plan of a build, which both entrances return (from sources, from a published index), and its images' places.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.quotas import Rows
from builders.errors import BuildError
from builders.generate.contract import Generator
from builders.pipeline.published import Published
from builders.pipeline.request import Run, generators_of
from builders.plan.classes import Draws
from builders.plan.originals import companion_rows
from builders.plan.planner import PlannedSplit
from builders.release.layout import Layout
from builders.sources.base import IN_PLACE, SourceIndex
from builders.sources.sizes import estimated_bytes
from builders.storage.paths import store_of
from builders.writing.places import STAGING, Places, packed_rows, rows_taken, unpack
from builders.writing.read_plan import ReadPlan, join, locate
from unknown_detection.words import byte_text


@dataclass(frozen=True)
class BuildPlan:
    """The rows that a run writes, and what describes them in the release.

    Attributes:
        run: the run.
        indexes: the opened sources, by key.
        draws: the benchmark's draws.
        planned: the rows of every split that is written, or of its parts.
        labels: in-distribution classes by config.
        adopted: a digest of what each split or part, and each that one is the rest of, is adopted from; or empty.
        lacking: what the sources lack of each split or part, in sentences, by its key.
        published: the published config whose rows these are; None where they are planned from sources.
    """

    run: Run
    indexes: Mapping[str, SourceIndex]
    draws: Draws
    planned: tuple[PlannedSplit, ...]
    labels: Mapping[str, Sequence[str]]
    adopted: Mapping[str, str]
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    published: Published | None = None

    @property
    def generators(self) -> Mapping[str, Generator]:
        """The generators of the splits whose images are generated, by `config/split`."""
        return generators_of(self.run.benchmark, self.run.request.splits)

    def order(self, key: str, ids: pa.Array) -> Rows:
        """The order of a joined split's rows (`config/split`), of which `ids` are given part by part.

        It is that of the keyed ranks, or the one in which the rows were published.
        """
        if self.published is None:
            return self.draws.order(ids, key)
        places = pc.index_in(self.published.rows(key.partition("/")[2])["id"], value_set=ids)
        found: Rows = places.to_numpy().astype(np.int64)
        return found


def locate_splits(plan: BuildPlan, splits: Sequence[PlannedSplit]) -> list[ReadPlan]:
    """Find the images of some splits, and join those that are declared in parts.

    Raises:
        BuildError: a source changed since it was opened, or the disk has no space for what is unpacked.
    """
    run, indexes = plan.run, plan.indexes
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
    return [join(found, functools.partial(plan.order, key)) for key, found in parts.items()]


def _refuse_full_disk_for_packs(
    splits: Sequence[PlannedSplit], indexes: Mapping[str, SourceIndex], layout: Layout
) -> None:
    # Images from containers lie on the disk twice during a build; until they are unpacked their bytes are an estimate.
    if not store_of(layout.root).is_local or (layout.state / STAGING).exists():
        return
    needed = 0
    for split in splits:
        needed += _packed_bytes(indexes[split.split.source.key], split.split.partitions, split.rows)
        if (companions := split.split.companions) is not None:
            index = indexes[companions.of.key]
            rows = companion_rows(index, companions.partitions[0], split.table["source_id"])
            needed += _packed_bytes(index, companions.partitions, rows)
    refuse_full_disk([needed], layout)


def _packed_bytes(index: SourceIndex, partitions: Sequence[str], rows: Rows) -> int:
    pieces = [piece for piece in index.pieces if piece.partition in partitions]
    return 2 * estimated_bytes(index, rows) if any(piece.how not in IN_PLACE for piece in pieces) else 0


def refuse_full_disk(sizes: Sequence[int], layout: Layout) -> None:
    """Refuse files that do not fit: all of them, or for a store the largest, which is written here first.

    Raises:
        BuildError: there is too little free space.
    """
    folder, needed, remedy = store_of(layout.root).space_for(layout.root, sizes)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BuildError(
            f"{folder} has {byte_text(free)} of free space, and the build needs {byte_text(needed)}. {remedy}, and "
            "run the same command again."
        )
