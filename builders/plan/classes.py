"""The draws of a benchmark: the classes that a split draws from, the label names of a config, the order of images.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from builders.declare.benchmark import Benchmark, Classes, ClassesOf, Config, FirstClasses, Split
from builders.declare.quotas import Rows
from builders.declare.ranking import Key, keyed_order
from taxonomy import decisions


@dataclass(frozen=True)
class Adopted:
    """The classes and images of one split, or part of one, taken from a copy of the published benchmark.

    `source_ids` is None where the copy gives classes only. `oodness` is each class's distance from the in-distribution
    classes, None where the copy does not give it.
    """

    class_ids: tuple[str, ...]
    source_ids: tuple[str, ...] | None = None
    oodness: tuple[float, ...] | None = None


def decided_classes(classes: Classes) -> list[str]:
    """Sorted ids of the classes with a given decision, before any draw."""
    return sorted(decided.class_id for decided in _decided(classes))


def class_ids(classes: Classes, *, seed: int) -> list[str]:
    """Sorted ids of the classes with a given decision, or of those that are drawn if the declaration has a draw."""
    names = decided_classes(classes)
    draw = classes.draw
    if draw is None:
        return names
    config, _, split = draw.key.partition("/")
    ranked = [names[i] for i in keyed_order(pa.array(names), seed=seed, config=config, split=split)]
    group_of = {decided.class_id: decided.group if draw.of_each_group else "" for decided in _decided(classes)}
    members: dict[str, list[str]] = {}
    for name in ranked:
        members.setdefault(group_of[name], []).append(name)
    drawn = {name for group in members.values() for name in group[: draw.count]}
    return [name for name in names if (name in drawn) is not draw.rest]


def split_classes(split: Split, *, seed: int) -> list[str]:
    """Sorted ids of the classes that a split draws from by rule."""
    if isinstance(split.classes, Classes):
        return class_ids(split.classes, seed=seed)
    every = sorted(split.source.classes())
    return every[: split.classes.count] if isinstance(split.classes, FirstClasses) else every


@dataclass(frozen=True)
class Draws:
    """The draws of a benchmark: keyed by a seed, and replaced where a copy of the published benchmark was adopted.

    `adopted` has classes and images by the keys of `Benchmark.by_key`.
    """

    benchmark: Benchmark
    seed: int
    adopted: Mapping[str, Adopted] = field(default_factory=dict)

    def classes(self, key: str) -> list[str]:
        """Ids of the classes that a split or part draws from, by rule or as adopted."""
        if key in self.adopted:
            return list(self.adopted[key].class_ids)
        return split_classes(self.benchmark.by_key()[key][1], seed=self.seed)

    def label_names(self, config: Config) -> list[str]:
        """Names of a config's `label` column, in order: the sorted ids of its in-distribution classes.

        If these are drawn, an adopted split of the same classes replaces the draw. All classes of a source keep
        the owner's order, which is that of the models' outputs.
        """
        if isinstance(config.labels, ClassesOf):
            return list(config.labels.source.classes())
        if config.labels.draw is not None and self.adopted:
            for key, (_, split) in self.benchmark.by_key().items():
                if split.classes == config.labels and key in self.adopted:
                    return sorted(self.adopted[key].class_ids)
        return class_ids(config.labels, seed=self.seed)

    def rank(self, key: str) -> Key:
        """The key by which a split (`config/split`) ranks ids."""
        config, _, split = key.partition("/")
        return Key(self.seed, config, split)

    def order(self, ids: pa.Array, key: str) -> Rows:
        """Positions of some ids by the rank that a key (`config/split`) gives them, the first ones first."""
        config, _, split = key.partition("/")
        return keyed_order(ids, seed=self.seed, config=config, split=split)


def _decided(classes: Classes) -> list[decisions.Decision]:
    return [decided for decided in decisions.load(classes.table) if decided.decision == classes.decision]
