"""Declares the flags that every build has, and the request that they make together with a benchmark's own flags.

Tested by `tests/builders/commands/test_build.py` and `tests/builders/test_cifar_benchmark.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from builders.cli.console import json_option
from builders.cli.executor_flags import EXECUTOR_FLAGS, EXECUTOR_OPTIONS, ExecutorFlags
from builders.cli.split_choice import splits_option
from builders.declare.benchmark import Settings, Variant
from builders.declare.splits import Config
from builders.errors import BuildError, one_line
from builders.generate.flags import Flag
from builders.hub.place import HubPlace
from builders.release.layout import Layout
from builders.storage.paths import PathType
from unknown_detection.help import no_sync_option

ESSENTIAL = ("demo", "out", "splits", "dry_run")
BUILD_FLAGS = ("index_only", "allow_partial", "check", *EXECUTOR_FLAGS, "no_sync", "quiet", "as_json")
"""The options of `build_options`, in sections of the help."""

Place = Path | HubPlace
"""A folder of this machine or in a store, or a place on the Hub."""

DUPLICATES = "duplicates"
"""The value that `--withdraw` accepts instead of a list; see `builders.pipeline.without_duplicates`."""


def default_cache() -> Path:
    """Return the folder for downloads from the Hub, in the user's cache folder (XDG Base Directory Specification)."""
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(cache_home) if Path(cache_home).is_absolute() else Path.home() / ".cache"
    return home / "unknown-detection"


@dataclass(frozen=True)
class BuildRequest:
    """What a build is asked for. A command without some flag has that flag's default here.

    `splits` are names of configs and splits, and `config/split` alone once they are chosen. `index_only` says for all
    configs whether rows are written without pixels; None leaves it to each config. `withdraw` is a CSV file's path or
    the word `duplicates`, and `withdrawn` has the reasons of that file, by row id. `folders` are the places given by
    the sources' own flags, by source key. `variants` has the folder given with each variant's flag, by the variant's
    name; empty for the flag alone. `settings` are the values of the flags whose values make generators, given or not,
    by the flags' names.
    """

    out: Path
    splits: tuple[str, ...] = ()
    seed: int = 0
    dry_run: bool = False
    as_json: bool = False
    index_only: bool | None = None
    limit_per_class: int | None = None
    allow_partial: bool = False
    decode: bool = False
    executor: ExecutorFlags = field(default_factory=ExecutorFlags)
    quiet: bool = False
    adopt: Path | None = None
    withdraw: str | None = None
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    demo: bool = False
    sources: Path | None = None
    cache: Path = field(default_factory=default_cache)
    folders: Mapping[str, Place] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def without_duplicates(self) -> bool:
        """Whether `--withdraw duplicates` was given (`builders.pipeline.without_duplicates`)."""
        return self.withdraw == DUPLICATES

    @property
    def layout(self) -> Layout:
        """The paths of files in the release folder that is written."""
        return Layout(self.out)

    def has_pixels(self, config: Config) -> bool:
        """Whether a config's rows are written with pixels."""
        return not (config.index_only if self.index_only is None else self.index_only)

    def given(self, settings: Settings) -> list[Flag]:
        """Return those flags of some settings whose value differs from the default."""
        return [flag for flag in settings.flags if self.settings[flag.name] != (() if flag.multiple else flag.default)]


def build_options(seed: int, splits: Sequence[str] = ()) -> list[Callable[[Any], Any]]:
    """Return the flags of every build: where it writes, which splits, how much of them, and which checks it makes."""
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
    """Return the name of the parameter in which click passes the value of a flag."""
    return flag.replace("-", "_")


def parse_flags(
    values: Mapping[str, Any],
    sources: Iterable[str] = (),
    variants: Iterable[Variant] = (),
    settings: Iterable[Flag] = (),
) -> BuildRequest:
    """Return the request that the values of the flags make."""
    if not -(2**63) <= (seed := values.get("seed", 0)) < 2**63:  # `builders.release.values.Seed`
        raise BuildError(
            f"--seed {one_line(seed, 40)} has more than the 64 bits that a release has for it. Give one "
            "between -2**63 and 2**63 - 1."
        )
    remaining = dict(values)
    places = {key: remaining.pop(key) for key in sources}
    chosen = {variant.name: remaining.pop(parameter(variant.name)) for variant in variants}
    return BuildRequest(
        decode=remaining.pop("check", "fast") == "decode",
        settings={flag.name: remaining.pop(parameter(flag.name)) for flag in settings},
        executor=ExecutorFlags(**{name: remaining.pop(name) for name in EXECUTOR_FLAGS}, dry_run=remaining["dry_run"]),
        folders={key: place for key, place in places.items() if place is not None},
        # The flag of a variant without a folder is True or False.
        variants={name: "" if text is True else text for name, text in chosen.items() if text not in (None, False)},
        **remaining,
    )
