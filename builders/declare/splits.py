"""Declarations of configs: splits, splits joined from parts, their classes, and the paper's counts.

Tested by `tests/builders/declare/test_benchmark.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from builders.declare.quotas import DeclarationError, Originals, Quota
from builders.generate.contract import AS_PNG, OF_ARRAYS, Generator
from builders.release.schema import ID_OVERLAP, ID_OVERLAP_KIND, KNOWN_CLASS_ROLES, OODNESS, Column, Role
from builders.sources.titles import TITLES, source_of
from taxonomy import decisions

if TYPE_CHECKING:
    from builders.sources.base import Source


@dataclass(frozen=True)
class Draw:
    """A draw of classes: the first `count` by keyed rank of the class id, of all classes or of each group.

    `key` is the `config/split` that keys the rank, so that splits which share a draw get the same classes. `rest`
    inverts the draw: it selects the classes that the same draw without `rest` leaves.
    """

    count: int
    key: str
    of_each_group: bool = False
    rest: bool = False


@dataclass(frozen=True)
class Classes:
    """The classes with a `decision` in a frozen table of `taxonomy.decisions`; a `draw` takes only some of them."""

    table: str
    decision: str
    draw: Draw | None = None

    def ids(self) -> list[str]:
        """Return the sorted ids of the classes with this decision, before the draw."""
        return sorted(self._groups())

    def drawn(self, seed: int) -> list[str]:
        """Return the sorted ids of the drawn classes, or of all classes without a draw."""
        names, draw = self.ids(), self.draw
        if draw is None:
            return names
        import pyarrow as pa  # here, since `--help` reads declarations and computes nothing

        from builders.declare.ranking import Key

        groups, members = self._groups(), dict[str, list[str]]()
        for i in Key(seed, *draw.key.split("/")).order(pa.array(names)):
            members.setdefault(groups[names[i]], []).append(names[i])
        drawn = {name for group in members.values() for name in group[: draw.count]}
        return [name for name in names if (name in drawn) is not draw.rest]

    def _groups(self) -> dict[str, str]:
        """Return the group by which each class with this decision is drawn, by its id."""
        by_group = self.draw is not None and self.draw.of_each_group
        rows = decisions.load_decisions(self.table)
        return {row.class_id: row.group if by_group else "" for row in rows if row.decision == self.decision}

    def __len__(self) -> int:
        """Return the number of classes; it does not depend on the seed."""
        return len(self.drawn(0))


@dataclass(frozen=True)
class AllClasses:
    """All classes of the source, unfiltered; `why` explains why no rule applies.

    `named` is false where the source has images without classes, whose class id is no name to be compared.
    """

    why: str
    named: bool = True


@dataclass(frozen=True)
class FirstClasses:
    """The first `count` classes of the source by id; a demo's models make images of these alone."""

    count: int


@dataclass(frozen=True)
class ClassesOf:
    """All classes of a source in the owner's order, which is also that of the column `label`."""

    source: Source


ChosenClasses = AllClasses | Classes | FirstClasses


def class_sizes(source: Source, partitions: Sequence[str], classes: ChosenClasses) -> list[int]:
    """Return the number of images of each selected class in a complete source, by the owner's counts.

    If these are unknown and all classes are selected, the total counts as one class.
    """
    expected = [source.expected()[partition] for partition in partitions]
    per_class_counts = [partition.per_class for partition in expected if partition.per_class is not None]
    if len(per_class_counts) < len(expected):
        if isinstance(classes, AllClasses):
            return [sum(partition.total for partition in expected)]
        raise DeclarationError(f"{source.title} has no counts by class in {' or '.join(partitions)}.")
    if isinstance(classes, Classes):
        ids = classes.ids()
    else:
        ids = sorted(source.classes())[: classes.count if isinstance(classes, FirstClasses) else None]
    if unknown := next((name for name in ids if any(name not in per_class for per_class in per_class_counts)), None):
        raise DeclarationError(f"{source.title} has no class {unknown}.")
    sizes = [sum(per_class[name] for per_class in per_class_counts) for name in ids]
    if not isinstance(classes, Classes) or classes.draw is None:
        return sizes
    if len(set(sizes)) > 1:
        raise DeclarationError(
            f"Drawn classes of {source.title} differ in size, so the number of images depends on the seed."
        )
    return sizes[: len(classes)]


