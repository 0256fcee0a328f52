"""The flags that every build has, and the values of these and of a benchmark's own.

Tested by `tests/builders/commands/test_build.py` and `tests/builders/test_cifar_benchmark.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from builders.cli.console import json_option
from builders.cli.executor_flags import EXECUTOR_FLAGS, EXECUTOR_OPTIONS, ExecutorFlags
from builders.cli.source_flags import Place, default_cache
from builders.cli.split_choice import splits_option
from builders.declare.benchmark import Settings, Variant
from builders.generate.flags import Flag
from builders.storage.paths import PathType
from unknown_detection.help import no_sync_option


@dataclass(frozen=True)
class BuildFlags:
    """Values of a build's flags. A flag that a command lacks has its default.

    `withdraw` is a CSV file's path or the word `duplicates`. `folders` are the places given by the sources' own flags,
    by source key. `variants` has the folder given with each variant's flag, by the variant's name; empty for the flag
    alone. `settings` are the values of the flags whose values make generators, given or not, by the flags' names.
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

    def given(self, settings: Settings) -> list[Flag]:
        """Return the flags of some settings that have another value than without the flag."""
        return [flag for flag in settings.flags if self.settings[flag.name] != (() if flag.multiple else flag.default)]


DUPLICATES = "duplicates"
"""The value that `--withdraw` accepts instead of a list; see `builders.pipeline.without_duplicates`."""

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
