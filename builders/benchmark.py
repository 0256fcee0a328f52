"""What a benchmark is: a value that names configs, splits, sources, classes and quotas.

Nothing here selects, reads or writes. A new split is a new entry in a declaration; a new benchmark is a new module
that holds one `Benchmark` value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from builders.sources.base import Source

Role = Literal[
    "in_distribution",
    "near_ood",
    "far_ood",
    "external",
    "novel_class",
    "adversarial",
    "synthetic",
    "corruption",
    "multi_label",
]

ROLES: tuple[Role, ...] = get_args(Role)
"""Names of the `role` column's ClassLabel. The order is part of the format: append, never insert."""


@dataclass(frozen=True)
class Classes:
    """The classes a split draws from: those that a frozen table of `taxonomy.decisions` decides to be `decision`.

    With `draw`, so many of them are drawn by the keyed rank of the class id.
    """

    table: str
    decision: str
    draw: int | None = None


@dataclass(frozen=True)
class All:
    """Every image of the classes, in every partition named."""


@dataclass(frozen=True)
class PerClass:
    """The first `images` of each class by keyed rank, and never more than half of what a class has.

    The half matters only for a source that is cut short (the demo): a class must not vanish from the split that takes
    the rest.
    """

    images: int


@dataclass(frozen=True)
class Rest:
    """Every image of the same classes that the split `of` (`config/split`) leaves."""

    of: str


@dataclass(frozen=True)
class Total:
    """`images` in all. Partitions are used up in the order named; inside one, quotas follow the classes' sizes."""

    images: int


Take = All | PerClass | Rest | Total


@dataclass(frozen=True)
class Count:
    """How many rows a split has: `rows` from complete sources, `paper` in the paper's table.

    `why` explains a difference between the two, or why `rows` is not certain (`exact=False`), in a few words.
    """

    rows: int
    paper: int
    why: str = ""
    exact: bool = True


@dataclass(frozen=True)
class Split:
    """One split: its role, where its images come from, how many, and where the authors' own archive keeps it."""

    name: str
    role: Role
    source: Source
    partitions: tuple[str, ...]
    classes: Classes
    take: Take
    count: Count
    published: str = ""


@dataclass(frozen=True)
class Config:
    """Splits that one task needs together; `labels` are the in-distribution classes that `label` counts."""

    name: str
    labels: Classes
    description: str
    splits: tuple[Split, ...]


@dataclass(frozen=True)
class Benchmark:
    """One published benchmark. `seed` keys every draw; `version` moves by what a reader of the rows sees."""

    name: str
    title: str
    version: str
    seed: int
    paper: str
    citation: str
    configs: tuple[Config, ...]

    def splits(self) -> Iterator[tuple[Config, Split]]:
        """All splits in declared order, with their config."""
        for config in self.configs:
            for split in config.splits:
                yield config, split

    def by_key(self) -> Mapping[str, tuple[Config, Split]]:
        """All splits by `config/split`."""
        return {split_key(config, split): (config, split) for config, split in self.splits()}

    def sources(self) -> tuple[Source, ...]:
        """Every source that some split needs, in order of first use."""
        return tuple({split.source.key: split.source for _, split in self.splits()}.values())


def split_key(config: Config, split: Split) -> str:
    """The name of a split on the command line and in messages: `config/split`."""
    return f"{config.name}/{split.name}"
