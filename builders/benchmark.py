"""What a benchmark is: a value that names configs, splits, sources, classes and quotas.

Nothing here selects, reads or writes. A new split is a new entry in a declaration; a new benchmark is a new module
that holds one `Benchmark` value.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from builders.generate.arrays import AS_PNG
from builders.generate.contract import Generator
from builders.release.columns import OODNESS, Column
from builders.release.schema import Role
from builders.sources.base import Source


@dataclass(frozen=True)
class Draw:
    """A draw of classes: the first `count` by keyed rank of the class id, of all or of each group of them.

    `key` is the `config/split` that keys the rank, so that splits which share a draw get the same classes. `rest`
    turns the draw around: its classes are those that the same draw without `rest` leaves.
    """

    count: int
    key: str
    of_each_group: bool = False
    rest: bool = False


@dataclass(frozen=True)
class Classes:
    """The classes a split draws from: those that a frozen table of `taxonomy.decisions` decides to be `decision`.

    With `draw`, some of them are drawn.
    """

    table: str
    decision: str
    draw: Draw | None = None


@dataclass(frozen=True)
class Every:
    """Every class of the source: no rule looks at them, for the reason `why`."""

    why: str


@dataclass(frozen=True)
class AllOf:
    """Every class of a source, as the classes that `label` counts."""

    source: Source


@dataclass(frozen=True)
class All:
    """Every image of the classes, in every partition named."""


@dataclass(frozen=True)
class PerClass:
    """The first `images` of each class by keyed rank.

    With `half`, never more than half of what a class has: that matters only for a source that is cut short (the demo),
    where a class must not vanish from the split that takes the rest. `apart_from` names another split (`config/split`)
    of the same classes, whose images are left to it.
    """

    images: int
    half: bool = False
    apart_from: str = ""


@dataclass(frozen=True)
class Half:
    """The first half of each class's images by keyed rank: Python's `round(n * 0.5)` of n, which rounds to even."""


@dataclass(frozen=True)
class Rest:
    """Every image of the same classes that the split `of` (`config/split`) leaves."""

    of: str


@dataclass(frozen=True)
class Total:
    """`images` in all. Partitions are used up in the order named; inside one, quotas follow the classes' sizes.

    With `half`, never more than half of what there is, for the reason that `PerClass` has; `apart_from` as there.
    """

    images: int
    half: bool = False
    apart_from: str = ""


Take = All | Half | PerClass | Rest | Total


def parent(take: Take) -> str:
    """The key of what has its images first, a split or a part of one, or an empty text where there is none."""
    if isinstance(take, Rest):
        return take.of
    return take.apart_from if isinstance(take, PerClass | Total) else ""


@dataclass(frozen=True)
class Count:
    """How many rows a split has: `rows` from complete sources, `paper` in the paper's table.

    `why` explains a difference between the two, in a few words.
    `classes` are those of the paper's table, 0 where it does not count them.
    """

    rows: int
    paper: int
    why: str = ""
    classes: int = 0


@dataclass(frozen=True)
class Oodness:
    """How far each class is from the in-distribution ones: `of` has a value for every class id of the source.

    Classes up to `known` count as in-distribution.
    """

    of: Callable[[], Mapping[str, float]]
    known: float


@dataclass(frozen=True)
class Split:
    """One split: its role, where its images come from, how many, and where the authors' own archive keeps it.

    `generator` makes the images that are stored; without it they are the source's own.

    A split that holds images of several roles or sources is joined from parts: several values of one `name`, each with
    a `part` of its own, which stand together in their config. Two of them differ in role, source or partitions, and
    none makes its images. `labelled` says whether the in-distribution rows have labels; `oodness` gives the config the
    column of that name; `ranked_as` names the `config/split` that keys the rank of the images instead of the split
    itself, so that whatever shares it prefers the same images.
    """

    name: str
    role: Role
    source: Source
    partitions: tuple[str, ...]
    classes: Classes | Every
    take: Take
    count: Count
    published: str = ""
    generator: Generator | None = None
    part: str = ""
    labelled: bool = True
    oodness: Oodness | None = None
    ranked_as: str = ""

    @property
    def making(self) -> Generator | None:
        """What makes the images, also where it only stores arrays as PNG; None where the source's bytes pass."""
        return self.generator or (AS_PNG if self.source.arrays else None)

    def row_id(self, source_id: str) -> str:
        """The id of the row that an image of the source gives."""
        return (self.making or AS_PNG).row_id(f"{self.source.key}/{source_id}")


