"""The flags of a build and their values: the release's folder, its rows, variants, models, and how it is built.

Tested by `tests/builders/commands/test_build.py` and `tests/builders/test_cifar_benchmark.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from builders.cli.console import json_option
from builders.cli.executor_flags import EXECUTOR_FLAGS, EXECUTOR_OPTIONS, ExecutorFlags
from builders.cli.source_flags import (
    Place,
    cache_option,
    default_cache,
    listed_places,
    parse_source_place,
    recognised_partitions,
    sources_option,
)
from builders.cli.split_choice import splits_option
from builders.declare.benchmark import Benchmark, Settings, Variant
from builders.errors import BuildError, one_line
from builders.generate.flags import DEVICE, Flag
from builders.storage.paths import LOCAL, PathType
from builders.storage.text_files import read_csv
from unknown_detection.help import no_sync_option


@dataclass(frozen=True)
class BuildFlags:
    """Values of a build's flags. A flag that a command lacks has its default.

    Attributes:
        out: the release's folder, or its address in a store.
        splits: the values of `--splits`, as `builders.cli.split_choice.parse_split_names` reads them.
        seed: keys every draw.
        check: `fast` or `decode`.
        withdraw: a CSV file's path, or the word `duplicates`.
        sources: the file that lists folders of sources.
        cache: the folder for downloads from the Hub.
        folders: the places given by the sources' own flags, by source key.
        variants: the folder given with each variant's flag, by the variant's name; empty for the flag alone.
        settings: the values of the flags whose values make generators, given or not, by the flags' names.
    """

    out: Path
    splits: tuple[str, ...] = ()
    dry_run: bool = False
    as_json: bool = False
    index_only: bool | None = None
    limit_per_class: int | None = None
    allow_partial: bool = False
    check: str = "fast"
    executor: ExecutorFlags = field(default_factory=ExecutorFlags)
    seed: int = 0
    quiet: bool = False
    adopt: Path | None = None
    withdraw: str | None = None
    demo: bool = False
    sources: Path | None = None
    cache: Path = field(default_factory=default_cache)
    folders: Mapping[str, Place] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


ESSENTIAL = ("demo", "out", "splits", "dry_run")
BUILD_FLAGS = ("index_only", "allow_partial", "check", *EXECUTOR_FLAGS, "no_sync", "quiet", "as_json")
"""The options of `build_options`, in sections of the help."""


def build_options(seed: int, splits: Sequence[str] = ()) -> list[Callable[[Any], Any]]:
    """Return the flags of every build: where to, which splits, how much of them, and how they are checked."""
    return [
        click.option(
            "--out",
            type=PathType(),
            default=Path("build/unknown-detection"),
            show_default=True,
            metavar="DIR",
            help="Release folder, or an address (s3://BUCKET/PREFIX). Several benchmarks and runs may share one.",
        ),
        splits_option("Build only these; only their sources are needed.", keys=splits),
        click.option("--dry-run", is_flag=True, help="Plan and print counts; write nothing."),
        json_option(only="--dry-run"),
        click.option(
            "--index-only/--with-images",
            default=None,
            help="Write the rows and their digests without pixels, or with pixels also where they are left out "
            "otherwise (configs of training images of OpenOOD).",
        ),
        click.option(
            "--limit-per-class",
            type=click.IntRange(min=1),
            metavar="N",
            help="Keep at most N images a class, for a quick look.",
        ),
        click.option(
            "--allow-partial",
            is_flag=True,
            help="Build from short sources and leave unreadable images out; the manifest will say so.",
        ),
        click.option(
            "--check",
            type=click.Choice(["fast", "decode"]),
            default="fast",
            show_default=True,
            help="fast: look at every image's signature and end, decode those that look cut. decode: decode all.",
        ),
        *EXECUTOR_OPTIONS,
        click.option(
            "--seed",
            type=int,
            default=seed,
            show_default=True,
            help="Keys every draw. Another seed is another benchmark.",
        ),
        no_sync_option,
        click.option("--quiet", is_flag=True, help="No progress on stderr."),
    ]


def source_choice_options(benchmark: Benchmark) -> list[Callable[[Any], Any]]:
    """Return the flags that choose among the images of sources, and where sources are found."""
    return [
        click.option(
            "--adopt",
            type=LOCAL,
            metavar="PATH",
            help="The authors' lists (a folder or one file): use exactly the images that they list."
            if benchmark.index_words
            else "A copy of the published benchmark (folder), or a CSV of split,class: use its classes and images.",
        ),
        click.option(
            "--withdraw",
            metavar="FILE|duplicates",
            help="CSV of id,reason: rows that are left out, with the reason, in a new release. The word duplicates "
            "builds a variant without pictures that the benchmark has twice.",
        ),
        click.option("--demo", is_flag=True, help="Use small synthetic sources made on the spot, to try the tools."),
        sources_option,
        cache_option,
    ]


def parameter(flag: str) -> str:
    """Return the name that click gives the value of a flag."""
    return flag.replace("-", "_")


def parse_flags(
    values: Mapping[str, Any],
    sources: Iterable[str] = (),
    variants: Iterable[Variant] = (),
    settings: Iterable[Flag] = (),
) -> BuildFlags:
    """Return the flags' values as fields."""
    remaining = dict(values)
    places = {key: remaining.pop(key) for key in sources}
    chosen = {variant.name: remaining.pop(parameter(variant.name)) for variant in variants}
    return BuildFlags(
        settings={flag.name: remaining.pop(parameter(flag.name)) for flag in settings},
        executor=ExecutorFlags(**{name: remaining.pop(name) for name in EXECUTOR_FLAGS}, dry_run=remaining["dry_run"]),
        folders={key: place for key, place in places.items() if place is not None},
        # The flag of a variant without a folder is True or False.
        variants={name: "" if text is True else text for name, text in chosen.items() if text not in (None, False)},
        **remaining,
    )


