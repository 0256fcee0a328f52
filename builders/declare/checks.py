"""Checks a benchmark's declaration, so that mistakes fail at import and not during a build.

Tested by `tests/builders/declare/test_benchmark.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from builders.declare.quotas import Listed, Rest
from builders.declare.splits import Classes, JoinedSplit
from taxonomy.decisions import TABLES
from taxonomy.lists import LISTS
from taxonomy.overlaps import BY_NAME, LABEL_SPACES

if TYPE_CHECKING:
    from builders.declare.benchmark import Benchmark

# What `datasets` and the Hub take.
_CONFIG_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_SPLIT_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*", re.ASCII)


def problems(benchmark: Benchmark) -> Iterator[str]:
    """Yield the mistakes in a benchmark as "<place>: <mistake>", without a full stop."""
    keys, splits = benchmark.by_key(), benchmark.parts()
    names = [config.name for config in benchmark.configs]
    for config in benchmark.configs:
        names += [f"{config.name}/{split.name}" for split in config.splits]
        joined = [split for split in config.splits if isinstance(split, JoinedSplit)]
        parts = [(f"{config.name}/{split.name}.{part.name}", part) for split in joined for part in split.parts]
        names += [key for key, _ in parts]
        if not _CONFIG_NAME.fullmatch(config.name):
            yield f"{config.name}: a config's name has lower-case letters, digits and hyphens"
        for name in [split.name for split in config.splits] + [part.name for _, part in parts]:
            if not _SPLIT_NAME.fullmatch(name):
                yield f"{config.name}: the name {name!r} of a split or part has other than a-z, digits and underscores"
        for key, part in parts:
            if part.image_generator is not None:
                yield f"{key}: a part cannot have generated images ({part.image_generator.description})"
        # By these, a published index is divided among its parts.
        alike = Counter((key.partition(".")[0], part.role, part.source.key, part.partitions) for key, part in parts)
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
    for place, chosen in (classes | {key: split.classes for key, (_, split) in keys.items()}).items():
        if not isinstance(chosen, Classes):
            continue
        if chosen.table not in TABLES:
            yield f"{place}: there is no table of decisions {chosen.table}"
        elif not chosen.ids():
            yield f"{place}: the table {chosen.table} decides no class to be {chosen.decision}"
        if chosen.draw is not None and chosen.draw.key not in splits:
            yield f"{place}: the draw of its classes is keyed by {chosen.draw.key}, which is no split"
    for key, (_, split) in keys.items():
        counts, quota, before = split.source.expected(), split.quota, [key]
        for partition in split.partitions:
            if partition not in counts:
                yield f"{key}: {split.source.title} has no partition {partition} (it has {', '.join(counts)})"
        if split.ranked_as and split.ranked_as not in splits:
            yield f"{key}: ranked_as names {split.ranked_as}, which is no split"
        if isinstance(quota, Listed) and quota.of not in LISTS:
            yield f"{key}: there is no published list {quota.of}"
        while parent := keys[before[-1]][1].quota.parent:
            if parent not in keys:
                yield f"{key}: its quota names {parent}, which is no split or part"
                break
            if parent in before:
                yield f"{key}: it is drawn after {parent}, which is drawn after it"
                break
            # `Rest` is of equal classes and partitions, any other quota of one source.
            own, first = keys[before[-1]][1], keys[parent][1]
            same_images = (own.classes, own.partitions) == (first.classes, first.partitions)
            if own.source.key != first.source.key or (isinstance(own.quota, Rest) and not same_images):
                yield f"{key}: it is drawn after {parent}, which draws from other images"
            before.append(parent)
