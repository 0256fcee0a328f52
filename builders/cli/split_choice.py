"""The option `--splits`: how its values are written, checked and completed, and which splits they choose.

Tested by `tests/builders/cli/test_split_choice.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import click

from builders.errors import BuildError, one_line
from builders.release.split_names import splits_named


def splits_option(
    help: str,  # noqa: A002 - as in click
    *,
    keys: Sequence[str] = (),
) -> Callable[[Any], Any]:
    """Return the option `--splits`, whose value `chosen_splits` takes.

    Args:
        help: what is done with the splits, as the start of the option's help.
        keys: the splits that a shell offers; those of the release where a command's first argument names one.
    """

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        return offered(keys or _splits_of_release(ctx), incomplete)

    return click.option(
        "--splits",
        multiple=True,
        shell_complete=complete,
        metavar="CONFIG[/SPLIT],...",
        help=f"{help} A config stands for all its splits.",
    )


def offered(keys: Sequence[str], incomplete: str) -> list[str]:
    """Return how a shell completes the option's value: configs first, and the splits of a config once it is typed."""
    prefix, comma, last = incomplete.rpartition(",")
    configs = dict.fromkeys(key.partition("/")[0] for key in keys)
    names = [*configs, *(key for key in keys if last.startswith(f"{key.partition('/')[0]}/"))]
    return [prefix + comma + name for name in names if name.startswith(last)]


def _splits_of_release(ctx: click.Context) -> list[str]:
    """Return the splits of the release folder that a command line's first argument names; none if there is none."""
    from builders.release.manifest import read_manifest  # not for `--help`

    arguments = [str(param.name) for param in ctx.command.params if isinstance(param, click.Argument)]
    # click leaves arguments unread where the option at the end still lacks its value.
    release = next((value for value in (*(ctx.params.get(name) for name in arguments[:1]), *ctx.args) if value), "")
    try:
        return list(read_manifest(Path(str(release))).by_key())
    except BuildError:
        return []


def parse_split_names(values: Sequence[str]) -> list[str]:
    """Return the split names in the values of the option, which may be repeated."""
    names = [name.strip() for value in values for name in value.split(",")]
    if "" in names:
        raise BuildError(
            f"--splits {one_line(repr(','.join(values)))} has an empty name. Give CONFIG or CONFIG/SPLIT, with a "
            "comma between two of them, or leave --splits out."
        )
    return names


def is_selected(key: str, names: Collection[str]) -> bool:
    """Whether a split (`config/split`) or its config is among the names."""
    return key in names or key.partition("/")[0] in names


def chosen_splits(values: Sequence[str], keys: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the splits that the option chooses, in the order of `keys`; all of them without the option."""
    named = {key for name in parse_split_names(values) for key in splits_named(name, keys, where)}
    return tuple(key for key in keys if key in (named or keys))
