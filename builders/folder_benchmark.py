"""A benchmark from a person's own folders of images: in-distribution classes, and folders of near and far unknowns.

The papers have no part in it. Splits have the roles of the unified benchmark, so that its protocol evaluates them.

Tested by `tests/builders/test_folder_benchmark.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from builders.cli.source_places import default_cache
from builders.declare.benchmark import (
    AllClasses,
    AllImages,
    Benchmark,
    ClassesOf,
    Config,
    PaperCount,
    PerClass,
    Quota,
    Rest,
    Split,
)
from builders.errors import BuildError, more, one_line, os_errors_as_build_errors
from builders.executors.processes import without_pandas
from builders.release.schema import Role
from builders.sources.base import Source
from builders.sources.image_folder import ALL, Images, find_images, image_folder, refuse_unreadable
from builders.storage.paths import PathType, as_path, store_of
from taxonomy.overlaps import BY_NAME
from unknown_detection.help import ESSENTIALS, helpful
from unknown_detection.terminal.progress import bar

VERSION = "1.0.0"

MODULE = "python -m builders.folder_benchmark"

_ROLES: Mapping[str, tuple[Role, str]] = {
    "near": ("near_ood", "near_ood"),
    "far": ("far_ood", "far_ood"),
    "external": ("external", "external_validation"),
}
"""The role and the split's name of a folder of unknowns, by the word that gives it."""

_GIVEN = re.compile(r"(?P<kind>near|far|external)(:(?P<name>[a-z0-9]+(_[a-z0-9]+)*))?=(?P<folder>.+)", re.DOTALL)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

_OWN = AllClasses("the classes are those of the folder that the user gave")

HELD_OUT, MOST_HELD_OUT = 5, 50
"""Where no partition is there for them, validation and test each get a fifth of the smallest class's images (ours), of
every class as many, and at most 50, which is the number of validation images a class of ImageNet-200 (table 2 of Kim,
Koo and Hwang)."""


@dataclass(frozen=True)
class Unknown:
    """A folder of unknowns: its split's name, its role, and its images."""

    split: str
    role: Role
    images: Images


