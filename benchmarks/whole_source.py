"""Build every training image of an ImageNet tree into a release: `python -m benchmarks.whole_source TREE OUT`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from builders.benchmark import All, Benchmark, Classes, Config, Count, Split
from builders.build import Choices, build, prepare
from builders.progress import TerminalMeter
from builders.sources.imagenet import IMAGENET

KNOWN = Classes("imagenet", "in_distribution")

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
            labels=KNOWN,
            description="Every class.",
            splits=tuple(
                Split(
                    name=decision,
                    role="in_distribution",
                    source=IMAGENET,
                    partitions=("train",),
                    classes=Classes("imagenet", decision),
                    take=All(),
                    count=Count(rows=0, paper=0),
                )
                for decision in ("in_distribution", "near_candidate", "external", "excluded")
            ),
        ),
    ),
)


def main() -> None:
    """Build."""
    tree, out = map(Path, sys.argv[1:])
    choices = Choices(
        out=out,
        splits=tuple(EVERYTHING.by_key()),
        roots={"imagenet": tree},
        seed=0,
        workers=os.cpu_count() or 1,
        allow_partial=True,
    )
    with TerminalMeter(quiet=True) as meter:
        build(EVERYTHING, choices, prepare(EVERYTHING, choices, meter), meter)


if __name__ == "__main__":
    main()
