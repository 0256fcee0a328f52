"""`python -m unknown_detection evaluate demo`: runs every step on a small release of real digits.

Tested by `tests/evaluation/demo/test_walkthrough.py`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from unknown_detection.evaluation.errors import require_packages
from unknown_detection.terminal.progress import bar, result


@click.command(epilog="Example: python -m unknown_detection evaluate demo --out build/evaluation-demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder for release, models, features, scores and report.",
)
@click.option("--quick", is_flag=True, help="Fewer models, and no detector that needs a second pass over the images.")
@click.option("--quiet", is_flag=True, help="No progress bar, and only the last line.")
def command(out: Path, *, quick: bool, quiet: bool) -> None:
    """Run every step on a small release of real digits, on the CPU.

    Builds the release from scikit-learn's digits, trains small models with two optimizers and three seeds each,
    extracts features, scores every row with every detector, and reports the figures of every protocol. Downloads
    nothing. The release is for trying the tools: its results mean nothing beyond that.
    """
    from unknown_detection.evaluation.demo.walkthrough import Demo

    require_packages("matplotlib", "safetensors", "sklearn", "torch", "torchvision", to="run the demo")
    started = time.monotonic()
    demo = Demo(out, quick, workers=min(2, os.cpu_count() or 1))

    def log(text: str) -> None:
        if not quiet:
            result(text)

    with bar(len(demo.trainings), "models", quiet=quiet, unit=" models") as progress:
        report = demo.run(log, progress.update)
    click.echo(f"see {report / 'report.html'}; took {time.monotonic() - started:.0f} s")
