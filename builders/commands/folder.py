"""`python -m builders.folder_benchmark`: builds a benchmark of a person's own folders of images.

Tested by `tests/builders/test_folder_benchmark.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import click

from builders.cli.build_options import BUILD_FLAGS, BuildRequest, build_options, parse_flags
from builders.cli.console import exit_code
from builders.cli.executor_flags import WORKER_IMPORTS
from builders.declare.benchmark import Benchmark
from builders.errors import BuildError, one_line, os_errors_as_build_errors
from builders.executors.base import without_pandas
from builders.folder_benchmark import Unknown, declare
from builders.release.entries import NEAR_DISTANCE
from builders.release.manifest import kind_of_own_config
from builders.release.schema import Role
from builders.release.values import CONFIG_NAME, LONGEST_NAME
from builders.sources.base import Stray
from builders.sources.image_folder import ALL, HIDDEN, OTHER_ENDING, FolderImages, find_images, read_images
from builders.storage.folders import takes_requests
from builders.storage.paths import PathType, as_path
from unknown_detection.commands import own_process
from unknown_detection.help import ESSENTIALS, helpful
from unknown_detection.terminal.progress import bar
from unknown_detection.words import first_few

MODULE = "python -m builders.folder_benchmark"

_ROLES: Mapping[str, tuple[Role, str]] = {
    "near": ("near_ood", "near_ood"),
    "far": ("far_ood", "far_ood"),
    "external": ("external", "external_validation"),
}
"""The role and the split's name of a folder of unknowns, by the word that gives it."""

_GIVEN = re.compile(r"(?P<kind>near|far|external)(:(?P<name>[a-z0-9]+(_[a-z0-9]+)*))?=(?P<folder>.+)", re.DOTALL)

FIRST_WORDS = frozenset({"broad", "cifar", "facets", "imagenet", "mos", "openood", "ssb"})
"""What the names of declared benchmarks and of their configs have before the first hyphen."""

_LISTED_ENDINGS = 8
"""Endings that are named of the files that are not taken for images (ours): they fit a line."""


