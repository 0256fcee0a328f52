"""`python -m unknown_detection evaluate run`: extracts features, scores and reports in one go.

Tested by `tests/evaluation/test_as_one_guesses.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from builders.cli.console import json_option
from unknown_detection.evaluation.commands import options
from unknown_detection.evaluation.commands.score import MISSING, ScoringCommand, asked
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.help import ESSENTIALS


@click.command(
    "run",
    cls=ScoringCommand,
    sections={ESSENTIALS: ("release", "model", "models", "weights", "pretrained", "splits", "detectors", "out")},
    examples=(
        "python -m unknown_detection evaluate run --release build/unknown-detection --splits cifar "
        "--model timm:resnet50.a1_in1k --pretrained --detectors msp,energy,knn --out build/run",
    ),
)
@options.release(required=True)
@options.splits("Configs or single splits to extract and evaluate. Default: all.")
@options.model(required=False)
@click.option(
    "--models",
    type=options.FILE,
    help="CSV with a line for each of several models: the column model and, where needed, weights, classes and "
    "accuracy. Models of libraries have their published weights without a file. In place of --model.",
)
@options.texts
@options.detectors
@options.figures
@click.option("--out", type=options.FOLDER, required=True, help="Folder for features, scores.parquet and report.")
@options.run_options
@json_option()
def command(models: Path | None, detectors: str | None, own: tuple[str, ...], *, as_json: bool, **flags: Any) -> int:
    """Extract, score and report, in one go.

    These are the steps `extract`, `score` and `report`, with one model or several, each with its usual files in a
    folder of its own below --out. Run again, the command goes on where it ended. It ends with the main figures; the
    exit code is 3 where a model of a list or a detector that was asked for could not be scored: a warning says why.
    """
    from unknown_detection.evaluation.run import run
    from unknown_detection.evaluation.several import read_models

    if (flags["model"] is None) is (models is None):
        raise EvaluationError("A run is of one model or of a list. Give --model, or --models with a file of several.")
    how = options.given(flags) | ({"model": read_models(models)} if models else {})
    done = run(detectors=asked(detectors, own), log=options.notes(as_json, **flags), **how)
    missing, failed = done.missing, dict(done.failed)
    more = {"out": str(flags["out"]), "missing": missing, "failed": failed}
    options.print_results("run", done.report, as_json=as_json, **more)
    return MISSING if missing or failed else 0
