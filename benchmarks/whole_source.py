"""Build every training image of an ImageNet tree into one split: `python -m benchmarks.whole_source TREE OUT`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from builders.benchmark import All, Benchmark, Classes, Config, Count, Split
from builders.build import Choices, Prepared, build
from builders.execute import Workers
from builders.plan import Adopted, plan
from builders.process import without_pandas
from builders.progress import TerminalMeter
from builders.sources.base import open_source
from builders.sources.imagenet import IMAGENET

EXTERNAL = Classes("imagenet", "external")
SPLIT = "everything/train"

EVERYTHING = Benchmark(
    name="everything",
    title="All of ImageNet's training images",
    version="1.0.0",
    seed=0,
    paper="",
    citation="",
    configs=(
        Config(
            name="everything",
            labels=EXTERNAL,
            description="Every class.",
            splits=(
                Split(
                    name="train",
                    role="external",
                    source=IMAGENET,
                    partitions=("train",),
                    classes=EXTERNAL,
                    take=All(),
                    count=Count(rows=0, paper=0),
                ),
            ),
        ),
    ),
)


def main() -> None:
    """Build."""
    tree, out = map(Path, sys.argv[1:])
    choices = Choices(out=out, splits=(SPLIT,), roots={"imagenet": tree}, seed=0, allow_partial=True)
    with TerminalMeter(quiet=True) as meter, Workers(os.cpu_count() or 1) as workers:
        indexes = {"imagenet": open_source(IMAGENET, tree, ("train",))}
        # No decision has all 1,000 classes, so they are adopted.
        adopted = {SPLIT: Adopted(tuple(sorted(IMAGENET.classes())))}
        planned = plan(EVERYTHING, indexes, seed=0, splits=[SPLIT], adopted=adopted)
        build(EVERYTHING, choices, Prepared(indexes, {}, adopted, tuple(planned)), meter, workers)


if __name__ == "__main__":
    without_pandas()
    main()