def run_command(argv: Sequence[str] | None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(make_command(), argv, stopped="stopped; run the same command again and it goes on.")


def make_command() -> click.Command:
    """Return the click command."""
    command = helpful(
        MODULE,
        help="Build a benchmark of your own images: in-distribution classes, and folders of unknowns.",
        sections={
            ESSENTIALS: ("in_distribution", "unknown", "name", "out", "splits", "dry_run"),
            "Which rows": ("limit_per_class", "seed"),
            "How it is built": ("near_distance", "no_near_duplicates", *BUILD_FLAGS),
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
            "ones without a NAME. May be given several times.",
        ),
        click.option("--name", default="folder", show_default=True, help="Name of the config in the release."),
        click.option(
            "--near-distance",
            type=float,
            default=NEAR_DISTANCE,
            show_default=True,
            metavar="DISTANCE",
            help="List pairs of images that are no further apart as near-duplicates; 0 for equal pictures alone.",
        ),
        click.option(
            "--no-near-duplicates",
            is_flag=True,
            help="Search for equal pictures alone, as --near-distance 0 does: comparing a million images takes hours.",
        ),
        *build_options(0),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _command(
    in_distribution: Path,
    unknown: Sequence[str],
    name: str,
    near_distance: float,
    no_near_duplicates: bool,
    **values: Any,
) -> None:
    request = parse_flags(values)
    if not re.match(CONFIG_NAME, name) or name in _declared_as(name):
        raise BuildError(
            f"--name {one_line(name)} cannot name this benchmark: use lower-case letters, digits and hyphens, and "
            f"none of {', '.join(_declared())}."
        )
    if not 0 <= near_distance <= NEAR_DISTANCE:  # false for NaN, too
        raise BuildError(
            f"--near-distance {near_distance} is not between 0 and {NEAR_DISTANCE}, beyond which most pairs are of "
            "different pictures. Give a smaller one, or 0 for equal pictures alone."
        )
    if no_near_duplicates:
        near_distance = 0
    request.executor.begin(WORKER_IMPORTS)
    if own_process():
        without_pandas()
    from builders.commands.build import run_build  # imported when there is a build, not for --help

    folders = [_unknown(value) for value in unknown]
    names = [folder.split for folder in folders]
    if repeated := [split for split in names if names.count(split) > 1]:
        raise BuildError(f"--unknown gives two folders for {repeated[0]}. Name them, as in far:textures=DIR.")
    role, tuned_on = _ROLES["external"]
    if tuned_on not in names and role in (folder.role for folder in folders):
        raise BuildError(
            "--unknown names all external images, but hyperparameters are chosen on those without a name. Give such "
            "ones, too, as external=DIR."
        )
    with os_errors_as_build_errors("read the folders"):
        known = find_images(in_distribution)
        _refuse_shared([known.root, *(folder.images.root for folder in folders)])
        _note_other_files([known, *(folder.images for folder in folders)], quiet=request.quiet)
        if not request.quiet:
            count = f"{len(known.classes):,} class{'es' if len(known.classes) > 1 else ''}"
            click.echo(f"{known.root}: {count}: {first_few(known.classes)}", err=True)
            _note_nested(known)
    benchmark = declare(name, request.seed, known, folders, near_distance)
    _refuse_names(benchmark)
    roots = [known.root, *(folder.images.root for folder in folders)]
    _refuse_nested(request.out, roots)
    with os_errors_as_build_errors("read the folders and keep what was checked"):
        known, *others = _read_images(
            [known, *(folder.images for folder in folders)],
            request,
            compared=any(map(benchmark.is_searched, benchmark.splits)),
        )
    folders = [dataclasses.replace(folder, images=images) for folder, images in zip(folders, others, strict=True)]
    benchmark = declare(name, request.seed, known, folders, near_distance)
    places = {source.key: root for source, root in zip(benchmark.sources(), roots, strict=True)}
    with os_errors_as_build_errors("read the folders and write the release"):
        run_build(benchmark, MODULE, dataclasses.replace(request, folders=places))


def _declared() -> Mapping[str, Benchmark]:
    """Return all declared benchmarks, whose import takes longer than all else before the images are read."""
    from builders.registry import BENCHMARKS

    return BENCHMARKS


def _declared_as(name: str) -> Mapping[str, Benchmark]:
    """Return the declared benchmarks if one of them, or of their configs, may have a name that begins so."""
    return _declared() if name.partition("-")[0] in FIRST_WORDS else {}


def _refuse_names(benchmark: Benchmark) -> None:
    """Refuse a name with which a config would be called like another one, or that makes names too long."""
    declared = {config.name: other.name for other in _declared_as(benchmark.name).values() for config in other.configs}
    for config in benchmark.configs:
        kind = kind_of_own_config(config.name)
        if kind or config.name in declared:
            owner = f"every release has one for {kind}" if kind else f"{declared[config.name]} has one"
            raise BuildError(
                f"--name {benchmark.name} would name a config {config.name}, and {owner} of that name. Give another."
            )
    longest = max((source.key for source in benchmark.sources()), key=len)
    if len(longest) > LONGEST_NAME:
        raise BuildError(
            f"The name {longest[:40]}... of a source of the release would have {len(longest)} characters, and it may "
            f"have {LONGEST_NAME}. Give a shorter --name, or shorter names of the folders of unknowns."
        )


def _unknown(value: str) -> Unknown:
    """Read one value of `--unknown`."""
    match = _GIVEN.fullmatch(value)
    if match is None:
        raise BuildError(
            f"--unknown {one_line(value)} is not near=DIR, far=DIR or external=DIR, or one of these with a name such "
            "as far:textures=DIR (a-z, 0-9, underscores between). Write it so."
        )
    role, split = _ROLES[match["kind"]]
    name = f"{split}_{match['name']}" if match["name"] else split
    return Unknown(name, role, find_images(as_path(match["folder"]), flat=name))


def _refuse_shared(roots: Sequence[Path]) -> None:
    """Refuse folders one of which lies in another one, or is it: its images would have two roles."""
    flags = ["--in-distribution", *(["--unknown"] * (len(roots) - 1))]
    for (flag, outer), (other_flag, inner) in itertools.permutations(zip(flags, roots, strict=True), 2):
        if inner.resolve() == outer.resolve():
            raise BuildError(f"{other_flag} gives {inner}, which is {flag}, too. Give another folder.")
        if _is_inside(inner, outer):
            raise BuildError(
                f"{other_flag} gives {inner}, which lies in {outer} of {flag}, and its images would have two roles. "
                "Give folders beside one another."
            )


def _refuse_nested(out: Path, roots: Iterable[Path]) -> None:
    """Refuse a release inside a folder of images, of which it would be a class in the next run, or around one."""
    for root in roots:
        if _is_inside(out, root):
            raise BuildError(f"The release folder {out} lies in the source {root}. Give an --out outside of it.")
        if _is_inside(root, out):
            raise BuildError(f"The source {root} lies in the release folder {out}. Give an --out beside it.")


def _is_inside(path: Path, folder: Path) -> bool:
    return f"{path.resolve()}/".startswith(f"{str(folder.resolve()).rstrip('/')}/")


def _note_other_files(folders: Sequence[FolderImages], *, quiet: bool) -> None:
    """Say of each folder how many files are not taken for images, by their endings; hidden ones are no surprise.

    If `quiet`, only those are named that end as images do.
    """
    unsaid = {HIDDEN, OTHER_ENDING} if quiet else {HIDDEN}
    for folder in folders:
        others = [stray for strays in folder.strays.values() for stray in strays if stray.reason not in unsaid]
        if others:
            counted = Counter(map(_why_not_taken, others)).most_common()
            listed = first_few([f"{count:,} {kind}" for kind, count in counted], _LISTED_ENDINGS)
            files = "1 file is" if len(others) == 1 else f"{len(others):,} files are"
            click.echo(f"{folder.root}: {files} not taken for images: {listed}, such as {others[0].path}", err=True)


def _note_nested(known: FolderImages) -> None:
    """Say which classes have all their images in several folders of their own, as where those are the classes."""
    below: dict[str, set[str]] = {}
    for partition, files in known.files.items():
        for path, class_id in files:
            inner = path.split("/")[1 if partition == ALL else 2 :]
            below.setdefault(class_id, set()).add(inner[0] if len(inner) > 1 else "")
    if nested := {name: inner for name, inner in sorted(below.items()) if "" not in inner and len(inner) > 1}:
        first = next(iter(nested))
        others = f" and {len(nested) - 1:,} more" if len(nested) > 1 else ""
        listed = first_few(sorted(nested[first]))
        click.echo(
            f"{known.root}: all images of the class {first}{others} lie in folders below it ({listed}), which are no "
            "classes. If they should be, give the folder that holds them.",
            err=True,
        )


def _why_not_taken(stray: Stray) -> str:
    """Return what is said of a file that is not taken for an image: its ending, or another reason."""
    if stray.reason != OTHER_ENDING:
        return f"with {stray.reason}"
    return one_line(PurePosixPath(stray.path).suffix.lower(), 20) or "without an ending"


def _read_images(folders: Sequence[FolderImages], request: BuildRequest, *, compared: bool) -> Sequence[FolderImages]:
    """Read the images before anything is written, so that all that are not whole are refused at once.

    Shards of an earlier run are used where the folders hold what they held then. What a store has is read once only,
    so there a build names the first image that is not whole, and does not notice one that has changed. What had to
    be decoded is kept in the release folder, `compared` with others or not.
    """
    if request.dry_run or any(takes_requests(folder.root) for folder in folders):
        return folders
    from builders.pipeline.own_images import checking  # imported when there is a build, not for --help

    paths = [path for folder in folders for files in folder.files.values() for path, _ in files]
    with (
        checking(request, paths, compared=compared) as check,
        bar(len(paths), "checking", quiet=request.quiet) as shown,
    ):
        return read_images(
            folders,
            check=check,
            progress=shown.update,
            allow_partial=request.allow_partial,
            threads=request.executor.processes + 1,  # one reads while the others decode
        )
