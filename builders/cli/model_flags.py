"""The flags that give a person's generative models, and the splits whose images they make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import click

from builders.benchmark import Benchmark, Model
from builders.errors import BuildError
from builders.generate.contract import Generator


def model_options(models: Collection[Model]) -> list[Callable[[Any], Any]]:
    """Return a flag `--<name>` for each model; where they compute, `setting_options` asks."""
    return [
        click.option(f"--{model.name}", _parameter(model), metavar=model.given, help=model.help) for model in models
    ]


def _parameter(model: Model) -> str:
    """The name of a model's flag among the parsed ones, where sources have their keys."""
    return f"model_{model.name.replace('-', '_')}"


def with_given_models(
    benchmark: Benchmark, splits: Sequence[str], flags: Mapping[str, Any], *, optional: bool
) -> tuple[Benchmark, tuple[str, ...]]:
    """Load the models that the chosen splits need.

    Args:
        benchmark: the declaration.
        splits: the chosen splits, as `config/split`.
        flags: the parsed flags.
        optional: leave splits out whose model is not given, and say so on stderr (unless `quiet`).

    Returns:
        The benchmark with the models' generators, and the splits that can be built.

    Raises:
        BuildError: a model is not given, or cannot be used.
    """
    generators: dict[str, Generator] = {}
    left_out: list[str] = []
    for model, keys in benchmark.models().items():
        wanted = [key for key in splits if key in keys]
        given = flags[_parameter(model)]
        if not wanted:
            continue
        if given is not None:
            generators |= dict.fromkeys(wanted, model.load(given, flags["device"]))
        elif optional:
            left_out += wanted
            if not flags["quiet"]:
                click.echo(
                    f"{', '.join(wanted)}: left out, because no --{model.name} {model.given} is given", err=True
                )
        else:
            raise BuildError(
                f"No model was given for {', '.join(wanted)}. Give --{model.name} {model.given} (--help says which), "
                "or choose other --splits."
            )
    kept = tuple(key for key in splits if key not in left_out)
    if not kept:
        raise BuildError(f"No split is left to build without models. Give {_flags(benchmark.models())}.")
    return benchmark.with_generators(generators), kept


def _flags(models: Collection[Model]) -> str:
    return " or ".join(f"--{model.name} {model.given}" for model in models)


def gpus_needed(benchmark: Benchmark, splits: Sequence[str]) -> float:
    """Return how many GPUs the splits' generators use at a time: ours, one, whatever the machine has."""
    declared = benchmark.by_key()
    generators = [declared[key][1].generator for key in splits if key in declared]
    return max((made.resources.gpus for made in generators if made is not None), default=0)
