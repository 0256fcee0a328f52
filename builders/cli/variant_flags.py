"""The flags that choose variants of a benchmark, and the reading that they ask for.

Tested by `tests/builders/test_cifar_benchmark.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from builders.cli.source_flags import listed_sources
from builders.cli.source_places import as_place
from builders.declare.benchmark import Benchmark, Variant
from builders.errors import BuildError
from builders.hub.place import HubPlace
from builders.sources.base import Source


def variant_options(benchmark: Benchmark) -> list[Callable[[Any], Any]]:
    """Return a flag for each variant."""
    return [_variant_option(variant) for variant in benchmark.variants]


def _variant_option(variant: Variant) -> Callable[[Any], Any]:
    if variant.source is None:
        return click.option(f"--{variant.name}", is_flag=True, help=variant.help)
    # Its folder may be left out where the source's own flag, a sources file or --demo gives it.
    return click.option(
        f"--{variant.name}", type=str, is_flag=False, flag_value="", metavar="[DIR]", help=variant.help
    )


def every_source(benchmark: Benchmark) -> tuple[Source, ...]:
    """The sources of a benchmark and of its variants."""
    others = [variant.source for variant in benchmark.variants if variant.source is not None]
    return tuple({source.key: source for source in (*benchmark.sources(), *others)}.values())


def chosen_reading(benchmark: Benchmark, flags: dict[str, Any]) -> tuple[Benchmark, list[Variant]]:
    """The benchmark as the parsed flags ask for it, and the variants among them; their folders go into `flags`.

    Raises:
        BuildError: a folder is given for an unused source.
    """
    for variant in benchmark.variants:
        _take_found(variant, flags)
    chosen = [variant for variant in benchmark.variants if flags[_parameter(variant)] not in (None, False)]
    for variant in benchmark.variants:
        _give_folder(variant, flags)
    return benchmark.with_variants([variant.name for variant in chosen]), chosen


def _take_found(variant: Variant, flags: dict[str, Any]) -> None:
    """Choose a variant where the folder given for the source that it stands for holds its own source instead."""
    usual, own = variant.instead_of, variant.source
    if usual is None or own is None or flags["demo"] or flags[_parameter(variant)] is not None:
        return
    root = flags[usual.key] or listed_sources(flags["sources"]).get(usual.key)
    if (
        root is None
        or isinstance(root, HubPlace)
        or flags[own.key] is not None
        or not _holds(own, root)
        or _holds(usual, root)
    ):
        return
    click.echo(f"{root} holds {own.title}, not {usual.title}: read as with --{variant.name}", err=True)
    flags[_parameter(variant)] = str(root)


def _holds(source: Source, root: Path) -> bool:
    """Whether a folder has a partition of a source, complete or not."""
    if not root.is_dir():
        return False
    for partition in source.expected():
        with contextlib.suppress(BuildError):
            source.scan(root, (partition,))
            return True
    return False


def _give_folder(variant: Variant, flags: dict[str, Any]) -> None:
    """Take the folder of a variant's source from the variant's own flag, where it is given there."""
    if variant.source is None:
        return
    key, given = variant.source.key, flags[_parameter(variant)]
    if given is None and flags[key] is not None:
        raise BuildError(f"--{key} is only used with --{variant.name}. Add that, or leave --{key} out.")
    flags[key] = as_place(given) if given else flags[key]


def _parameter(variant: Variant) -> str:
    """The name of a variant's flag among the parsed ones."""
    return variant.name.replace("-", "_")
