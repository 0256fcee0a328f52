"""Declares the flags that every build has, and parses them together with a benchmark's own flags.

Tested by `tests/builders/commands/test_build.py` and `tests/builders/test_cifar_benchmark.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from builders.cli.console import json_option
from builders.cli.executor_flags import EXECUTOR_FLAGS, EXECUTOR_OPTIONS, ExecutorFlags
from builders.cli.request import BuildRequest
from builders.cli.split_choice import splits_option
from builders.declare.benchmark import Variant
from builders.errors import BuildError, one_line
from builders.generate.flags import Flag
from builders.storage.paths import PathType
from unknown_detection.help import no_sync_option

ESSENTIAL = ("demo", "out", "splits", "dry_run")
BUILD_FLAGS = ("index_only", "allow_partial", "check", *EXECUTOR_FLAGS, "no_sync", "quiet", "as_json")
"""The options of `build_options`, in sections of the help."""


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