@dataclass(frozen=True)
class PaperCount:
    """A split's counts in the paper's table: its rows, and its classes (0 if the table has no number).

    `why` explains briefly why the built rows differ from the paper's, or which of the paper's numbers is meant; `{}`
    in it stands for the number of classes in `counted`.
    """

    rows: int
    why: str = ""
    classes: int = 0
    counted: Classes | None = None

    def reason(self) -> str:
        """Return `why` with the number of classes, which is only counted here: importing reads no table."""
        return self.why if self.counted is None else self.why.format(len(self.counted))


@dataclass(frozen=True)
class Oodness:
    """How far each class is from the in-distribution classes.

    `by_class` returns a value for every class id of the source. Classes up to `known` count as in-distribution.
    """

    by_class: Callable[[], Mapping[str, float]]
    known: float

    @classmethod
    def equal(cls, source: Source, value: float) -> Oodness:
        """Return the same distance for all classes of a source; a distance of 0 makes them known."""
        return cls(lambda: dict.fromkeys(source.classes(), value), 0.0)


@dataclass(frozen=True)
class AuthorsImages:
    """The authors' own list of a split's images, with which a build compares its draw.

    `listed` gives their source ids, each with its class where the list has one, or an empty text. `source_id` gives
    the id of an image by its number in the authors' file. `other_column` is another column by which `Largest` might
    have drawn, to be compared as well.
    """

    listed: Callable[[], Mapping[str, str]]
    source_id: Callable[[int], str]
    other_column: str = ""


class SourceOrKey:
    """A field that is given a source or its key in `builders.sources.titles`, and always gives the source.

    A key's module is imported when the source is first asked for, so that `--help` imports none.
    """

    def __get__(self, split: Split | None, owner: type) -> Source:
        if split is None:
            raise AttributeError("a class has no source")  # for dataclasses: the field has no default
        source: Source | str = vars(split)["source"]
        return source_of(source) if isinstance(source, str) else source

    def __set__(self, split: Split, source: Source | str) -> None:
        vars(split)["source"] = source


@dataclass(frozen=True)
class Split:
    """One split: its role, source, classes and quota, and its place in the authors' archive (`published`).

    `generator` generates the stored images; without it they are the source's own. `oodness` adds the column of that
    name to the config. `ranked_as` names the `config/split` that keys the rank of the images instead of the split
    itself, so that splits which share it prefer the same images. `authors` is the list that a draw is compared with.
    """

    name: str
    role: Role
    _: KW_ONLY
    source: SourceOrKey = SourceOrKey()
    partitions: tuple[str, ...]
    classes: ChosenClasses
    quota: Quota
    paper: PaperCount
    published: str = ""
    generator: Generator | None = None
    oodness: Oodness | None = None
    ranked_as: str = ""
    authors: AuthorsImages | None = None

    @property
    def image_generator(self) -> Generator | None:
        """The generator of the stored images, or the PNG encoder for arrays; None if the source's bytes are copied."""
        return self.generator or OF_ARRAYS.get(self.source.arrays)

    @property
    def sources(self) -> dict[Source, tuple[str, ...]]:
        """The partitions of the split's source, and if it takes another source's originals, of that one too."""
        originals = {} if self.originals is None else {self.originals.source: self.originals.partitions}
        return {self.source: self.partitions, **originals}

    @property
    def folders(self) -> dict[str, str]:
        """The titles by key of those sources that a person has in folders; a source given by key is not imported."""
        declared = vars(self)["source"]
        if isinstance(declared, str) and self.originals is None:
            return {declared: TITLES[declared]}
        return {source.key: source.title for source in self.sources if source.on_disk}

    @property
    def originals(self) -> Originals | None:
        """The quota, if it takes the originals of another source; else None."""
        return self.quota if isinstance(self.quota, Originals) else None

    @property
    def companions(self) -> Originals | None:
        """The images that the generator gets beside the source's; None if it takes no companions."""
        takes = self.generator is not None and self.generator.companions
        return self.originals if takes else None

    def class_ids(self, seed: int) -> list[str]:
        """Return the sorted ids of the classes that the split draws from by rule."""
        if isinstance(self.classes, Classes):
            return self.classes.drawn(seed)
        return sorted(self.source.classes())[: self.classes.count if isinstance(self.classes, FirstClasses) else None]

    def row_id(self, source_id: str) -> str:
        """Return the id of the row made from an image of the source."""
        return (self.generator or AS_PNG).row_id(f"{self.source.key}/{source_id}")


