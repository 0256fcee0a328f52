"""A run and its plan, from either entrance, and where the bytes of its images are.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Benchmark, Config
from builders.declare.quotas import Rows
from builders.errors import BuildError
from builders.executors.base import Executor, Meter
from builders.pipeline.read_plan import STAGING, Places, ReadPlan, join_parts, locate
from builders.plan.candidates import Draws, companion_rows
from builders.plan.planner import PlannedSplit
from builders.release.layout import Layout
from builders.sources.base import IN_PLACE, SourceIndex
from builders.sources.sizes import estimated_bytes
from builders.storage.paths import store_of
from unknown_detection.words import byte_text

if TYPE_CHECKING:
    from builders.pipeline.published import Published


@dataclass(frozen=True)
class Run:
    """One run: the benchmark, what does the work, and what the user asked for.

    Attributes:
        executor: runs the tasks; the result does not depend on it.
        meter: shows progress.
        splits: names as `config/split`.
        roots: folders of the sources by key.
        index_only: for all configs whether rows are written without pixels; None leaves it to each config.
        adopt: the authors' copy or lists.
        demo: whether sources are made up.
        withdrawn: the reason why a row is left out, by its id.
        without_duplicates: asks for the variant of `builders.pipeline.without_duplicates`.
        released: the version of the release whose rows are built; empty for the benchmark's own.
    """

    benchmark: Benchmark
    executor: Executor
    meter: Meter
    out: Path
    splits: tuple[str, ...]
    roots: Mapping[str, Path]
    seed: int
    limit_per_class: int | None = None
    index_only: bool | None = None
    allow_partial: bool = False
    decode: bool = False
    adopt: Path | None = None
    demo: bool = False
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    without_duplicates: bool = False
    released: str = ""

    @property
    def version(self) -> str:
        """The version of the rows; a variant without duplicates has build metadata (semver.org 2.0.0, item 10)."""
        version = self.released or self.benchmark.version
        if self.without_duplicates:
            # With `decode`, equal pixels of other bytes go, too.
            version += f"{'.' if '+' in version else '+'}without-duplicates{'.decoded' if self.decode else ''}"
        return version

    @property
    def layout(self) -> Layout:
        """Places in the release folder that the run writes."""
        return Layout(self.out)

    def has_pixels(self, config: Config) -> bool:
        """Whether the rows of a config are written with their pixels."""
        return not (config.index_only if self.index_only is None else self.index_only)


@dataclass(frozen=True)
class BuildPlan:
    """The rows that a run writes, and what describes them in the release.

    Attributes:
        run: the run.
        indexes: the opened sources, by key.
        draws: the benchmark's draws.
        planned: the rows of every split that is written, or of its parts.
        labels: in-distribution classes by config.
        adopted: the digest of the lists that each split or part and its parents are adopted from, by key; or empty.
        lacking: sentences on what the sources lack of each split or part, by its key.
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


def locate_splits(plan: BuildPlan, splits: Sequence[PlannedSplit]) -> list[ReadPlan]:
    """Find the images of some splits, and join those that are declared in parts.

    Raises:
        BuildError: a source changed since it was opened, or the disk has no space for what is unpacked.
    """
    run, indexes, staging = plan.run, plan.indexes, plan.run.layout.state / STAGING
    if store_of(run.out).is_local and not staging.exists():
        # Images from containers lie on the disk twice during a build; until they are unpacked their bytes are an
        # estimate.
        refuse_full_disk([2 * sum(_packed_bytes(indexes, split) for split in splits)], run.layout)
    run.meter.step("finding", sum(split.size for split in splits))
    places = Places(indexes, splits, staging, run.meter.advance)
    parts: dict[str, list[ReadPlan]] = {}
    for split in splits:
        parts.setdefault(split.split_key, []).append(locate(split, places))

    return [join_parts(located, functools.partial(_order, plan, key)) for key, located in parts.items()]


def _order(plan: BuildPlan, key: str, ids: pa.Array) -> Rows:
    """Return the order of a joined split's rows, that of the keyed ranks or of the published rows."""
    if plan.published is None:
        return plan.draws.rank(key).order(ids)
    order: Rows = pc.index_in(plan.published.rows(key)["id"], value_set=ids).to_numpy().astype(np.int64)
    return order


def _packed_bytes(indexes: Mapping[str, SourceIndex], split: PlannedSplit) -> int:
    needed = [(indexes[split.split.source.key], split.split.partitions, split.rows)]
    if (companions := split.split.companions) is not None:
        index = indexes[companions.of.key]
        rows = companion_rows(index, companions.partitions[0], split.table["source_id"])
        needed.append((index, companions.partitions, rows))
    return sum(
        estimated_bytes(index, rows)
        for index, partitions, rows in needed
        if any(piece.how not in IN_PLACE for piece in index.pieces if piece.partition in partitions)
    )


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
