"""The command of each declared benchmark: `python -m builders.<benchmark>_benchmark`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from builders.cli.build_options import (
    BUILD_FLAGS,
    ESSENTIAL,
    build_options,
    parameter,
    parse_flags,
    setting_option,
    source_choice_options,
    variant_option,
)
from builders.cli.console import exit_code
from builders.cli.source_flags import source_options
from builders.declare.benchmark import Benchmark
from builders.errors import os_errors_as_build_errors
from builders.executors.base import without_pandas
from unknown_detection.commands import own_process
from unknown_detection.help import ESSENTIALS, helpful


def run_command(benchmark: Benchmark, argv: Sequence[str] | None) -> int:
    """Parse and run one builder's command line."""
    stopped = "stopped; run the same command again and it goes on where this run stopped."
    return exit_code(make_command(benchmark), argv, stopped=stopped)


def make_command(benchmark: Benchmark) -> click.Command:
    """Return the click command of one builder: shared flags, and one flag for each of its sources."""
    module = f"python -m builders.{benchmark.name}_benchmark"
    sources = {key: title for _, split in benchmark.by_key().values() for key, title in split.folders.items()}
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
            f"{module} --sources sources.toml --splits {next(iter(benchmark.parts()))} --dry-run",
        ),
    )
    def command(**values: Any) -> None:
        if own_process():
            without_pandas()
        from builders.commands.build import (
            run_build,  # what a build needs is imported when there is one, not for --help
        )

        with os_errors_as_build_errors("read the sources and write the release"):
            run_build(benchmark, module, parse_flags(values, sources, benchmark.variants, settings))

    for option in (
        *source_options(sources),
        *map(variant_option, benchmark.variants),
        *map(setting_option, settings),
        *build_options(benchmark.seed, list(benchmark.parts())),
        *source_choice_options(benchmark),
    ):
        command = option(command)
    return command
