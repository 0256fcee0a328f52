"""The flags that choose variants of a benchmark, and the reading that they ask for.

Tested by `tests/builders/test_cifar_benchmark.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from builders.cli.build_flags import BuildFlags
from builders.cli.source_flags import given_places
from builders.cli.source_places import as_place
from builders.declare.benchmark import Benchmark, Variant
from builders.errors import BuildError
from builders.hub.place import HubPlace

if TYPE_CHECKING:
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


def every_source(benchmark: Benchmark) -> dict[str, str]:
    """Titles of the sources of a benchmark and of its variants that are folders, by key."""
    found: dict[str, str] = {}
    for _, split in benchmark.splits():
        found |= split.folders
    return found | {
        variant.source.key: variant.source.title for variant in benchmark.variants if variant.source is not None
    }


def chosen_reading(benchmark: Benchmark, flags: BuildFlags) -> tuple[Benchmark, BuildFlags]:
    """Apply the flags' variants to the benchmark; returns it with the flags that include their folders.

    Raises:
        BuildError: a folder is given for an unused source.
    """
    for variant in benchmark.variants:
        flags = _with_found(variant, flags)
    for variant in benchmark.variants:
        flags = _with_folder(variant, flags)
    return benchmark.with_variants(flags.variants), flags


def _with_found(variant: Variant, flags: BuildFlags) -> BuildFlags:
    """Select the variant whose source is what the given folder holds."""
    usual, own = variant.instead_of, variant.source
    if usual is None or own is None or flags.demo or variant.name in flags.variants or own.key in flags.folders:
        return flags
    root = given_places([usual], flags).get(usual)
    if root is None or isinstance(root, HubPlace) or not _holds(own, root) or _holds(usual, root):
        return flags
    click.echo(f"{root} holds {own.title}, not {usual.title}: read as with --{variant.name}", err=True)
    return dataclasses.replace(flags, variants={**flags.variants, variant.name: str(root)})


def _holds(source: Source, root: Path) -> bool:
    """Whether a folder has a partition of a source, complete or not."""
    if not root.is_dir():
        return False
    for partition in source.expected():
        with contextlib.suppress(BuildError):
            source.scan(root, (partition,))
            return True
    return False


def _with_folder(variant: Variant, flags: BuildFlags) -> BuildFlags:
    """Take the folder of a variant's source from the variant's own flag, where it is given there."""
    if variant.source is None:
        return flags
    key, given = variant.source.key, flags.variants.get(variant.name)
    if given is None and key in flags.folders:
        raise BuildError(f"--{key} is only used with --{variant.name}. Add that, or leave --{key} out.")
    return dataclasses.replace(flags, folders={**flags.folders, key: as_place(given)}) if given else flags
