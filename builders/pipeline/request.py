"""What one run was asked for, and which sources that takes.

Tested by `tests/builders/pipeline/test_command.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from builders.benchmark import Benchmark, parent
from builders.generate.contract import Generator
from builders.sources.base import Source


@dataclass(frozen=True)
class Choices:
    """What the user chose.

    `roots` maps source keys to folders; `splits` are names as `config/split`; `withdrawn` has the reason why a row is
    left out, by its id; `without_duplicates` asks for the variant of `builders.pipeline.without_duplicates`.
    """

    out: Path
    splits: tuple[str, ...]
    roots: Mapping[str, Path]
    seed: int
    limit_per_class: int | None = None
    index_only: bool = False
    allow_partial: bool = False
    decode: bool = False
    adopt: Path | None = None
    demo: bool = False
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    without_duplicates: bool = False


def parts_of(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """The keys of what the given splits are made of: of their parts, or their own."""
    parts = benchmark.parts()
    return tuple(part for key in splits for part in parts[key])


def generators_of(benchmark: Benchmark, splits: Sequence[str]) -> dict[str, Generator]:
    """What makes the images of the given splits, by their keys; without those whose images are the source's."""
    declared = benchmark.by_key()
    generators = {key: declared[key][1].image_generator for key in splits if key in declared}
    return {key: generator for key, generator in generators.items() if generator is not None}


def with_parents(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """The keys of the given splits' parts, and of what has its images before them."""
    declared = benchmark.by_key()
    found: dict[str, None] = {}
    for part in parts_of(benchmark, splits):
        key = part
        while key:
            found[key] = None
            key = parent(declared[key][1].quota)
    return tuple(found)


def needed_partitions(benchmark: Benchmark, splits: Sequence[str]) -> dict[Source, tuple[str, ...]]:
    """Partitions by source that the given splits take, with what they are apart from."""
    declared = benchmark.by_key()
    needed: dict[str, dict[str, None]] = {}
    for key in with_parents(benchmark, splits):
        _, split = declared[key]
        needed.setdefault(split.source.key, {}).update(dict.fromkeys(split.partitions))
    return {source: tuple(needed[source.key]) for source in benchmark.sources() if source.key in needed}
