"""Command-line options that several commands share.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from evaluation.errors import EvaluationError, unknown_name
from evaluation.releases import Release

Command = TypeVar("Command", bound=Callable[..., Any])

_REVISION = click.option("--revision", metavar="TAG", help="Tag, branch or commit of a release on the Hub.")


def release(*, required: bool) -> Callable[[Command], Command]:
    """--release and --revision."""
    where = click.option(
        "--release", metavar="DIR|ORG/NAME", required=required, help="Release: a folder, or a dataset on the Hub."
    )
    return lambda command: where(_REVISION(command))


def model(*, required: bool) -> Callable[[Command], Command]:
    """--model and --weights."""
    spec = click.option(
        "--model",
        metavar="MODEL",
        required=required,
        help="timm:NAME, torchvision:NAME, or FILE.py:FUNCTION, a function that returns the model.",
    )
    path = click.option(
        "--weights",
        type=click.Path(path_type=Path),
        required=required,
        help="Weights: .safetensors, or a state dict saved by torch. Nothing is downloaded.",
    )
    return lambda command: spec(path(command))


def run_options(command: Command) -> Command:
    """--device, --batch-size, --workers and --quiet."""
    for option in (
        click.option("--quiet", is_flag=True, help="No progress bars."),
        click.option(
            "--workers",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            help="Worker processes that decode images; 0 decodes in the main process. Results do not depend on it.",
        ),
        click.option(
            "--batch-size", type=click.IntRange(min=1), default=64, show_default=True, help="Images per batch."
        ),
        click.option(
            "--device",
            metavar="DEVICE",
            default="auto",
            show_default=True,
            help="Device to run on: cpu, cuda, cuda:1 and so on, or mps; auto is cuda where there is one, else cpu.",
        ),
    ):
        command = option(command)
    return command


def parse_list(text: str | None) -> tuple[str, ...] | None:
    """Parse a comma-separated list; None for None."""
    return None if text is None else tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def choose_splits(release: Release, configs: Sequence[str], wanted: Sequence[str] | None) -> list[tuple[str, str]]:
    """Select splits of some configs.

    Args:
        release: the release.
        configs: names of configs.
        wanted: splits as `config/split`, or as `split` for every one of these configs that has it; None for all.

    Returns:
        (config, split) pairs, config by config.

    Raises:
        EvaluationError: there is no such config or split.
    """
    pairs = [(config, split) for config in configs for split in release.splits(config)]
    if wanted is None:
        return pairs
    for name in wanted:
        if not any(name in (split, f"{config}/{split}") for config, split in pairs):
            raise unknown_name(f"split of {', '.join(configs)}", name, (split for _, split in pairs))
    return [(config, split) for config, split in pairs if split in wanted or f"{config}/{split}" in wanted]


def one_label_set(release: Release, configs: Sequence[str]) -> tuple[str, ...]:
    """Return the classes of some configs, which must be the same.

    Raises:
        EvaluationError: there is no such config, or their classes differ.
    """
    first = release.label_names(configs[0])
    for config in configs[1:]:
        if release.label_names(config) != first:
            raise EvaluationError(
                f"{config} and {configs[0]} have different classes, so one model cannot be run on both. Extract them "
                "separately, into different folders."
            )
    return first
