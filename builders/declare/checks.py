"""Checks a benchmark's declaration, so that mistakes fail at import and not during a build.

Tested by `tests/builders/declare/test_benchmark.py`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from builders.declare.quotas import Largest, Listed, Rest
from builders.declare.splits import Classes, Config, JoinedSplit, Part, Split
from builders.release.schema import UNKNOWN_ROLES
from taxonomy import decisions
from taxonomy.lists import LISTS
from taxonomy.overlaps import BY_NAME, LABEL_SPACES

_CONFIG_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_SPLIT_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*", re.ASCII)


def problems(configs: Sequence[Config]) -> Iterator[str]:
    """Yield the mistakes in a benchmark's configs as "<place>: <mistake>", without a full stop."""
    for name in _repeated(config.name for config in configs):
        yield f"{name}: two configs have this name"
    for config in configs:
        yield from _wrong_names(config)
    declared = {key: split for config in configs for key, split in config.by_key().items()}
    split_keys = {f"{config.name}/{split.name}" for config in configs for split in config.splits}
    for config in configs:
        if config.duplicates_of and config.duplicates_of not in split_keys:
            yield f"{config.name}: duplicates_of names {config.duplicates_of}, which is no split"
        if isinstance(config.labels, Classes):
            yield from (f"{config.name}: {problem}" for problem in _wrong_classes(config.labels, split_keys))
        if len({split.oodness is None for split in config.by_key().values()}) > 1:
            yield f"{config.name}: some of its splits have an oodness and others none"
        yield from _wrong_columns(config)
        yield from _wrong_overlaps(config)
    for key, split in declared.items():
        yield from (f"{key}: {problem}" for problem in _wrong_split(key, split, declared, split_keys))


def _wrong_names(config: Config) -> Iterator[str]:
    """Yield names that `datasets` or a key cannot have, and names or parts that cannot be told apart."""
    if not _CONFIG_NAME.fullmatch(config.name):
        yield f"{config.name}: a config's name has lower-case letters, digits and hyphens"
    for name in _repeated(split.name for split in config.splits):
        yield f"{config.name}/{name}: two splits of the config have this name"
    for split in config.splits:
        key = f"{config.name}/{split.name}"
        parts = split.parts if isinstance(split, JoinedSplit) else ()
        for name in (split.name, *(part.name for part in parts)):
            if not _SPLIT_NAME.fullmatch(name):
                yield f"{key}: the name {name!r} of a split or part has other than lower-case letters, digits and _"
        if isinstance(split, Part) or (isinstance(split, JoinedSplit) and not parts):
            yield f"{key}: a part stands in a JoinedSplit, which has at least one"
        for name in _repeated(part.name for part in parts):
            yield f"{key}.{name}: two parts of the split have this name"
        first: dict[object, str] = {}
        for part in parts:
            other = first.setdefault((part.role, part.source.key, part.partitions), part.name)
            if other != part.name:
                yield f"{key}: its parts {other} and {part.name} do not differ in role, source or partitions"
            if part.image_generator is not None:
                yield f"{key}.{part.name}: a part cannot have generated images ({part.image_generator.description})"


def _wrong_columns(config: Config) -> Iterator[str]:
    """Yield different columns with one name, and splits that lack a column without a value for absent rows."""
    for name in _repeated(column.name for column in config.columns):
        yield f"{config.name}: two different columns have the name {name}"
    shared = config.source_columns + config.generated_columns
    for column, (key, split) in itertools.product(shared, config.by_key().items()):
        if column not in split.columns and column.absent is None:
            yield f"{key}: it lacks the column {column.name} of another split, which has no value for absent rows"


def _wrong_overlaps(config: Config) -> Iterator[str]:
    """Yield a comparison of classes that nobody made, or that the config has no use for."""
    if config.overlaps and config.overlaps not in (*LABEL_SPACES, BY_NAME):
        yield f"{config.name}: no classes were compared for {config.overlaps} (there are {', '.join(LABEL_SPACES)})"
    if config.overlaps and not any(split.role in UNKNOWN_ROLES for split in config.by_key().values()):
        yield f"{config.name}: it has no unknown class to compare with {config.overlaps}"


def _wrong_split(key: str, split: Split, declared: Mapping[str, Split], split_keys: Collection[str]) -> Iterator[str]:
    """Yield mistakes in a split or part: in its partitions and classes, and in the keys that it names."""
    counts = split.source.expected()
    for partition in split.partitions:
        if partition not in counts:
            yield f"{split.source.title} has no partition {partition} (it has {', '.join(counts)})"
    if isinstance(split.classes, Classes):
        yield from _wrong_classes(split.classes, split_keys)
    originals = split.originals
    for partition in originals.partitions if originals else ():
        if originals and partition not in originals.of.expected():
            yield f"{originals.of.title} has no partition {partition}"
    if (
        split.generator is not None
        and split.generator.companions
        and (not originals or len(originals.partitions) != 1)
    ):
        yield "its generator takes companions, so its quota is the originals of one partition"
    if split.ranked_as and split.ranked_as not in split_keys:
        yield f"ranked_as names {split.ranked_as}, which is no split"
    if isinstance(split.quota, Listed) and split.quota.of not in LISTS:
        yield f"there is no published list {split.quota.of}"
    if isinstance(split.quota, Largest):
        of_numbers = [column.name for column in split.source.columns if column.type in ("int64", "float64")]
        if split.quota.by not in of_numbers:
            names = ", ".join(of_numbers) or "none"
            yield f"{split.source.title} has no column of numbers {split.quota.by} (it has {names})"
    seen = {key}
    while parent_key := split.quota.parent:
        if parent_key not in declared:
            yield f"its quota names {parent_key}, which is no split or part"
            return
        if parent_key in seen:
            yield f"it is drawn after {parent_key}, which is drawn after it"
            return
        # `Rest` is of equal classes and partitions, any other quota of one source.
        parent, same_source = declared[parent_key], split.source.key == declared[parent_key].source.key
        same_images = (split.classes, split.partitions) == (parent.classes, parent.partitions)
        if not same_source or (isinstance(split.quota, Rest) and not same_images):
            yield f"it is drawn after {parent_key}, which draws from other images"
        seen.add(parent_key)
        split = declared[parent_key]


def _wrong_classes(classes: Classes, split_keys: Collection[str]) -> Iterator[str]:
    if classes.table not in decisions.TABLES:
        yield f"there is no table of decisions {classes.table}"
    elif not classes.candidates():
        yield f"the table {classes.table} decides no class to be {classes.decision}"
    if classes.draw is not None and classes.draw.key not in split_keys:
        yield f"the draw of its classes is keyed by {classes.draw.key}, which is no split"


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]
