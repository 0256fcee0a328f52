"""Command-line options that several commands share.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from builders.cli import executor_flags
from unknown_detection.evaluation.files import load_python
from unknown_detection.help import no_sync_option
from unknown_detection.terminal.progress import Log, log, result

Command = TypeVar("Command", bound=Callable[..., Any])

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)

Decorator = Callable[[Command], Command]


def _combined(*options: Decorator[Any]) -> Decorator[Any]:
    """Return a decorator that adds several options, in this order."""
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def listed(*names: str, **attributes: Any) -> Decorator[Any]:
    """An option with a comma-separated list, or None; repeated, it adds up."""
    return click.option(
        *names, multiple=True, callback=lambda context, option, texts: ",".join(texts) if texts else None, **attributes
    )


def splits(text: str) -> Decorator[Any]:
    """--splits."""
    return listed("--splits", metavar="CONFIG[/SPLIT],...", help=text)


def release(*, required: bool) -> Decorator[Any]:
    """--release and --revision."""
    return _combined(
        click.option(
            "--release", metavar="DIR|ORG/NAME", required=required, help="Release: a folder, or a dataset on the Hub."
        ),
        click.option("--revision", metavar="TAG", help="Tag, branch or commit of a release on the Hub."),
    )


def model(*, required: bool) -> Decorator[Any]:
    """--model, --weights, --pretrained, --classes and --accept."""
    return _combined(
        click.option(
            "--model",
            metavar="MODEL",
            required=required,
            help="timm:NAME, torchvision:NAME, transformers:ORG/NAME[@COMMIT], open_clip:ORG/NAME[@COMMIT], or "
            "FILE.py:FUNCTION, a function that returns the model.",
        ),
        click.option(
            "--weights",
            type=FILE,
            help="Weights: .safetensors, or a state dict saved by torch; none for a function that loads them.",
        ),
        click.option(
            "--pretrained",
            metavar="[TAG]",
            is_flag=False,
            flag_value="",
            help="Download the weights that a library publishes under the model's name: of timm and torchvision all "
            "others of the same architecture by their tag, such as --pretrained=IMAGENET1K_V2.",
        ),
        click.option(
            "--classes",
            type=FILE,
            help="CSV file with the columns class,index: the logit of each class of the release, for a model of more "
            "classes. Not needed for ImageNet's, where the release names its classes by wnids, or by transformers' "
            "labels. For a model with text the columns class,name: what prompts say in place of the classes' names.",
        ),
        click.option(
            "--accept",
            is_flag=True,
            help="Go on where the accuracy on known test images differs from the published one by over one point and "
            "1.96 standard errors of so many images. Features and the report's warnings say so.",
        ),
    )


def _settings(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> Any:
    from unknown_detection.evaluation.detectors.choice import parse_settings

    return parse_settings(texts)


def _metrics(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list[Any]:
    named = [name for name in ",".join(texts).split(",") if name]
    return [load_python(name, "metric")[0] if ".py:" in name else name for name in named]


features = _combined(
    click.option("--features", type=FOLDER, required=True, help="Folder written by `extract`."),
    click.option(
        "--member",
        "members",
        type=FOLDER,
        multiple=True,
        help="Features of another model of the same release, for ensembles; may be repeated.",
    ),
)
"""--features and --member."""

detectors = _combined(
    listed(
        "--detectors",
        metavar="NAMES",
        help="Comma-separated built-in detectors, or all. Default: all; none with --detector.",
    ),
    click.option(
        "--detector",
        "own",
        metavar="FILE.py:NAME",
        multiple=True,
        help="A detector of your own: a class or a function in a Python file; may be repeated.",
    ),
    listed(
        "--fit-splits",
        "fit_configs",
        metavar="CONFIG,...",
        help="Configs to fit on, needed for several configs that have other rows each. Default: CONFIG-train if it "
        "was extracted, else half of validation.",
    ),
    click.option(
        "--no-search",
        "search",
        is_flag=True,
        callback=lambda context, option, given: not given,
        help="Use the default hyperparameters, without a search on validation rows.",
    ),
    click.option(
        "--set",
        "settings",
        metavar="DETECTOR.NAME=VALUE[,VALUE...]",
        multiple=True,
        callback=_settings,
        help="Set a hyperparameter, or the values to search among, the default first; may be repeated. See below.",
    ),
    click.option(
        "--at-known",
        metavar="SHARE",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Share of known rows, such as 0.95, that each detector's threshold keeps: scores then have a column "
        "decision, and thresholds stand beside them. They are conformal, on held-out known rows of validation.",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed."),
)
"""--detectors, --detector, --fit-splits, --no-search, --set, --at-known and --seed."""

texts = _combined(
    click.option(
        "--prompt",
        "prompts",
        metavar="TEXT",
        multiple=True,
        help="Of a model with text: what the name of a class is put into at {}, in place of the model's own, such as "
        "'a photo of a {}.'; repeated, a class's embedding is the mean.",
    ),
    click.option(
        "--negatives",
        is_flag=True,
        help="Of a model with text: also embed negative labels for neglabel, nouns of WordNet that are unlike the "
        "classes and no kinds of them, listed in negatives.csv.",
    ),
)
"""--prompt and --negatives."""

metrics = click.option(
    "--metrics",
    metavar="NAME|FILE.py:NAME,...",
    multiple=True,
    callback=_metrics,
    help="More metrics of each split of unknown rows, with the means of near and far ones: names, such as oscr, or "
    "functions of your own in a Python file.",
)

intervals = click.option(
    "--intervals",
    metavar="SAMPLES",
    type=click.IntRange(min=0),
    default=0,
    help="Bootstrap samples, such as 1000 and at least 100, for the intervals of each detector's difference from the "
    "best one. Default: 0, for none.",
)

plots = click.option(
    "--plots/--no-plots",
    default=None,
    help="Also write the plots as PDF, PNG and SVG; or draw none at all: matplotlib is not needed then.",
)

quiet = click.option("--quiet", is_flag=True, help="No progress bars and no notes, but results and warnings.")


def notes(as_json: bool, *, quiet: bool, **flags: Any) -> Log:
    """Return what prints a command's lines: to stdout, to stderr beside a document, or nowhere with --quiet."""
    return (lambda text: None) if quiet else log if as_json else result


def print_results(command: str, report: Any, *, as_json: bool, **more: Any) -> None:
    """Print the tables of a report, or a document of them with `more` keys."""
    if as_json:
        from builders.cli.console import print_document

        print_document(command, {**more, **json.loads(report.json())})
    else:
        click.echo(report.text())


run_options = _combined(
    click.option(
        "--device",
        metavar="DEVICE",
        default="auto",
        show_default=True,
        help="Device to run on: cpu, cuda, cuda:1 and so on, or mps; auto is cuda where there is one, else cpu.",
    ),
    click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True, help="Images per batch."),
    click.option(
        "--workers",
        type=click.IntRange(min=0),
        help="Worker processes that decode images; 0 decodes in the main process. Results do not depend on it. "
        "Default: one per core; on a cluster, of each task, 4 with a GPU and else 0.",
    ),
    no_sync_option,
    quiet,
)
"""--device, --batch-size, --workers, --no-sync and --quiet."""

cluster_options = _combined(*executor_flags.CLUSTER_OPTIONS)
"""--executor and --ray-address."""


def model_name(name: str, tag: str | None) -> str:
    """Return a model's name with the tag of its published weights, if one was given."""
    return f"{name}.{tag}" if tag else name
