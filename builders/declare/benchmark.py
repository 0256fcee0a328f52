"""Declarations of benchmarks: configs, splits, sources, classes and quotas as values.

Nothing here selects, reads or writes. A new split is a new entry in a declaration; a new benchmark is a new module
with one `Benchmark` value, which a build checks before it begins.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builders.declare.quotas import DeclarationError, Listed, Rest
from builders.declare.splits import Classes, Config, FirstClasses, JoinedSplit, Split, class_sizes
from builders.generate.contract import Generator
from builders.generate.flags import Flag
from builders.release.entries import NEAR_DISTANCE
from builders.release.values import CONFIG_NAME, PATTERNS, SPLIT_NAME
from taxonomy import lists

if TYPE_CHECKING:
    from builders.sources.base import Source


@dataclass(frozen=True)
class Count:
    """How many rows a split should have: `rows` from complete sources, `paper` in the paper, `why` these differ."""

    rows: int
    paper: int
    why: str = ""
    classes: int = 0


@dataclass(frozen=True)
class Variant:
    """A variant of a benchmark, which the flag `--<name>` chooses; `help` says what it changes.

    `splits` are declared in place of the splits of these keys (`config/split`). The name joins the version as build
    metadata (semver.org 2.0.0, item 10), as in `1.0.0+openimage-o-all`, so that no folder mixes two readings.
    `configs` are only in this reading, and take the place of those with their names. With a `source` that only this
    reading needs, the flag takes its folder. `instead_of` is a source whose images this one's stand for: where the
    folder given for it holds only this variant's source, the variant is chosen without its flag.
    """

    name: str
    help: str
    splits: Mapping[str, Split | JoinedSplit]
    configs: tuple[Config, ...] = ()
    source: Source | None = None
    instead_of: Source | None = None


@dataclass(frozen=True)
class DemoModels:
    """Models with random weights, which `--demo` uses in place of models that flags give.

    `flags` are the names of those flags. `splits` are what the models make, with generators that take the same
    packages. `write` writes the models of some of these splits, given by name, into a folder, and returns the values
    of the flags that give them. Images are made of `classes` alone.
    """

    flags: tuple[str, ...]
    splits: Sequence[Split]
    write: Callable[[Path, Collection[str]], Mapping[str, Any]]
    classes: FirstClasses

    @property
    def planned(self) -> dict[str, Split]:
        """The splits by name as a dry run plans them, before their models are written."""
        return {
            split.name: dataclasses.replace(
                split,
                classes=self.classes,
                generator=split.generator and dataclasses.replace(split.generator, needs=""),
            )
            for split in self.splits
        }


@dataclass(frozen=True)
class Settings:
    """Flags whose values add generated splits to a config.

    `splits` returns the splits that some values (by the flags' names) ask for, by name: each stands for the config's
    split of that name, or is one more of its splits. `demo` has what a demo uses instead of a person's models.
    """

    config: str
    flags: tuple[Flag, ...]
    splits: Callable[[Mapping[str, Any]], Mapping[str, Split]]
    demo: DemoModels | None = None


@dataclass(frozen=True)
class Benchmark:
    """One published benchmark. `seed` keys every draw; `version` changes with the rows that a reader sees.

    `roles_by_config`: an image may have different roles in different configs. `index_words`: the words by which the
    authors' text lists name a source and its partition (`builders.adopt.lists`); empty if an existing copy
    consists of folders. `variants`: other readings that a flag asks for. `settings`: flags that make generators.
    `near_distance`: the greatest distance of near-duplicates that the release lists.
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
    settings: tuple[Settings, ...] = ()
    near_distance: float = NEAR_DISTANCE

    def check(self, splits: Collection[str] = ()) -> None:
        """Raise a `DeclarationError` for the first mistake in the declaration.

        Of the sources of some splits (`config/split`) alone, if these are given: a build looks at no others.
        """
        for problem in _problems(self, self.parts_of(splits) or tuple(self.parts)):
            raise DeclarationError(f"Benchmark {self.name}, {problem}.")

    def with_variants(self, names: Collection[str]) -> Benchmark:
        """Return the benchmark as the named variants declare it."""
        chosen = [variant for variant in self.variants if variant.name in names]
        if not chosen:
            return self
        replaced = {key: split for variant in chosen for key, split in variant.splits.items()}
        configs = {
            config.name: dataclasses.replace(
                config, splits=tuple(replaced.get(f"{config.name}/{split.name}", split) for split in config.splits)
            )
            for config in self.configs
        }
        configs |= {config.name: config for variant in chosen for config in variant.configs}
        version = f"{self.version}+{'.'.join(variant.name for variant in chosen)}"
        return dataclasses.replace(self, configs=tuple(configs.values()), version=version, variants=())

    def with_settings(self, values: Mapping[str, Any], configs: Collection[str] = ()) -> Benchmark:
        """Return the benchmark with the generated splits that the flags' values ask for.

        `configs` are the names of the configs whose flags count; empty for all.
        """
        return self.with_splits(
            {
                settings.config: settings.splits(values)
                for settings in self.settings
                if not configs or settings.config in configs
            }
        )

    def with_splits(self, added: Mapping[str, Mapping[str, Split]]) -> Benchmark:
        """Return the benchmark with splits added or replaced; `added` has them by config and name."""
        if not any(added.values()):
            return self
        configs = []
        for config in self.configs:
            splits = {split.name: split for split in config.splits} | dict(added.get(config.name, {}))
            configs.append(dataclasses.replace(config, splits=tuple(splits.values())))
        return dataclasses.replace(self, configs=tuple(configs))

    def needing(self, needs: Mapping[str, str]) -> Benchmark:
        """Return the benchmark with some splits marked as not yet generable; `needs` has what each lacks, by key."""
        added: dict[str, dict[str, Split]] = {}
        for key, need in needs.items():
            config, split = self.config_of(key), self.parts[key]
            generator = split.generator and dataclasses.replace(split.generator, needs=need)
            added.setdefault(config.name, {})[split.name] = dataclasses.replace(split, generator=generator)
        return self.with_splits(added)

    def needs(self, key: str) -> str:
        """Return which flags a split (`config/split`) still needs to be generated; empty if none."""
        return next((generator.needs for generator in self.generators([key]).values() if generator.needs), "")

    def ready(self) -> tuple[str, ...]:
        """Return the keys of the splits (`config/split`) that can be built without further flags."""
        return tuple(key for key in self.splits if not self.needs(key))

    @functools.cached_property
    def parts(self) -> Mapping[str, Split]:
        """All parts in declared order: by `config/split`, those of joined splits by `config/split.part`."""
        return {key: split for config in self.configs for key, split in config.parts.items()}

    @functools.cached_property
    def splits(self) -> Mapping[str, tuple[str, ...]]:
        """The keys of the parts of each split, by `config/split` in declared order."""
        splits: dict[str, tuple[str, ...]] = {}
        for key in self.parts:
            splits[split_of(key)] = (*splits.get(split_of(key), ()), key)
        return splits

    def config_of(self, key: str) -> Config:
        """Return the config of a split or part."""
        return next(config for config in self.configs if config.name == key.partition("/")[0])

    def parts_of(self, splits: Iterable[str]) -> tuple[str, ...]:
        """Return the keys of the parts of some splits (`config/split`)."""
        return tuple(part for key in splits for part in self.splits[key])

    def generators(self, splits: Iterable[str]) -> dict[str, Generator]:
        """Return the generators of some splits (`config/split`) by key; splits of a source's own images have none."""
        generators = {key: self.parts[key].image_generator for key in splits if key in self.parts}
        return {key: generator for key, generator in generators.items() if generator is not None}

    def uninstalled(self, splits: Iterable[str]) -> dict[str, Generator]:
        """Return those generators of some splits (`config/split`), by key, of which a package is not installed."""
        return {key: generator for key, generator in self.generators(splits).items() if not generator.is_installed}

    def usual(self) -> tuple[str, ...]:
        """Return the splits (`config/split`) that are built if none are named: all but those of optional configs."""
        optional = {config.name for config in self.configs if config.optional}
        return tuple(key for key in self.splits if key.partition("/")[0] not in optional)

    def published(self) -> Mapping[str, str]:
        """Return where the authors' archive has each split, by `config/split`, without splits that it lacks."""
        names = {f"{config.name}/{split.name}": split.published for config in self.configs for split in config.splits}
        return {key: name for key, name in names.items() if name}

    def count(self, key: str) -> Count:
        """Count the rows of a split (`config/split`) or of a part of one."""
        parts, rows = self.splits.get(key, (key,)), 0
        papers = [self.parts[part].paper for part in parts]
        for part in parts:
            split = self.parts[part]
            rows += split.quota.expected(functools.partial(class_sizes, split.source, split.partitions, split.classes))
            if isinstance(split.quota, Rest):
                rows -= sum(self.count(first).rows for first in self.drawn_before(part))
        return Count(
            rows=rows,
            paper=sum(paper.rows for paper in papers),
            why="; ".join(dict.fromkeys(filter(None, (paper.reason() for paper in papers)))),
            classes=sum(paper.classes for paper in papers),
        )

    def drawn_before(self, key: str) -> tuple[str, ...]:
        """Return the keys of the splits or parts that draw from the same images before this one, the nearest first."""
        parents = []
        while key := self.parts[key].quota.parent:
            parents.append(key)
        return tuple(parents)

    def sources(self) -> tuple[Source, ...]:
        """Return all sources that the splits need, in the order of their first use."""
        sources = [source for split in self.parts.values() for source in split.sources]
        return tuple({source.key: source for source in sources}.values())

    def partitions(self, parts: Iterable[str]) -> dict[Source, tuple[str, ...]]:
        """Return the partitions of each source that some splits need, also for the splits that draw before them."""
        needed: dict[Source, dict[str, None]] = {}
        for key in (key for part in parts for key in (part, *self.drawn_before(part))):
            for source, partitions in self.parts[key].sources.items():
                needed.setdefault(source, {}).update(dict.fromkeys(partitions))
        return {source: tuple(partitions) for source, partitions in needed.items()}

    def group(self, config: str) -> str:
        """Name the group of splits whose duplicates are compared; empty for all of them.

        If roles differ by config it is the config, or the one that searches its duplicates in this one's images.
        """
        if not self.roles_by_config:
            return ""
        return next((of.name for of in self.configs if of.duplicates_of.startswith(f"{config}/")), config)

    def is_searched(self, key: str) -> bool:
        """Whether near-duplicates are searched among a split's images (`config/split`), or in them for others."""
        return any(
            config.duplicates_of and (key == config.duplicates_of or key.startswith(f"{config.name}/"))
            for config in self.configs
        )

    def compared_with(self, splits: Sequence[str]) -> tuple[str, ...]:
        """Return the given splits and the splits that they are compared with, as `config/split` in declared order.

        These are all that a build without named splits has, whether this run builds them or not.
        """
        groups = {self.group(key.partition("/")[0]) for key in splits}
        built = {*splits, *(set(self.usual()) & set(self.ready()))}
        return tuple(key for key in self.splits if key in built and self.group(key.partition("/")[0]) in groups)


def split_of(key: str) -> str:
    """Return the `config/split` of a key, which may be that of a part."""
    return key.partition(".")[0]


def _problems(benchmark: Benchmark, asked: Sequence[str]) -> Iterator[str]:
    """Yield the mistakes in a benchmark as "<place>: <mistake>", without a full stop; `asked` are parts' keys."""
    from taxonomy.decisions import TABLES  # here, since `--help` of a benchmark checks nothing
    from taxonomy.overlaps import BY_NAME, LABEL_SPACES

    parts, splits = benchmark.parts, benchmark.splits
    names = [config.name for config in benchmark.configs]
    for config in benchmark.configs:
        names += [f"{config.name}/{split.name}" for split in config.splits]
        joined = [split for split in config.splits if isinstance(split, JoinedSplit)]
        of_joined = [(f"{config.name}/{split.name}.{part.name}", part) for split in joined for part in split.parts]
        names += [key for key, _ in of_joined]
        if not re.match(CONFIG_NAME, config.name):
            yield f"{config.name}: a config's name has lower-case letters, digits and hyphens"
        for name in [split.name for split in config.splits] + [part.name for _, part in of_joined]:
            if not re.match(SPLIT_NAME, name):
                yield f"{config.name}: the name {name!r} of a split or part is not {PATTERNS[SPLIT_NAME]}"
        for key, part in of_joined:
            if part.image_generator is not None:
                yield f"{key}: a part cannot have generated images ({part.image_generator.description})"
        # By these, a published index is divided among its parts.
        alike = Counter(
            (key.partition(".")[0], part.role, part.source.key, part.partitions) for key, part in of_joined
        )
        for (key, *_), times in alike.items():
            if times > 1:
                yield f"{key}: two of its parts have one role, source and partitions"
        if config.duplicates_of and config.duplicates_of not in splits:
            yield f"{config.name}: duplicates_of names {config.duplicates_of}, which is no split"
        if config.overlaps and config.overlaps not in (*LABEL_SPACES, BY_NAME):
            compared = ", ".join(LABEL_SPACES)
            yield f"{config.name}: no classes were compared for {config.overlaps} (there are {compared})"
    yield from (f"{name}: this name is given twice" for name, times in Counter(names).items() if times > 1)
    for variant in benchmark.variants:
        for key, split in variant.splits.items():
            if key not in splits or split.name != key.partition("/")[2]:
                yield f"variant {variant.name}: {split.name} cannot stand for {key}"
    classes = {config.name: config.labels for config in benchmark.configs}
    for place, chosen in (classes | {key: split.classes for key, split in parts.items()}).items():
        if not isinstance(chosen, Classes):
            continue
        if chosen.table not in TABLES:
            yield f"{place}: there is no table of decisions {chosen.table}"
        elif not chosen.ids():
            yield f"{place}: the table {chosen.table} decides no class to be {chosen.decision}"
        if chosen.draw is not None and chosen.draw.key not in splits:
            yield f"{place}: the draw of its classes is keyed by {chosen.draw.key}, which is no split"
    yield from _problems_of_draws(parts, splits, asked)


def _problems_of_draws(parts: Mapping[str, Split], splits: Collection[str], asked: Sequence[str]) -> Iterator[str]:
    """Yield the mistakes in what the parts that are asked for take of their sources; all are given by key."""
    for key, split in ((key, parts[key]) for key in asked):
        counts, quota, before = split.source.expected(), split.quota, [key]
        for partition in split.partitions:
            if partition not in counts:
                yield f"{key}: {split.source.title} has no partition {partition} (it has {', '.join(counts)})"
        if split.ranked_as and split.ranked_as not in splits:
            yield f"{key}: ranked_as names {split.ranked_as}, which is no split"
        if isinstance(quota, Listed) and quota.list_name not in lists.LISTS:
            yield f"{key}: there is no published list {quota.list_name}"
        while parent := parts[before[-1]].quota.parent:
            if parent not in parts:
                yield f"{key}: its quota names {parent}, which is no split or part"
                break
            if parent in before:
                yield f"{key}: it is drawn after {parent}, which is drawn after it"
                break
            # `Rest` is of equal classes and partitions, any other quota of one source.
            own, first = parts[before[-1]], parts[parent]
            same_images = (own.classes, own.partitions) == (first.classes, first.partitions)
            if own.source.key != first.source.key or (isinstance(own.quota, Rest) and not same_images):
                yield f"{key}: it is drawn after {parent}, which draws from other images"
            before.append(parent)
