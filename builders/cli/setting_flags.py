"""The command-line flags whose values make generators: of attacks, and of generative models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from builders.declare.benchmark import Benchmark, Variant
from builders.errors import BuildError
from builders.generate.devices import DEVICE
from builders.generate.flags import Flag


def setting_options(benchmark: Benchmark) -> list[Callable[[Any], Any]]:
    """Return the flags of a benchmark's settings; a flag that several share, such as `--device`, is there once."""
    return [_option(flag) for flag in setting_flags(benchmark)]


def setting_flags(benchmark: Benchmark) -> list[Flag]:
    """The flags of a benchmark's settings, each once."""
    return list(dict.fromkeys(flag for settings in benchmark.settings for flag in settings.flags))


def given_values(benchmark: Benchmark, chosen: Sequence[Variant], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a benchmark's settings by the flags' names.

    Args:
        benchmark: the declaration.
        chosen: the variants that are asked for.
        flags: the parsed flags.

    Raises:
        BuildError: a flag is given for a config that a variant replaces.
    """
    values = {flag.name: flags[_parameter(flag)] for settings in benchmark.settings for flag in settings.flags}
    replaced = {config.name: variant for variant in chosen for config in variant.configs}
    for settings in benchmark.settings:
        given = [f"--{flag.name}" for flag in settings.flags if flag != DEVICE and is_given(flag, values[flag.name])]
        if given and settings.config in replaced:
            adopting = f"--{replaced[settings.config].name}"
            raise BuildError(
                f"{adopting} takes the images of {settings.config} from its folder, so {' and '.join(given)} cannot "
                f"be given with it. Leave out {adopting}, or {' and '.join(given)}."
            )
    return values


def is_given(flag: Flag, value: Any) -> bool:
    """Whether a flag's value is another than without the flag."""
    return bool(value) if flag.multiple else bool(value != flag.default)


def _parameter(flag: Flag) -> str:
    return flag.name.replace("-", "_")


def _option(flag: Flag) -> Callable[[Any], Any]:
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
