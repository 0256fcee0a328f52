"""BROAD's originals: the clean images of every comparison, of which the shifted ones are made.

A split of images that are generated from them is declared as `originals(name, role, generator=..., paper=...)` in a
config of its own, and has the same images in the same order.

Tested by `tests/builders/test_broad_benchmark.py`.
"""

from __future__ import annotations

import functools

from builders.declare.benchmark import AllClasses, ClassesOf, PerClass, Split
from builders.sources.imagenet import IMAGENET

LABELS = ClassesOf(IMAGENET)
ALL_KNOWN = AllClasses("the benchmark's in-distribution classes are all 1,000 (section 2)")

# Neither the paper nor its repository says which 5,000 they are; 5 a class is ours.
originals = functools.partial(
    Split,
    source=IMAGENET,
    partitions=("val",),
    classes=ALL_KNOWN,
    quota=PerClass(5, half=True),
    ranked_as="broad-reference/test",
)
