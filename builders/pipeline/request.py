"""What one run was asked for, which sources that takes, and what the run works with.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from builders.declare.benchmark import Benchmark, Config, group_name
from builders.executors.base import Executor, Meter
from builders.generate.contract import Generator
from builders.release.entries import BenchmarkEntry
from builders.release.layout import Layout
from builders.sources.base import Source

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
class Identity:
    """The choices that change rows. A folder holds a benchmark's rows of one identity only."""

    benchmark: str
    version: str
    seed: int
    limit_per_class: int | None
    demo: bool

    @classmethod
    def requested(cls, benchmark: Benchmark, request: BuildRequest) -> Identity:
        """The identity of the rows that a request asks for."""
        version = benchmark.version
        if request.without_duplicates:
            version = variant_version(version, decode=request.decode)
        return cls(benchmark.name, version, request.seed, request.limit_per_class, request.demo)

    @classmethod
    def released(cls, name: str, entry: BenchmarkEntry) -> Identity:
        """The identity of a benchmark's rows in a manifest."""
        return cls(name, entry.version, entry.seed, entry.limit_per_class, entry.demo)

    def choices(self) -> dict[str, Any]:
        """The choices by name, as the state records them."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "benchmark"}


@dataclass(frozen=True)
class Run:
    """One run: the benchmark, what was asked for, what its rows are, and what does the work.

    `executor` runs the tasks, and the result does not depend on it; `meter` shows progress.
    """

    benchmark: Benchmark
    request: BuildRequest
    identity: Identity
    executor: Executor
    meter: Meter

    @classmethod
    def of(cls, benchmark: Benchmark, request: BuildRequest, executor: Executor, meter: Meter) -> Run:
        """A run that builds a benchmark from sources."""
        return cls(benchmark, request, Identity.requested(benchmark, request), executor, meter)

    @property
    def layout(self) -> Layout:
        """Places in the release folder that the run writes."""
        return Layout(self.request.out)


def variant_version(version: str, *, decode: bool) -> str:
    """The version of a benchmark's variant without duplicates; with `decode` equal pixels of other bytes go, too."""
    joined = "." if "+" in version else "+"
    return f"{version}{joined}{VARIANT}" + (".decoded" if decode else "")


def compared_with(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """The given splits and those that they are compared with, as `config/split` in declared order.

    They are compared with all that is built if no split is named, whether this run builds it or not.
    """
    names = {group_name(benchmark, key.partition("/")[0]) for key in splits}
    built = {*splits, *(set(benchmark.usual()) & set(benchmark.ready()))}
    return tuple(
        key for key in benchmark.parts() if key in built and group_name(benchmark, key.split("/")[0]) in names
    )


def parts_of(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """The keys of what the given splits are made of: of their parts, or their own."""
    parts = benchmark.parts()
    return tuple(part for key in splits for part in parts[key])


def generators_of(benchmark: Benchmark, splits: Sequence[str]) -> dict[str, Generator]:
    """The generators of the given splits, by their keys; splits whose images are the source's have none."""
    declared = benchmark.by_key()
    generators = {key: declared[key][1].image_generator for key in splits if key in declared}
    return {key: generator for key, generator in generators.items() if generator is not None}


def with_parents(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """The keys of the given splits' parts, and of what has its images before them."""
    parts = parts_of(benchmark, splits)
    return tuple(dict.fromkeys(key for part in parts for key in (part, *benchmark.drawn_before(part))))


def needed_partitions(benchmark: Benchmark, splits: Sequence[str]) -> dict[Source, tuple[str, ...]]:
    """Partitions by source that the given splits take, with what they are apart from."""
    declared = benchmark.by_key()
    needed: dict[str, dict[str, None]] = {}
    for key in with_parents(benchmark, splits):
        _, split = declared[key]
        needed.setdefault(split.source.key, {}).update(dict.fromkeys(split.partitions))
        if (originals := split.originals) is not None:
            needed.setdefault(originals.of.key, {}).update(dict.fromkeys(originals.partitions))
    return {source: tuple(needed[source.key]) for source in benchmark.sources() if source.key in needed}
