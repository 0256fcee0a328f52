"""`python -m unknown_detection evaluate report`: computes a paper's figures from scores files.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from builders.cli.console import json_option
from unknown_detection.evaluation.commands import options
from unknown_detection.help import ESSENTIALS, helpful


@helpful(
    "report",
    sections={ESSENTIALS: ("first", "release", "out")},
    examples=(
        "python -m unknown_detection evaluate report --scores scores.parquet --release build/unknown-detection "
        "--splits cifar --out build/report",
    ),
)
@click.option(
    "--scores",
    "first",
    metavar="[VARIANT=]FILE",
    multiple=True,
    required=True,
    help="Scores file, .parquet or .csv; may be repeated, and followed by more. VARIANT names the training method.",
)
@click.argument("more", metavar="[FILE...]", nargs=-1)
@options.release(required=True)
@options.splits("What to evaluate. Default: what was scored.")
@click.option(
    "--protocol",
    "protocols",
    metavar="NAME|FILE.py:NAME[=CONFIG,...]",
    multiple=True,
    help="Protocol, or one of your own in a Python file, and the configs to apply it to; may be repeated. Default: "
    "the one that each config was made for.",
)
@options.figures
@options.of(options.REPORT, "--out", type=click.Path(path_type=Path), required=True)
@options.of(options.REPORT, "--csv", is_flag=True)
@options.of(options.REPORT, "--latex", is_flag=True)
@options.quiet
@json_option()
def command(first: tuple[str, ...], more: tuple[str, ...], *, as_json: bool, **flags: Any) -> None:
    """Compute the papers' figures from scores of any detector.

    A scores file needs the columns id and score (higher = more unknown). Predictions, a column prediction with
    indices of classes, are needed for misclassification, unknown and error detection only; a column detector tells
    several detectors in one file apart. Each row of the release needs exactly one score; the splits validation,
    external_validation and train may be missing.

    Prints the main figures of each protocol, the best detector first, and writes report.html, a page with tables and
    plots, and figures.parquet.
    """
    from unknown_detection.evaluation.report.report import report

    written = report([*first, *more], **options.given(flags), log=options.notes(as_json, **flags))
    options.print_results("report", written, as_json=as_json)
