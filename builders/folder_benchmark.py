"""Declares a benchmark of a person's own folders: in-distribution classes, and folders of near and far unknowns.

The papers have no part in it. Splits have the roles of the unified benchmark, so that its protocol evaluates them.

Tested by `tests/builders/test_folder_benchmark.py`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages, PerClass, Quota, Rest
from builders.declare.splits import AllClasses, ClassesOf, Config, PaperCount, Split
from builders.errors import BuildError
from builders.release.entries import NEAR_DISTANCE
from builders.release.schema import Role
from builders.sources.base import Source
from builders.sources.image_folder import ALL, FolderImages, image_folder
from taxonomy.overlaps import BY_NAME
from unknown_detection.commands import run_builder
from unknown_detection.words import first_few, quantity

VERSION = "1.0.0"

_OWN = AllClasses("the classes are those of the folder that the user gave")
_FLAT = AllClasses("the folder that the user gave has no class folders", named=False)
_split = functools.partial(Split, classes=_OWN, paper=PaperCount(0))

HELD_OUT, MOST_HELD_OUT = 5, 50
"""Where no partition is there for them, validation and test each get a fifth of the smallest class's images (ours), of
every class as many, and at most 50, which is the number of validation images a class of ImageNet-200 (table 2 of Kim,
Koo and Hwang)."""


@dataclass(frozen=True)
class Unknown:
    """A folder of unknowns: its split's name, its role, and its images."""

    split: str
    role: Role
    images: FolderImages


def declare(
    name: str, seed: int, known: FolderImages, unknown: Sequence[Unknown], near_distance: float = NEAR_DISTANCE
) -> Benchmark:
    """Declare the benchmark of some folders: the config `name`, and `<name>-train` if there are training images."""
    source = image_folder(f"{name}-in-distribution", f"In-distribution images of {name}", known)
    labels = ClassesOf(source)
    train = _training(name, source, known)
    config_splits = [
        _split(split, "in_distribution", source=source, partitions=(partition,), quota=quota)
        for split, (partition, quota) in _held_out(name, known).items()
    ]
    config_splits += [_unknown_split(name, folder) for folder in unknown]
    configs = [
        Config(
            name=name,
            labels=labels,
            description="Splits for evaluation: in-distribution images, and the unknowns that were given with them.",
            splits=tuple(config_splits),
            duplicates_of=f"{name}-train/train" if train is not None and near_distance else "",
            overlaps=BY_NAME if unknown else "",
        )
    ]
    if train is not None:
        configs.append(
            Config(
                name=f"{name}-train",
                labels=labels,
                description="In-distribution training images, kept apart so that evaluating never downloads them.",
                splits=(train,),
            )
        )
    return Benchmark(
        name=name,
        title=f"Own images: {name}",
        version=VERSION,
        seed=seed,
        paper="",
        citation="",
        configs=tuple(configs),
        near_distance=near_distance,
    )


def _unknown_split(name: str, folder: Unknown) -> Split:
    """Declare the split of a folder of unknowns, of which all images are taken, of each partition if it is divided."""
    images, words = folder.images, ["OoD" if word == "ood" else word for word in folder.split.split("_")]
    title = f"{' '.join([words[0].capitalize(), *words[1:]])} of {name}"
    partitions = tuple(images.files)
    return _split(
        folder.split,
        folder.role,
        source=image_folder(f"{name}-{folder.split.replace('_', '-')}", title, images),
        classes=_FLAT if images.flat.issuperset(partitions) else _OWN,
        partitions=partitions,
        quota=AllImages(),
    )


def _held_out(name: str, known: FolderImages) -> dict[str, tuple[str, Quota]]:
    """Return the partition and quota of `validation` and `test`; a drawn one names the split that draws before it."""
    files = known.files
    if ALL in files:
        few = PerClass(_few(known, ALL))
        return {"validation": (ALL, few), "test": (ALL, PerClass(few.images, parent=f"{name}/validation"))}
    test = "test" if "test" in files else "validation"
    if test not in files:
        raise BuildError(
            f"{known.root} has only training images. Add a folder test, or give the folder of the classes itself, of "
            "which test images are drawn."
        )
    splits_of: dict[str, tuple[str, Quota]] = {"test": (test, AllImages())}
    if "validation" in files and test != "validation":
        splits_of["validation"] = ("validation", AllImages())
    elif "train" in files:
        splits_of["validation"] = ("train", PerClass(_few(known, "train")))
    return dict(sorted(splits_of.items(), reverse=True))


def _training(name: str, source: Source, known: FolderImages) -> Split | None:
    """Declare the split of the images left for training; None if the folder is divided and has none."""
    if ALL in known.files:
        return _split("train", "in_distribution", source=source, partitions=(ALL,), quota=Rest(f"{name}/test"))
    if "train" not in known.files:
        return None
    untrained = [class_id for class_id, size in known.sizes("train").items() if not size]
    if untrained:
        raise BuildError(
            f"{known.root} has no training image of {first_few(untrained, 1)}. In-distribution classes are "
            "those that a model is trained on: add images to train, or give the folder with --unknown."
        )
    drawn = "validation" not in known.files or "test" not in known.files
    quota = Rest(f"{name}/validation") if drawn else AllImages()
    return _split("train", "in_distribution", source=source, partitions=("train",), quota=quota)


def _few(known: FolderImages, partition: str) -> int:
    """Return how many images of each class are drawn for validation, and as many for test."""
    sizes = known.sizes(partition)
    smallest = min(sizes, key=lambda class_id: (sizes[class_id], class_id))
    if sizes[smallest] < HELD_OUT:
        raise BuildError(
            f"The class {smallest} of {known.root} has {quantity(sizes[smallest], 'image')}, and at least {HELD_OUT} "
            "are needed to draw validation and test images. Add images, remove the class, or divide the folder into "
            "train, validation and test."
        )
    return min(sizes[smallest] // HELD_OUT, MOST_HELD_OUT)


main = functools.partial(run_builder, None)
"""Runs the command line; returns its exit code."""

if __name__ == "__main__":
    sys.exit(main())
