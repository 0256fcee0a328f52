"""What a benchmark is: a value that names configs, splits, sources, classes and quotas.

Nothing here selects, reads or writes. A new split is a new entry in a declaration; a new benchmark is a new module
that holds one `Benchmark` value, which checks itself when it is made. The other types of a declaration stand in
`builders.splits` and `builders.selection`, and are imported from here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from builders.declaration_checks import problems
from builders.selection import (
    AllClasses,
    AllImages,
    Classes,
    ClassesOf,
    DeclarationError,
    Draw,
    Half,
    Largest,
    PerClass,
    Quota,
    Rest,
    Total,
    class_sizes,
    images_of,
    parent,
)
from builders.sources.base import Source
from builders.splits import AuthorsImages, Config, JoinedSplit, Oodness, PaperCount, Part, Split

__all__ = [
    "AllClasses",
    "AllImages",
    "AuthorsImages",
    "Benchmark",
    "Classes",
    "ClassesOf",
    "Config",
    "Count",
    "DeclarationError",
    "Draw",
    "Half",
    "JoinedSplit",
    "Largest",
    "Oodness",
    "PaperCount",
    "Part",
    "PerClass",
    "Quota",
    "Rest",
    "Split",
    "Total",
    "Variant",
    "parent",
    "split_of",
]


@dataclass(frozen=True)
class Count:
    """How many rows a split has: `rows` from complete sources, `paper` in the paper's table; `why` they differ."""

    rows: int
    paper: int
    why: str = ""
    classes: int = 0


@dataclass(frozen=True)
class Variant:
    """Another reading of a benchmark, which the flag `--<name>` asks for; `help` says what it does.

    `splits` are declared in place of the splits of these keys (`config/split`). The name joins the version as build
    metadata (semver.org 2.0.0, item 10), as in `1.0.0+openimage-o-all`, so that no folder mixes two readings.
    """

    name: str
    help: str
    splits: Mapping[str, Split | JoinedSplit]


@dataclass(frozen=True)
class Benchmark:
    """One published benchmark. `seed` keys every draw; `version` moves by what a reader of the rows sees.

    `roles_by_config` says that its configs judge one image differently, so that it may have another role in another
    config. `index_words` are the words by which the authors' text indexes name a source and its partition
    (`builders.adopt.text_lists`); without them an existing copy is one of folders. `variants` are other readings that
    a flag asks for.

    Raises:
        DeclarationError: a name is used twice or has another form, a key names no split, or a split draws from what
            is not there.
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
    variants: tuple[Variant, ...] = ()

    def __post_init__(self) -> None:
        for problem in problems(self.configs):
            raise DeclarationError(f"Benchmark {self.name}, {problem}.")
        for variant in self.variants:
            for key in variant.splits:
                if key not in self.parts():
                    raise DeclarationError(f"Benchmark {self.name}, variant {variant.name}: {key} is no split.")
            self._read_as([variant])

    def with_variants(self, names: Collection[str]) -> Benchmark:
        """The benchmark as some of its variants declare it; itself if none are named."""
        chosen = [variant for variant in self.variants if variant.name in names]
        return self._read_as(chosen) if chosen else self

    def _read_as(self, variants: Sequence[Variant]) -> Benchmark:
        other = {key: split for variant in variants for key, split in variant.splits.items()}
        configs = tuple(
            dataclasses.replace(
                config, splits=tuple(other.get(f"{config.name}/{split.name}", split) for split in config.splits)
            )
            for config in self.configs
        )
        version = ".".join([f"{self.version}+{variants[0].name}", *(variant.name for variant in variants[1:])])
        return dataclasses.replace(self, configs=configs, version=version, variants=())

    def splits(self) -> Iterator[tuple[Config, Split]]:
        """All splits in declared order, with their config; of one that is joined, its parts."""
        yield from self.by_key().values()

    def by_key(self) -> Mapping[str, tuple[Config, Split]]:
        """The same by `config/split`, or `config/split.part`."""
        return {key: (config, split) for config in self.configs for key, split in config.by_key().items()}

    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """For every split as it is published, by `config/split`, the keys (as in `by_key`) of what it is made of."""
        found: dict[str, tuple[str, ...]] = {}
        for key in self.by_key():
            found[split_of(key)] = (*found.get(split_of(key), ()), key)
        return found

    def published(self) -> Mapping[str, str]:
        """Where the authors' archive keeps each split, by `config/split`; splits that it does not have are missing."""
        names = {f"{config.name}/{split.name}": split.published for config in self.configs for split in config.splits}
        return {key: name for key, name in names.items() if name}

    def count(self, key: str) -> Count:
        """How many rows a split (`config/split`) or a part of one has."""
        declared = self.by_key()
        papers = [declared[part][1].paper for part in self.parts().get(key, (key,))]
        return Count(
            rows=sum(self._rows(declared, part) for part in self.parts().get(key, (key,))),
            paper=sum(paper.rows for paper in papers),
            why="; ".join(dict.fromkeys(paper.why for paper in papers if paper.why)),
            classes=sum(paper.classes for paper in papers),
        )

    def _rows(self, declared: Mapping[str, tuple[Config, Split]], key: str) -> int:
        _, split = declared[key]
        if isinstance(split.quota, Largest) or (isinstance(split.quota, Total) and not split.quota.half):
            return split.quota.images
        images = images_of(split.quota, class_sizes(split.source, split.partitions, split.classes))
        return images - self._rows(declared, split.quota.of) if isinstance(split.quota, Rest) else images

    def sources(self) -> tuple[Source, ...]:
        """Every source that some split needs, in order of first use."""
        return tuple({split.source.key: split.source for _, split in self.splits()}.values())


def split_of(key: str) -> str:
    """The `config/split` of a key that may be a part's."""
    return key.partition(".")[0]


def group_name(benchmark: Benchmark, config: str) -> str:
    """The name of the splits that a config's are compared with: its own where roles are judged by config."""
    return config if benchmark.roles_by_config else ""
