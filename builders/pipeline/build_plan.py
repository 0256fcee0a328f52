"""A run and its plan, from either entrance.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from builders.declare.benchmark import Benchmark
from builders.declare.splits import Config
from builders.executors.base import Executor, Meter
from builders.plan.candidates import Draws
from builders.plan.planner import PlannedSplit
from builders.release.layout import Layout
from builders.sources.base import SourceIndex

if TYPE_CHECKING:
    from builders.pipeline.published import Published


@dataclass(frozen=True)
class Run:
    """One run: the benchmark, what does the work, and what the user asked for.

    `splits` are names as `config/split`, and `roots` folders of the sources by key. `index_only` says for all configs
    whether rows are written without pixels; None leaves it to each config. `withdrawn` has the reason why a row is
    left out, by its id. `without_duplicates` asks for the variant of `builders.pipeline.without_duplicates`.
    `released` is the version of the release whose rows are built; empty for the benchmark's own.
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

    `indexes` are the opened sources by key, `planned` the rows of every split that is written or of its parts, and
    `labels` the in-distribution classes by config. `adopted` has, by key of each split or part and of its parents, the
    digest of the lists that it was adopted from; empty where it was drawn. `lacking` says what the sources lack of
    each split or part. `published` is the published config whose rows these are; None where they are planned from
    sources.
    """

    run: Run
    indexes: Mapping[str, SourceIndex]
    draws: Draws
    planned: tuple[PlannedSplit, ...]
    labels: Mapping[str, Sequence[str]]
    adopted: Mapping[str, str]
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    published: Published | None = None
