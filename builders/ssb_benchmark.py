"""The fine-grained Semantic Shift Benchmark: CUB-200-2011 and FGVC-Aircraft with half of their classes unknown.

Vaze, Han, Vedaldi and Zisserman (2022) divided each dataset's classes into known ones and easy, medium and hard
unknown ones, and published the classes. Every split has all test images of its classes, so nothing is drawn: the seed
orders rows and chooses none. The benchmark reports medium and hard together as "Hard"; here each is a split. These two
are near and the easy ones far, as in OpenOOD's `configs/datasets/aircraft/aircraft_ood.yml` (3c35632). The authors'
third such dataset, Stanford Cars, is not built.

Tested by `tests/builders/test_ssb_benchmark.py`.
"""

from __future__ import annotations

import functools
import sys

from builders.declare import papers
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages
from builders.declare.splits import Classes, Config, PaperCount, Split
from builders.release.schema import Role
from builders.sources.base import Source
from builders.sources.datasets.cub200 import CUB200
from builders.sources.datasets.fgvc_aircraft import FGVC_AIRCRAFT
from unknown_detection.commands import run_builder

_ROLES: dict[str, Role] = {"hard": "near_ood", "medium": "near_ood", "easy": "far_ood"}


def _configs(name: str, source: Source, description: str, **rows: int) -> tuple[Config, Config]:
    """Return a dataset's config and that of its training images; `rows` are counted in the published splits."""
    known = Classes(name, "in_distribution")
    of_known = functools.partial(Split, role="in_distribution", source=source, classes=known, quota=AllImages())
    unknown = (
        Split(
            part,
            role,
            source=source,
            partitions=("test",),
            classes=Classes(name, part),
            quota=AllImages(),
            paper=PaperCount(rows[part]),
        )
        for part, role in _ROLES.items()
    )
    return (
        Config(
            name=name,
            labels=known,
            description=description,
            overlaps=name,
            splits=(of_known("test", partitions=("test",), paper=PaperCount(rows["test"])), *unknown),
        ),
        Config(
            name=f"{name}-train",
            labels=known,
            description=f"{source.title}'s training images of the known classes, kept apart so that evaluating never "
            "downloads them.",
            splits=(of_known("train", partitions=("train",), paper=PaperCount(rows["train"])),),
        ),
    )


BENCHMARK = Benchmark(
    name="ssb",
    title="Semantic Shift Benchmark, fine-grained: CUB-200-2011 and FGVC-Aircraft",
    version="1.0.0",
    seed=0,
    paper=papers.VAZE_2022,
    citation=papers.VAZE_2022_BIBTEX,
    configs=(
        *_configs(
            "ssb-cub",
            CUB200,
            "Which of 200 kinds of birds are known: 100, with unknown ones that share many of a known one's "
            "attributes (hard), some (medium) or few (easy). Images of CUB-200-2011 are in ImageNet, too, as its "
            "owners warn, so that a network trained on ImageNet may have seen test images of unknown classes.",
            test=2_884,
            hard=991,
            medium=1_004,
            easy=915,
            train=2_997,
        ),
        *_configs(
            "ssb-aircraft",
            FGVC_AIRCRAFT,
            "Which of 100 variants of aircraft are known: 50, with unknown ones of a known one's family (hard), of "
            "its maker (medium) or of neither (easy). Every image keeps the banner with its copyright at its foot, "
            "which the owners ask to remove and the benchmark's loaders leave there.",
            test=1_668,
            hard=433,
            medium=565,
            easy=667,
            train=3_332,
        ),
    ),
)

main = functools.partial(run_builder, BENCHMARK)
"""Runs the command line; returns its exit code."""

if __name__ == "__main__":
    sys.exit(main())