@dataclass(frozen=True)
class Config:
    """Splits that one task needs together; `labels` are the in-distribution classes that `label` counts.

    `duplicates_of` names the split (`config/split`) whose images every split of the config is compared with, for
    near-duplicates in the release's table of duplicates. The images of both are 32 x 32.
    """

    name: str
    labels: Classes | AllOf
    description: str
    splits: tuple[Split, ...]
    duplicates_of: str = ""

    def __post_init__(self) -> None:
        columns = self.columns
        names = [column.name for column in columns]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{self.name} has two different columns {name}.")
        for column, split in itertools.product(self.generated_columns, self.splits):
            has = split.making is not None and column in split.making.columns
            if not has and column.absent is None:
                raise ValueError(
                    f"{self.name}/{split.name} lacks the column {column.name} of another split, which has no value "
                    "for absent rows. Give it one, or declare the splits in two configs."
                )

    @property
    def drawn_labels(self) -> Classes | None:
        """The in-distribution classes where they are drawn."""
        return self.labels if isinstance(self.labels, Classes) and self.labels.draw is not None else None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns beside those that every config has."""
        oodness = (OODNESS,) * any(split.oodness is not None for split in self.splits)
        return oodness + self.generated_columns

    @property
    def generated_columns(self) -> tuple[Column, ...]:
        """Columns that the generators of its splits add, in the order of the splits."""
        made = [split.making for split in self.splits]
        return tuple(dict.fromkeys(column for generator in made if generator for column in generator.columns))


@dataclass(frozen=True)
class Benchmark:
    """One published benchmark. `seed` keys every draw; `version` moves by what a reader of the rows sees.

    `roles_by_config` says that its configs judge one image differently, so that it may have another role in another
    config. `index_words` are the words by which the authors' text indexes name a source and its partition
    (`builders.adopt.text_lists`); without them an existing copy is one of folders.
    """

    name: str
    title: str
    version: str
    seed: int
    paper: str
    citation: str
    configs: tuple[Config, ...]
    roles_by_config: bool = False
    index_words: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def splits(self) -> Iterator[tuple[Config, Split]]:
        """All splits in declared order, with their config; of one that is joined, its parts."""
        for config in self.configs:
            for split in config.splits:
                yield config, split

    def by_key(self) -> Mapping[str, tuple[Config, Split]]:
        """The same by `config/split`, or `config/split.part`."""
        return {part_key(config, split): (config, split) for config, split in self.splits()}

    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """For every split as it is published, by `config/split`, the keys (as in `by_key`) of what it is made of."""
        found: dict[str, tuple[str, ...]] = {}
        for config, split in self.splits():
            key = split_key(config, split)
            found[key] = (*found.get(key, ()), part_key(config, split))
        return found

    def count(self, key: str) -> Count:
        """How many rows a split has as it is published; `key` is `config/split`."""
        counts = [self.by_key()[part][1].count for part in self.parts()[key]]
        return Count(
            rows=sum(count.rows for count in counts),
            paper=sum(count.paper for count in counts),
            why="; ".join(dict.fromkeys(count.why for count in counts if count.why)),
        )

    def sources(self) -> tuple[Source, ...]:
        """Every source that some split needs, in order of first use."""
        return tuple({split.source.key: split.source for _, split in self.splits()}.values())


def split_key(config: Config, split: Split) -> str:
    """The name of a split on the command line and in messages: `config/split`."""
    return f"{config.name}/{split.name}"


def part_key(config: Config, split: Split) -> str:
    """The name of what is planned by itself: `config/split.part` for a part, `config/split` for a whole split."""
    return split_key(config, split) + (f".{split.part}" if split.part else "")


def group_name(benchmark: Benchmark, config: str) -> str:
    """The name of the splits that a config's are compared with: its own where roles are judged by config."""
    return config if benchmark.roles_by_config else ""
