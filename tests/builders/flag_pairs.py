"""Pairs of a build's flags: which there are of each benchmark, and a few builds that together cover all of them.

A flag with a few values is a *factor*, and each value, or its absence, a *level*: the words that stand on the command
line. A build has one level of every factor. The benchmark is a factor like the others.
"""

import itertools

CHOSEN = {
    "imagenet": "imagenet/near_ood,imagenet/far_ood_food32",
    "broad": "broad-multi-label/cocomagenet_mono,broad-novel-classes/openimage_o",
    "cifar": "cifar/test,cifar/near_ood,cifar/far_ood_lsun_fix",
    "facets": "facets-t1/validation",
    "openood": "openood-imagenet200/ninco,openood-imagenet200/openimage_o",
    "folder": "folder",
}
"""Small splits of each benchmark: copied and generated ones, of one part and of several.

`covering` takes them in this order, in which 27 builds have all pairs; in others up to 30 do.
"""

OTHERS = {
    "imagenet": "imagenet/validation",
    "cifar": "cifar-train/train",
    "facets": "facets-t1/test",
    "broad": "broad-novel-classes/imagenet_o",
    "openood": "openood-imagenet200/validation",
    "folder": "folder-train",
}
"""Splits that an earlier run has built."""

DUPLICATES = "--withdraw=duplicates"
ALONE, ANY_OF_THEM, OTHER_SPLITS = "{one}", "{chosen}", "other splits"

FACTORS = {
    "pixels": ("", "--index-only", "--with-images"),
    "limit": ("", "--limit-per-class=2"),
    "withdraw": ("", "--withdraw={withdrawn}", DUPLICATES),
    "adopt": ("", "--adopt={adopted}"),
    "check": ("", "--check=decode"),
    "workers": ("--workers=1", "--workers=2"),
    "seed": ("", "--seed=7"),
    "partial": ("", "--allow-partial"),
    "splits": (ANY_OF_THEM, ALONE),
    # What an earlier run of the same choices has built in the folder: other splits, or these in another way.
    "earlier": ("", OTHER_SPLITS, "--index-only", "--with-images"),
    "sync": ("", "--no-sync"),
    "quiet": ("", "--quiet"),
    "dry": ("", "--dry-run", "--dry-run --json"),  # before the build itself
    "variant": ("", "{variant}", "{other variant}"),
}
"""The factors of all benchmarks; the first level of each is the default."""

CHOICES = ("limit", "withdraw", "adopt", "seed", "partial", "variant")
"""Factors that say which rows a release has. A folder holds those of one choice."""

VARIANTS = {
    "cifar": {"{variant}": "--published-lsun-fix"},
    "facets": {"{variant}": "--animals-unknown"},
    "broad": {"{variant}": "--openimage-o-all", "{other variant}": "--last-object-areas"},
}
"""The flags of single benchmarks that choose other images, without a folder of their own in the demo."""

SLOW_DUPLICATES = ("cifar", "facets", "broad")
"""Benchmarks whose duplicates are looked for among many images, or among those that take up to a minute to be made."""


def levels_of(benchmark, *, slow=False):
    """The levels of each factor that may be given to a benchmark."""
    levels = dict(FACTORS)
    levels["variant"] = ("", *VARIANTS.get(benchmark, ()))
    if benchmark == "folder":
        levels |= {"withdraw": ("",), "adopt": ("",)}
    elif benchmark in SLOW_DUPLICATES and not slow:
        levels["withdraw"] = FACTORS["withdraw"][:2]
    return levels


def every_pair(benchmark):
    """Two levels that are no default, of all factors of a benchmark."""
    given = [(name, level) for name, levels in levels_of(benchmark, slow=True).items() for level in levels[1:]]
    return [dict(pair) for pair in itertools.combinations(given, 2) if pair[0][0] != pair[1][0]]


def covering():
    """A few rows of one benchmark and its levels each, in which every two levels that go together stand together.

    Two levels of flags stand together for one benchmark at least, and each level for every benchmark. Greedy: a row
    begins with a pair that is missing, and takes of each other factor the level that adds most.
    """
    allowed = {benchmark: levels_of(benchmark) for benchmark in CHOSEN}
    names = ("benchmark", *FACTORS)

    def pairs(row):
        return set(itertools.combinations([(name, row[name]) for name in names if name in row], 2))

    missing = {}  # a dict keeps its order
    for benchmark, levels in allowed.items():
        for one, other in itertools.combinations(levels, 2):
            for both in itertools.product(levels[one], levels[other]):
                row = {"benchmark": benchmark, one: both[0], other: both[1]}
                missing |= dict.fromkeys(sorted(pairs(row)))
    rows = []
    while missing:
        start = dict(next(iter(missing)))
        homes = [b for b in CHOSEN if all(v in ({"benchmark": [b]} | allowed[b])[n] for n, v in start.items())]
        grow = [grown(start, home, allowed[home], missing, pairs) for home in homes]
        row = max(grow, key=lambda row: len(new(row, missing, pairs)))
        for pair in pairs(row):
            missing.pop(pair, None)
        rows.append(row)
    return rows


def new(row, missing, pairs):
    """The missing pairs that a row has."""
    return [pair for pair in pairs(row) if pair in missing]


def grown(start, benchmark, levels, missing, pairs):
    """A row of a benchmark with two levels given and the others chosen."""
    row = {"benchmark": benchmark, **start}
    for name, values in levels.items():
        if name not in row:
            row[name] = max(values, key=lambda level: len(new({**row, name: level}, missing, pairs)))
    return row
