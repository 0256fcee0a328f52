"""The command of each declared benchmark: `python -m builders.<benchmark>_benchmark`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from builders.cli.build_options import BUILD_FLAGS, ESSENTIAL, build_options, parameter, parse_flags
from builders.cli.console import exit_code
from builders.cli.source_flags import cache_option, source_options, sources_option
from builders.declare.benchmark import Benchmark, Variant
from builders.errors import os_errors_as_build_errors
from builders.executors.base import without_pandas
from builders.generate.flags import Flag
from builders.storage.paths import LOCAL
from unknown_detection.commands import own_process
from unknown_detection.help import ESSENTIALS, helpful


def run_command(benchmark: Benchmark, argv: Sequence[str] | None) -> int:
    """Parse and run one builder's command line."""
    stopped = "stopped; run the same command again and it goes on where this run stopped."
    return exit_code(make_command(benchmark), argv, stopped=stopped)


def make_command(benchmark: Benchmark) -> click.Command:
    """Return the click command of one builder: shared flags, and one flag for each of its sources."""
    module = f"python -m builders.{benchmark.name}_benchmark"
    sources = {key: title for split in benchmark.parts.values() for key, title in split.folders.items()}
    for variant in benchmark.variants:
        if variant.source is not None:
            sources[variant.source.key] = variant.source.title
    settings = list(dict.fromkeys(flag for settings in benchmark.settings for flag in settings.flags))
    variants = [parameter(variant.name) for variant in benchmark.variants]

    @helpful(
        module,
        help=f"Build a release of {benchmark.title}, from your own copies of its source datasets.",
        sections={
            ESSENTIALS: ESSENTIAL,
            "Sources (run without any to see where to get each, and its layouts)": [*sources, "sources"],
            "Which rows": [*variants, "adopt", "withdraw", "limit_per_class", "seed"],
            "Models that make images": [parameter(flag.name) for flag in settings],
            "How it is built": BUILD_FLAGS,
        },
        examples=(
            f"{module} --demo --out build/unknown-detection",
            f"{module} --sources sources.toml --splits {next(iter(benchmark.splits))} --dry-run",
        ),
    )
    def command(**values: Any) -> None:
        if own_process():
            without_pandas()
        from builders.commands.build import run_build  # imported when there is a build, not for --help

        with os_errors_as_build_errors("read the sources and write the release"):
            run_build(benchmark, module, parse_flags(values, sources, benchmark.variants, settings))

    for option in (
        *source_options(sources),
        *map(_variant_option, benchmark.variants),
        *map(_setting_option, settings),
        *build_options(benchmark.seed, list(benchmark.splits)),
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
    ):
        command = option(command)
    return command


def _setting_option(flag: Flag) -> Callable[[Any], Any]:
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


def _variant_option(variant: Variant) -> Callable[[Any], Any]:
    if variant.source is None:
        return click.option(f"--{variant.name}", is_flag=True, help=variant.help)
    # Its folder may be left out where the source's own flag, a sources file or --demo gives it.
    return click.option(
        f"--{variant.name}", type=str, is_flag=False, flag_value="", metavar="[DIR]", help=variant.help
    )