def declare(name: str, seed: int, known: Images, unknown: Sequence[Unknown]) -> Benchmark:
    """Declare the benchmark of some folders.

    Args:
        name: name of the config; the training images have the config `<name>-train`.
        seed: keys the draws of validation and test images.
        known: the in-distribution images.
        unknown: the folders of unknowns.

    Raises:
        BuildError: a class has too few images to be divided, or is only in a partition that nothing is trained on.
    """
    source = image_folder(f"{name}-in-distribution", f"In-distribution images of {name}", known)
    labels = ClassesOf(source)
    train = _training(name, source, known)
    config_splits = [
        _split(split, "in_distribution", source, partition, quota)
        for split, (partition, quota) in _held_out(name, known).items()
    ]
    config_splits += [
        _split(
            folder.split,
            folder.role,
            image_folder(f"{name}-{folder.split.replace('_', '-')}", f"{_title(folder)} of {name}", folder.images),
            ALL if ALL in folder.images.files else next(iter(folder.images.files)),
            AllImages(),
        )
        for folder in unknown
    ]
    configs = [
        Config(
            name=name,
            labels=labels,
            description="Splits for evaluation: in-distribution images, and the unknowns that were given with them.",
            splits=tuple(config_splits),
            duplicates_of=f"{name}-train/train" if train is not None else "",
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
        paper="No paper: folders of images that somebody chose.",
        citation="",
        configs=tuple(configs),
    )


def _split(name: str, role: Role, source: Source, partition: str, quota: Quota) -> Split:
    return Split(
        name=name,
        role=role,
        source=source,
        partitions=(partition,),
        classes=_OWN,
        quota=quota,
        paper=PaperCount(0),
    )


def _title(folder: Unknown) -> str:
    return folder.split.replace("_", " ").capitalize().replace("ood", "OoD")


def _held_out(name: str, known: Images) -> dict[str, tuple[str, Quota]]:
    """Partition and quota of the splits `validation` and `test`; a drawn one names the split that draws before it."""
    there = known.files
    if ALL in there:
        few = PerClass(_few(known, ALL))
        return {"validation": (ALL, few), "test": (ALL, PerClass(few.images, apart_from=f"{name}/validation"))}
    test = "test" if "test" in there else "validation"
    if test not in there:
        raise BuildError(
            f"{known.root} has only training images. Add a folder test, or give the folder of the classes itself, of "
            "which test images are drawn."
        )
    found: dict[str, tuple[str, Quota]] = {"test": (test, AllImages())}
    if "validation" in there and test != "validation":
        found["validation"] = ("validation", AllImages())
    elif "train" in there:
        found["validation"] = ("train", PerClass(_few(known, "train")))
    return dict(sorted(found.items(), reverse=True))


def _training(name: str, source: Source, known: Images) -> Split | None:
    """The split of the images that are left for training; None if the folder is divided and has none."""
    if ALL in known.files:
        return _split("train", "in_distribution", source, ALL, Rest(f"{name}/test"))
    if "train" not in known.files:
        return None
    untrained = [class_id for class_id, size in known.sizes("train").items() if not size]
    if untrained:
        raise BuildError(
            f"{known.root} has no training image of {untrained[0]}{more(untrained, 1)}. In-distribution classes are "
            "those that a model is trained on: add images to train, or give the folder with --unknown."
        )
    drawn = "validation" not in known.files or "test" not in known.files
    return _split("train", "in_distribution", source, "train", Rest(f"{name}/validation") if drawn else AllImages())


def _few(known: Images, partition: str) -> int:
    """How many images of each class are drawn for validation, and as many for test."""
    sizes = known.sizes(partition)
    smallest = min(sizes, key=lambda class_id: (sizes[class_id], class_id))
    if sizes[smallest] < HELD_OUT:
        raise BuildError(
            f"The class {smallest} of {known.root} has {sizes[smallest]} images, and at least {HELD_OUT} are needed "
            "to draw validation and test images. Add images, remove the class, or divide the folder into train, "
            "validation and test."
        )
    return min(sizes[smallest] // HELD_OUT, MOST_HELD_OUT)


def _unknown(given: str) -> Unknown:
    """Read one value of `--unknown`."""
    found = _GIVEN.fullmatch(given)
    if found is None:
        raise BuildError(
            f"--unknown {one_line(given)} is not near=DIR, far=DIR or external=DIR, or one of these with a name such "
            "as far:textures=DIR (a-z, 0-9, underscores between). Write it so."
        )
    role, split = _ROLES[found["kind"]]
    name = f"{split}_{found['name']}" if found["name"] else split
    return Unknown(name, role, find_images(as_path(found["folder"]), flat=name))


def _check_images(folders: Sequence[Images], flags: Mapping[str, Any]) -> None:
    """Refuse images that are not whole, all at once and before anything is written, so that the command goes on later.

    What a store has is read once only, so there a build names the first.
    """
    if flags["dry_run"] or flags["allow_partial"] or any(not store_of(found.root).is_local for found in folders):
        return
    images = sum(len(files) for found in folders for files in found.files.values())
    with bar(images, "checking", quiet=flags["quiet"]) as shown:
        refuse_unreadable(folders, decode=flags["check"] == "decode", progress=shown.update)


def _command(**flags: Any) -> None:
    from builders.commands.build import build
    from builders.registry import BENCHMARKS

    name: str = flags["name"]
    if not _NAME.fullmatch(name) or name in BENCHMARKS:
        raise BuildError(
            f"--name {one_line(name)} cannot name this benchmark: use lower-case letters, digits and hyphens, and "
            f"none of {', '.join(BENCHMARKS)}."
        )
    unknown = [_unknown(given) for given in flags["unknown"]]
    names = [folder.split for folder in unknown]
    if twice := [split for split in names if names.count(split) > 1]:
        raise BuildError(f"--unknown gives two folders for {twice[0]}. Name them, as in far:textures=DIR.")
    with os_errors_as_build_errors("read the folders"):
        known = find_images(flags["in_distribution"])
        _check_images([known, *(folder.images for folder in unknown)], flags)
    benchmark = declare(name, flags["seed"], known, unknown)
    roots = [known.root, *(folder.images.root for folder in unknown)]
    folders = {source.key: root for source, root in zip(benchmark.sources(), roots, strict=True)}
    nothing = {"sources": None, "adopt": None, "withdraw": None, "demo": False, "cache": default_cache()}
    with os_errors_as_build_errors("read the folders and write the release"):
        build(benchmark, MODULE, {**flags, **nothing, **folders})


def make_command() -> click.Command:
    """The click command."""
    from builders.cli.build_options import HOW, build_options

    command = helpful(
        MODULE,
        help="Build a benchmark of your own images: in-distribution classes, and folders of unknowns.",
        sections={
            ESSENTIALS: ("in_distribution", "unknown", "name", "out", "splits", "dry_run"),
            "Which rows": ("limit_per_class", "seed"),
            "How it is built": HOW,
        },
        examples=(f"{MODULE} --in-distribution birds --unknown near=other-birds --unknown far=textures",),
    )(_command)
    options = [
        click.option(
            "--in-distribution",
            type=PathType(),
            required=True,
            metavar="DIR",
            help="Class folders, or train, validation and test with class folders in each. What has no folder of "
            "its own is drawn.",
        ),
        click.option(
            "--unknown",
            multiple=True,
            required=True,
            metavar="near|far|external[:NAME]=DIR",
            help="A folder of unknown images, with class folders or without. Hyperparameters are chosen on external "
            "ones. May be given several times.",
        ),
        click.option("--name", default="folder", show_default=True, help="Name of the config in the release."),
        *build_options(0),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    from builders.cli.runner import exit_code

    return exit_code(make_command(), argv, stopped="stopped; run the same command again and it goes on.")


if __name__ == "__main__":
    without_pandas()
    sys.exit(main())
