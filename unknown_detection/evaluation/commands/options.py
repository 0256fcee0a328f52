"""Options of the commands. Those that are a step's parameters have the docstring's words for their help.

Tested by `tests/evaluation/test_main.py`.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from builders.cli import executor_flags
from unknown_detection.help import no_sync_option
from unknown_detection.terminal.progress import Log, log, result

Command = TypeVar("Command", bound=Callable[..., Any])

EXTRACT, SCORE, REPORT = "features/extract.py:extract", "scoring/run.py:score", "report/report.py:report"
"""The steps, whose docstrings describe their parameters."""

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
COUNT = click.IntRange(min=0)

Decorator = Callable[[Command], Command]


@functools.cache
def described(step: str) -> dict[str, str]:
    """Return what the docstring of a step's function says of its parameters.

    It is read from the source, since pandas and what else a step imports takes a second.
    """
    file, _, name = step.partition(":")
    tree = ast.parse((Path(__file__).parents[1] / file).read_text(encoding="utf-8"))
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    arguments = (ast.get_docstring(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
    said = {}
    for name, text in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", arguments, re.M):
        text = re.sub(r"[;.] None\b[^.;]*", "", " ".join(text.split())).replace("`", "")
        said[name] = text[:1].upper() + text[1:]
    return said


def of(step: str, *names: str, **attributes: Any) -> Decorator[Any]:
    """An option for a parameter of a step, whose name click finds in those of the option."""
    parameter = click.Option(names).name
    return click.option(*names, help=described(step)[str(parameter)], **attributes)


def combined(*options: Decorator[Any]) -> Decorator[Any]:
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
    text = "Release: a folder, or a dataset on the Hub."
    return combined(
        click.option("--release", metavar="DIR|ORG/NAME", required=required, help=text),
        click.option("--revision", metavar="TAG", help="Tag, branch or commit of a release on the Hub."),
    )


def model(*, required: bool) -> Decorator[Any]:
    """--model, --weights, --pretrained, --classes and --accept."""
    named = "timm:NAME, torchvision:NAME, transformers:ORG/NAME[@COMMIT], open_clip:ORG/NAME[@COMMIT], or "
    named += "FILE.py:FUNCTION, a function that returns the model."
    published = "Download the weights that a library publishes under the model's name: of timm and torchvision all "
    published += "others of the same architecture by their tag, such as --pretrained=IMAGENET1K_V2."
    return combined(
        click.option("--model", metavar="MODEL", required=required, help=named),
        of(EXTRACT, "--weights", type=FILE),
        click.option("--pretrained", metavar="[TAG]", is_flag=False, flag_value="", help=published),
        of(EXTRACT, "--classes", type=FILE),
        of(EXTRACT, "--accept", is_flag=True),
    )


def _settings(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> Any:
    from unknown_detection.evaluation.detectors.choice import parse_settings

    return parse_settings(texts)


features = combined(
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

detectors = combined(
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
    listed("--fit-splits", "fit_configs", metavar="CONFIG,...", help=described(SCORE)["fit_configs"]),
    of(SCORE, "--search/--no-search", default=True),
    click.option(
        "--set",
        "settings",
        metavar="DETECTOR.NAME=VALUE[,VALUE...]",
        multiple=True,
        callback=_settings,
        help="Set a hyperparameter, or the values to search among, the default first; may be repeated. See below.",
    ),
    of(SCORE, "--at-known", metavar="SHARE", type=click.FloatRange(0, 1, min_open=True, max_open=True)),
    of(SCORE, "--seed", type=COUNT, default=0, show_default=True),
)
"""--detectors, --detector, --fit-splits, --no-search, --set, --at-known and --seed."""

texts = combined(
    of(EXTRACT, "--prompt", "prompts", metavar="TEXT", multiple=True),
    of(EXTRACT, "--negatives", is_flag=True),
)
"""--prompt and --negatives."""

figures = combined(
    listed("--metrics", metavar="NAME|FILE.py:NAME,...", help=described(REPORT)["metrics"]),
    of(REPORT, "--intervals", metavar="SAMPLES", type=COUNT, default=0),
    of(REPORT, "--plots/--no-plots", default=None),
)
"""--metrics, --intervals and --plots."""

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
        click.echo(f"\n{report!r}")


run_options = combined(
    of(EXTRACT, "--device", metavar="DEVICE", default="auto", show_default=True),
    of(EXTRACT, "--batch-size", type=click.IntRange(min=1), default=64, show_default=True),
    of(EXTRACT, "--workers", type=COUNT),
    no_sync_option,
    quiet,
)
"""--device, --batch-size, --workers, --no-sync and --quiet."""

cluster_options = combined(*executor_flags.CLUSTER_OPTIONS)
"""--executor and --ray-address."""


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """Return flags as the steps take them: the release opened, and the model's name with the tag of its weights."""
    from unknown_detection.evaluation.releases import load

    release, revision, model, tag = (flags.get(name) for name in ("release", "revision", "model", "pretrained"))
    asked = {name: value for name, value in flags.items() if name != "revision"}
    asked["release"] = None if release is None else load(release, revision)
    named = {"model": f"{model}.{tag}" if model and tag else model, "pretrained": tag is not None}
    return asked | (named if "model" in flags else {})
