"""The options of a build: where to, which rows, and how it is done.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from builders.cli.build_flags import BuildFlags
from builders.cli.documents import json_option
from builders.cli.executor_flags import EXECUTOR_FLAGS, ExecutorFlags, executor_options
from builders.cli.source_flags import sources_option
from builders.cli.source_places import LocalPath, cache_option
from builders.cli.split_choice import splits_option
from builders.declare.benchmark import Benchmark, Variant
from builders.generate.flags import Flag
from builders.storage.paths import PathType
from unknown_detection.help import no_sync_option

ESSENTIAL = ("demo", "out", "splits", "dry_run")
HOW = ("index_only", "allow_partial", "check", *EXECUTOR_FLAGS, "no_sync", "quiet", "as_json")
"""The options of `build_options`, in sections of the help."""


def which_rows(benchmark: Benchmark) -> list[str]:
    """The options that choose other rows than the published ones, as sections of the help have them."""
    variants = [parameter(variant.name) for variant in benchmark.variants]
    return [*variants, "adopt", "withdraw", "limit_per_class", "seed"]


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
        *executor_options(),
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


def source_choices(benchmark: Benchmark) -> list[Callable[[Any], Any]]:
    """Return the flags that choose among the images of sources, and where sources are found."""
    return [
        click.option(
            "--adopt",
            type=LocalPath(),
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
        sources_option(),
        cache_option(),
    ]


def parameter(flag: str) -> str:
    """The name that click gives the value of a flag."""
    return flag.replace("-", "_")


def parsed(
    values: Mapping[str, Any],
    sources: Iterable[str] = (),
    variants: Iterable[Variant] = (),
    settings: Iterable[Flag] = (),
) -> BuildFlags:
    """Return the flags' values as fields.

    Args:
        values: what click calls a command with.
        sources: keys of the sources for which the command has flags.
        variants: the variants for which it has some.
        settings: its flags whose values make generators.
    """
    rest = dict(values)
    places = {key: rest.pop(key) for key in sources}
    chosen = {variant.name: rest.pop(parameter(variant.name)) for variant in variants}
    return BuildFlags(
        settings={flag.name: rest.pop(parameter(flag.name)) for flag in settings},
        executor=ExecutorFlags(**{name: rest.pop(name) for name in EXECUTOR_FLAGS}, dry_run=rest["dry_run"]),
        folders={key: place for key, place in places.items() if place is not None},
        # The flag of a variant without a folder is True or False.
        variants={name: "" if text is True else text for name, text in chosen.items() if text not in (None, False)},
        **rest,
    )