class Part(Split):
    """A part of a joined split, declared and planned like a split, but stored with the split's other parts."""


@dataclass(frozen=True)
class JoinedSplit:
    """A split with several roles or sources, of which each is a part; `published` names the authors' list.

    Two parts differ in role, source or partitions, and no part has generated images.
    """

    name: str
    parts: tuple[Part, ...]
    published: str = ""


@dataclass(frozen=True)
class Config:
    """Splits that are used together; the column `label` numbers the in-distribution classes `labels`.

    `duplicates_of` names the split (`config/split`) in which near-duplicates of the config's images are searched, as
    well as in the config's own in-distribution splits, for the release's table of duplicates. Larger images are scaled
    to 32 x 32 for it. `optional`: its splits are only built if they are asked for by name. `index_only`: they are
    built without pixels if nothing else is asked for. `overlaps` names the
    benchmark in `taxonomy.overlaps.LABEL_SPACES` whose known classes its unknown ones were compared with; of these,
    `labels` are known here. With `BY_NAME` they are compared by WordNet and
    name (`taxonomy.rules.own_classes`). It adds the column `id_overlap`, and with `overlap_kinds` also
    `id_overlap_kind`.
    """

    name: str
    labels: Classes | ClassesOf
    description: str
    splits: tuple[Split | JoinedSplit, ...]
    duplicates_of: str = ""
    optional: bool = False
    index_only: bool = False
    overlaps: str = ""
    overlap_kinds: bool = False

    @property
    def drawn_labels(self) -> Classes | None:
        """The in-distribution classes if they are drawn, else None."""
        return self.labels if isinstance(self.labels, Classes) and self.labels.draw is not None else None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The config's columns beyond those that every config has."""
        return self.planned_columns + self.generated_columns

    @property
    def planned_columns(self) -> tuple[Column, ...]:
        """Those of the config's columns that are known before an image is read or generated."""
        oodness = (OODNESS,) * any(split.oodness is not None for split in self.parts.values())
        return oodness + self.overlap_columns + self.source_columns

    @property
    def overlap_columns(self) -> tuple[Column, ...]:
        """The columns that say which known class a row's unknown class overlaps."""
        return (ID_OVERLAP,) * bool(self.overlaps) + (ID_OVERLAP_KIND,) * self.overlap_kinds

    @property
    def source_columns(self) -> tuple[Column, ...]:
        """The columns that the sources of the splits add, in the order of the splits."""
        return tuple(dict.fromkeys(column for split in self.parts.values() for column in split.source.columns))

    @property
    def generated_columns(self) -> tuple[Column, ...]:
        """The columns that the generators of the splits add, in the order of the splits."""
        generators = [split.image_generator for split in self.parts.values()]
        return tuple(dict.fromkeys(column for generator in generators if generator for column in generator.columns))

    @functools.cached_property
    def parts(self) -> Mapping[str, Split]:
        """Its parts in declared order: by `config/split`, those of joined splits by `config/split.part`."""
        parts: dict[str, Split] = {}
        for split in self.splits:
            key = f"{self.name}/{split.name}"
            if isinstance(split, JoinedSplit):
                parts |= {f"{key}.{part.name}": part for part in split.parts}
            else:
                parts[key] = split
        return parts

    def has_labels(self, split: Split) -> bool:
        """Whether rows of a split or part have labels: in-distribution rows, and shifted rows of labelled classes.

        Where `labels` are all classes of a source, rows of another source have labels if it has no other classes.
        Where a table chooses them, shifted rows have labels if their classes are chosen by the same table: others may
        be none that `label` counts.
        """
        if split.role not in KNOWN_CLASS_ROLES:
            return False
        if not isinstance(self.labels, ClassesOf):
            return split.role == "in_distribution" or split.classes == self.labels
        return split.source.classes().keys() <= self.labels.source.classes().keys()
