"""The command-line flags whose values make generators: of attacks, and of generative models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from builders.cli.build_flags import BuildFlags
from builders.declare.benchmark import Benchmark
from builders.errors import BuildError
from builders.generate.devices import DEVICE
from builders.generate.flags import Flag


def setting_options(benchmark: Benchmark) -> list[Callable[[Any], Any]]:
    """Return the flags of a benchmark's settings; a flag that several share, such as `--device`, is there once."""
    return [_option(flag) for flag in setting_flags(benchmark)]


def setting_flags(benchmark: Benchmark) -> list[Flag]:
    """The flags of a benchmark's settings, each once."""
    return list(dict.fromkeys(flag for settings in benchmark.settings for flag in settings.flags))


def replaced_configs(benchmark: Benchmark, flags: BuildFlags) -> dict[str, str]:
    """The flag of the chosen variant that takes a config's images from its own folder, by the config's name."""
    chosen = [variant for variant in benchmark.variants if variant.name in flags.variants]
    return {config.name: f"--{variant.name}" for variant in chosen for config in variant.configs}


def refuse_replaced(benchmark: Benchmark, flags: BuildFlags) -> None:
    """Refuse flags that make generators of a config that a chosen variant replaces.

    Raises:
        BuildError: there is such a flag.
    """
    for config, adopting in replaced_configs(benchmark, flags).items():
        own = [flag for settings in benchmark.settings if settings.config == config for flag in settings.flags]
        given = [f"--{flag.name}" for flag in own if flag != DEVICE and is_given(flag, flags.settings[flag.name])]
        if given:
            raise BuildError(
                f"{adopting} takes the images of {config} from its folder, so {' and '.join(given)} cannot be given "
                f"with it. Leave out {adopting}, or {' and '.join(given)}."
            )


def is_given(flag: Flag, value: Any) -> bool:
    """Whether a flag's value is another than without the flag."""
    return bool(value) if flag.multiple else bool(value != flag.default)


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
