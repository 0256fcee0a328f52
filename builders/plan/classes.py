"""The classes that a split draws from, and the label names of a config.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from builders.benchmark import AllClasses, Benchmark, Classes, ClassesOf, Config, Split
from builders.plan.ranking import keyed_order
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


def class_ids(classes: Classes, *, seed: int) -> list[str]:
    """Sorted ids of the classes with a given decision, or of those that are drawn if the declaration has a draw."""
    decided = [d for d in decisions.load(classes.table) if d.decision == classes.decision]
    names = sorted(d.class_id for d in decided)
    draw = classes.draw
    if draw is None:
        return names
    config, _, split = draw.key.partition("/")
    ranked = [names[i] for i in keyed_order(pa.array(names), seed=seed, config=config, split=split)]
    group_of = {d.class_id: d.group if draw.of_each_group else "" for d in decided}
    members: dict[str, list[str]] = {}
    for name in ranked:
        members.setdefault(group_of[name], []).append(name)
    drawn = {name for group in members.values() for name in group[: draw.count]}
    return [name for name in names if (name in drawn) is not draw.rest]


def label_names(
    benchmark: Benchmark, config: Config, *, seed: int, adopted: Mapping[str, Adopted] | None = None
) -> list[str]:
    """Names of a config's `label` column, in order: the sorted ids of its in-distribution classes.

    If the classes are drawn, an adopted split of the same classes replaces the draw. All classes of a source keep the
    owner's order, which is that of the models' outputs.
    """
    if isinstance(config.labels, ClassesOf):
        return list(config.labels.source.classes())
    if config.labels.draw is not None and adopted:
        for key, (_, split) in benchmark.by_key().items():
            if split.classes == config.labels and key in adopted:
                return sorted(adopted[key].class_ids)
    return class_ids(config.labels, seed=seed)


def split_classes(split: Split, *, seed: int) -> list[str]:
    """Sorted ids of the classes that a split draws from by rule."""
    if isinstance(split.classes, AllClasses):
        return sorted(split.source.classes())
    return class_ids(split.classes, seed=seed)