def replaced_configs(benchmark: Benchmark, flags: BuildFlags) -> dict[str, str]:
    """Return the flags of the chosen variants that take a config's images from a folder, by the config's name."""
    chosen = [variant for variant in benchmark.variants if variant.name in flags.variants]
    return {config.name: f"--{variant.name}" for variant in chosen for config in variant.configs}


def given_flags(settings: Settings, flags: BuildFlags) -> list[Flag]:
    """Return the flags of some settings that have another value than without the flag."""
    return [flag for flag in settings.flags if flags.settings[flag.name] != (() if flag.multiple else flag.default)]


def refuse_replaced(benchmark: Benchmark, flags: BuildFlags) -> None:
    """Refuse flags that make generators of a config that a chosen variant replaces."""
    for settings in benchmark.settings:
        adopting = replaced_configs(benchmark, flags).get(settings.config)
        given = " and ".join(f"--{flag.name}" for flag in given_flags(settings, flags) if flag != DEVICE)
        if adopting is not None and given:
            raise BuildError(
                f"{adopting} takes the images of {settings.config} from its folder, so {given} cannot be given with "
                f"it. Leave out {adopting}, or {given}."
            )


def setting_option(flag: Flag) -> Callable[[Any], Any]:
    """Return the option of a flag whose value makes a generator."""
    if flag.default is False:
        return click.option(f"--{flag.name}", is_flag=True, help=flag.help)
    kind: Any = click.Choice(flag.choices) if flag.choices else str if flag.default is None else type(flag.default)
    if flag.least is not None:
        kind = click.IntRange(min=flag.least)
    return click.option(
        f"--{flag.name}",
        type=kind,
        multiple=flag.multiple,
        default=flag.default,
        show_default=flag.default is not None,
        metavar=flag.metavar or None,
        help=flag.help,
    )


def variant_option(variant: Variant) -> Callable[[Any], Any]:
    """Return the option of a variant."""
    if variant.source is None:
        return click.option(f"--{variant.name}", is_flag=True, help=variant.help)
    # Its folder may be left out where the source's own flag, a sources file or --demo gives it.
    return click.option(
        f"--{variant.name}", type=str, is_flag=False, flag_value="", metavar="[DIR]", help=variant.help
    )


def apply_variants(benchmark: Benchmark, flags: BuildFlags) -> tuple[Benchmark, BuildFlags]:
    """Apply the flags' variants to the benchmark; returns it with the flags that include their folders.

    A variant is also chosen where the folder of the usual source holds the variant's source instead.
    """
    variants, folders = dict(flags.variants), dict(flags.folders)
    for variant in benchmark.variants:
        usual, other = variant.instead_of, variant.source
        if usual is not None and other is not None and not flags.demo and variant.name not in variants:
            root = listed_places(flags).get(usual.key) if other.key not in folders else None
            held = [any(recognised_partitions(s, root)) for s in (usual, other)] if isinstance(root, Path) else []
            if held == [False, True]:
                click.echo(f"{root} holds {other.title}, not {usual.title}: read as with --{variant.name}", err=True)
                variants[variant.name] = str(root)
        if other is not None and variant.name not in variants and other.key in folders:
            raise BuildError(
                f"--{other.key} is only used with --{variant.name}. Add that, or leave --{other.key} out."
            )
        if other is not None and (folder := variants.get(variant.name)):
            folders[other.key] = parse_source_place(folder)
    flags = dataclasses.replace(flags, variants=variants, folders=folders)
    return benchmark.with_variants(flags.variants), flags


DUPLICATES = "duplicates"
"""The value that `--withdraw` accepts instead of a list; see `builders.pipeline.without_duplicates`."""


def read_withdrawn(path: Path) -> dict[str, str]:
    """Read a CSV with the columns `id` and `reason`; returns the reasons by row id."""
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "no such file"
        raise BuildError(f"Cannot read {path}: {problem}. Give --withdraw a CSV of id,reason, or {DUPLICATES}.")
    reasons: dict[str, str] = {}
    for line, row in read_csv(path, ("id", "reason"), "Give a CSV in UTF-8 with these two columns."):
        if not row["id"] or not row["reason"]:
            raise BuildError(f"Line {line} of {path} lacks an id or a reason. Add it.")
        if reasons.setdefault(row["id"], row["reason"]) != row["reason"]:
            raise BuildError(f"Line {line} of {path} gives {one_line(row['id'])} a second reason. Keep one of them.")
    return reasons
