"""Applies an adopted set to the splits that share its draw of classes or take the rest of its images.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from builders.declare.benchmark import Benchmark, Classes, Config, Rest, Split
from builders.errors import BuildError, more
from builders.plan.classes import Adopted, decided_classes, split_classes


def sharing_draws(benchmark: Benchmark, splits: Sequence[str]) -> list[str]:
    """Keys of all splits that share the draw of classes which gives the given splits their labels."""
    declared = benchmark.by_key()
    drawn = [labels for key in splits if (labels := declared[key][0].drawn_labels) is not None]
    draws = {labels.draw.key for labels in drawn if labels.draw is not None}
    return [key for key, (_, split) in declared.items() if _draw_key(split) in draws]


def _draw_key(split: Split) -> str:
    draw = split.classes.draw if isinstance(split.classes, Classes) else None
    return draw.key if draw is not None else ""


def follow_draws(benchmark: Benchmark, wanted: Sequence[str], copy: Path, found: dict[str, Adopted]) -> None:
    """Apply the copy's choice of in-distribution classes to all splits that share the draw."""
    declared = benchmark.by_key()
    for labels in dict.fromkeys(config.drawn_labels for config in benchmark.configs):
        if labels is None:
            continue
        sharing = [key for key in wanted if labels.draw is not None and _draw_key(declared[key][1]) == labels.draw.key]
        known = {key: set(found[key].class_ids) for key in sharing if key in found and _draws_labels(declared, key)}
        others = {key: set(found[key].class_ids) for key in sharing if key in found and key not in known}
        if not known and not others:
            continue
        everything = set(decided_classes(labels))
        chosen = next(iter(known.values())) if known else everything - next(iter(others.values()))
        for key, classes in {**known, **others}.items():
            odd = classes ^ chosen if key in known else classes & chosen
            if odd:
                first = next(iter(known or others))
                same = key in known or not known
                rule, place = ("have the same classes", "in only one") if same else ("share no class", "in both")
                raise BuildError(
                    f"{declared[first][1].published} and {declared[key][1].published} of {copy} must {rule}, but "
                    f"{sorted(odd)[0]}{more(sorted(odd), 1)} is {place} of them. Complete the copy."
                )
        for key in sharing:
            if key not in found:
                side = chosen if _draws_labels(declared, key) else everything - chosen
                found[key] = Adopted(tuple(sorted(side)))


def _draws_labels(declared: Mapping[str, tuple[Config, Split]], key: str) -> bool:
    config, split = declared[key]
    return split.classes == config.labels


def follow_rests(
    benchmark: Benchmark, wanted: Sequence[str], splits: Sequence[str], found: dict[str, Adopted], seed: int
) -> None:
    """Keep a split disjoint from the split whose rest it takes, whichever of the two the copy has."""
    declared = benchmark.by_key()
    for key in wanted:
        _, split = declared[key]
        if not isinstance(split.quota, Rest):
            continue
        first, here = found.get(split.quota.of), found.get(key)
        if first is None and here is not None and here.source_ids is not None and split.quota.of in splits:
            published = declared[split.quota.of][1].published
            raise BuildError(
                f"The adopted copy has {split.published} but not {published}, and {split.quota.of} drawn by rule "
                f"would share images with it. Add {published} to the copy, or build other splits with --splits."
            )
        # The rest has the same classes. If the copy's are the rule's, the rule explains what is left out.
        if first is not None and here is None and list(first.class_ids) != split_classes(split, seed=seed):
            found[key] = Adopted(first.class_ids)
