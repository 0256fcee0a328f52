"""The request and the plan of a run, from either entrance, and where the bytes of its images are.

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

from builders.declare.benchmark import Benchmark, Config, group_name
from builders.declare.quotas import Rows
from builders.errors import BuildError
from builders.executors.base import Executor, Meter
from builders.generate.contract import Generator
from builders.plan.candidates import Draws
from builders.plan.originals import companion_rows
from builders.plan.planner import PlannedSplit
from builders.release.layout import Layout
from builders.sources.base import IN_PLACE, Source, SourceIndex
from builders.sources.sizes import estimated_bytes
from builders.storage.paths import store_of
from builders.writing.read_plan import STAGING, Places, ReadPlan, join_parts, locate
from unknown_detection.words import byte_text

if TYPE_CHECKING:
    from builders.pipeline.published import Published


VARIANT = "without-duplicates"
"""Build metadata of the version (semver.org 2.0.0, item 10) of a variant without duplicates."""


@dataclass(frozen=True)
class BuildRequest:
    """What the user asked for.

    `roots` maps source keys to folders; `splits` are names as `config/split`; `index_only` says for all configs
    whether rows are written without pixels, and None leaves it to each config's declaration; `withdrawn` has the
    reason why a row is left out, by its id; `without_duplicates` asks for the variant of
    `builders.pipeline.without_duplicates`.
    """

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

    def has_pixels(self, config: Config) -> bool:
        """Whether the rows of a config are written with their pixels."""
        return not (config.index_only if self.index_only is None else self.index_only)


@dataclass(frozen=True)
class Run:
    """One run: the benchmark, what was asked for, the version of its rows, and what does the work.

    `executor` runs the tasks, and the result does not depend on it; `meter` shows progress.
    """

    benchmark: Benchmark
    request: BuildRequest
    version: str
    executor: Executor
    meter: Meter

    @classmethod
    def of(cls, benchmark: Benchmark, request: BuildRequest, executor: Executor, meter: Meter) -> Run:
        """Return a run that builds a benchmark from sources."""
        version = benchmark.version
        if request.without_duplicates:
            # With `decode`, equal pixels of other bytes go, too.
            joined = "." if "+" in version else "+"
            version += f"{joined}{VARIANT}" + (".decoded" if request.decode else "")
        return cls(benchmark, request, version, executor, meter)

    @property
    def layout(self) -> Layout:
        """Places in the release folder that the run writes."""
        return Layout(self.request.out)


def compared_with(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """Return the given splits and those that they are compared with, as `config/split` in declared order.

    These are all that a build without named splits has, whether this run builds them or not.
    """
    names = {group_name(benchmark, key.partition("/")[0]) for key in splits}
    built = {*splits, *(set(benchmark.usual()) & set(benchmark.ready()))}
    return tuple(
        key for key in benchmark.parts() if key in built and group_name(benchmark, key.split("/")[0]) in names
    )


def keys_of_parts(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the parts of the given splits; a split that is not joined has its own."""
    parts = benchmark.parts()
    return tuple(part for key in splits for part in parts[key])


def generators_of(benchmark: Benchmark, splits: Sequence[str]) -> dict[str, Generator]:
    """Return the generators of the given splits by key, without splits whose images are the source's own."""
    declared = benchmark.by_key()
    generators = {key: declared[key][1].image_generator for key in splits if key in declared}
    return {key: generator for key, generator in generators.items() if generator is not None}


def with_parents(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the given splits' parts, each followed by the parts that draw from its images before it."""
    parts = keys_of_parts(benchmark, splits)
    return tuple(dict.fromkeys(key for part in parts for key in (part, *benchmark.drawn_before(part))))


def needed_partitions(benchmark: Benchmark, splits: Sequence[str]) -> dict[Source, tuple[str, ...]]:
    """Return the partitions by source that the given splits need, also for parents and originals."""
    declared = benchmark.by_key()
    needed: dict[str, dict[str, None]] = {}
    for key in with_parents(benchmark, splits):
        _, split = declared[key]
        needed.setdefault(split.source.key, {}).update(dict.fromkeys(split.partitions))
        if (originals := split.originals) is not None:
            needed.setdefault(originals.of.key, {}).update(dict.fromkeys(originals.partitions))
    return {source: tuple(needed[source.key]) for source in benchmark.sources() if source.key in needed}


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

    def order(self, key: str, ids: pa.Array) -> Rows:
        """Return the order of a joined split's rows (`config/split`), given their `ids` part by part.

        It is that of the keyed ranks, or that of the published rows.
        """
        if self.published is None:
            return self.draws.rank(key).order(ids)
        order: Rows = pc.index_in(self.published.rows(key)["id"], value_set=ids).to_numpy().astype(np.int64)
        return order


def locate_splits(plan: BuildPlan, splits: Sequence[PlannedSplit]) -> list[ReadPlan]:
    """Find the images of some splits, and join those that are declared in parts.

    Raises:
        BuildError: a source changed since it was opened, or the disk has no space for what is unpacked.
    """
    run, indexes = plan.run, plan.indexes
    _refuse_full_disk_for_packs(splits, indexes, run.layout)
    run.meter.step("finding", sum(split.size for split in splits))
    places = Places(indexes, splits, run.layout.state / STAGING, run.meter.advance)
    parts: dict[str, list[ReadPlan]] = {}
    for split in splits:
        parts.setdefault(split.split_key, []).append(locate(split, places))
    return [join_parts(located, functools.partial(plan.order, key)) for key, located in parts.items()]


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
