"""Every pair of a build's flags: which there are of each benchmark, and a few builds that cover all pairs.

A flag with a few values is a *factor*, and each value, or its absence, a *level*: the words that stand on the command
line. A build has one level of every factor.
"""

import itertools
from collections.abc import Mapping, Sequence

from builders import (
    broad_benchmark,
    cifar_benchmark,
    facets_benchmark,
    folder_benchmark,
    imagenet_benchmark,
    openood_benchmark,
)

MODULES = {
    "imagenet": imagenet_benchmark,
    "cifar": cifar_benchmark,
    "facets": facets_benchmark,
    "broad": broad_benchmark,
    "openood": openood_benchmark,
    "folder": folder_benchmark,
}

CHOSEN = {
    "imagenet": "imagenet/near_ood,imagenet/far_ood_food32",
    "cifar": "cifar/test,cifar/near_ood,cifar/far_ood_lsun_fix",
    "facets": "facets-baseline",
    "broad": "broad-novel-classes/openimage_o,broad-multi-label",
    "openood": "openood-imagenet200/ninco,openood-imagenet200/openimage_o",
    "folder": "folder",
}
"""Small splits of each benchmark: copied and generated ones, of one part and of several."""

OTHERS = {
    "imagenet": "imagenet/validation",
    "cifar": "cifar-train/train",
    "facets": "facets-wordnet-t50/test",
    "broad": "broad-novel-classes/imagenet_o",
    "openood": "openood-imagenet200/validation",
    "folder": "folder-train",
}
"""Splits that an earlier run has built."""

# What an earlier run into the same folder has built, of the same choices: other splits, or the same in another way.
EARLIER = "earlier"
OTHER_SPLITS, SAME_WITHOUT_PIXELS, SAME_WITH_PIXELS = "other splits", "--index-only", "--with-images"

_FACTORS = {
    "pixels": ("", "--index-only", "--with-images"),
    "limit": ("", "--limit-per-class=2"),
    "withdraw": ("", "--withdraw={withdrawn}", "--withdraw=duplicates"),
    "adopt": ("", "--adopt={adopted}"),
    "check": ("", "--check=decode"),
    "workers": ("--workers=1", "--workers=2"),
    "seed": ("", "--seed=7"),
    "partial": ("", "--allow-partial"),
    "splits": ("{chosen}", "{one}"),
    EARLIER: ("", OTHER_SPLITS, SAME_WITHOUT_PIXELS, SAME_WITH_PIXELS),
    "sync": ("", "--no-sync"),
    "quiet": ("", "--quiet"),
    "dry": ("", "--dry-run", "--dry-run --json"),
}

_VARIANTS = {
    "cifar": ("", "--published-lsun-fix"),
    "facets": ("", "--animals-unknown"),
    "broad": ("", "--openimage-o-all", "--last-object-areas"),
}

CHOICES = ("limit", "withdraw", "adopt", "seed", "partial", "variant")
"""Factors that say which rows a release has. A folder holds those of one choice."""


def factors_of(benchmark: str) -> dict[str, tuple[str, ...]]:
    """The factors of a benchmark's command, each with its levels; the first of them is the default."""
    if benchmark == "folder":
        return {name: levels for name, levels in _FACTORS.items() if name not in ("withdraw", "adopt")}
    return {**_FACTORS, "variant": _VARIANTS.get(benchmark, ("",))}


Row = Mapping[str, str]


def pairs_of(factors: Mapping[str, Sequence[str]]) -> list[Row]:
    """Every two levels of different factors that are not both the default."""
    levels = [(name, level) for name, values in factors.items() for level in values[1:]]
    return [dict(pair) for pair in itertools.combinations(levels, 2) if pair[0][0] != pair[1][0]]


def covering(factors: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """A few rows with a level of every factor, in which every two levels of different factors stand together.

    Greedy: each row begins with a pair that no row has yet, and takes of every other factor the level that adds most.
    """
    names = list(factors)
    missing = {
        (one, a, other, b)
        for one, other in itertools.combinations(names, 2)
        for a in factors[one]
        for b in factors[other]
    }

    def new(row, name, level):
        beside = [(other, value) for other, value in row.items() if other != name]
        return sum(
            (other, value, name, level) in missing or (name, level, other, value) in missing for other, value in beside
        )

    rows = []
    while missing:
        one, a, other, b = min(
            missing, key=lambda pair: (names.index(pair[0]), names.index(pair[2]), pair[1], pair[3])
        )
        row = {one: a, other: b}
        for name in names:
            if name not in row:
                row[name] = max(factors[name], key=lambda level: new(row, name, level))
        missing -= {(x, row[x], y, row[y]) for x, y in itertools.combinations(names, 2)}
        rows.append({name: row[name] for name in names})
    return rows
