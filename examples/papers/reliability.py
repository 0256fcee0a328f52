"""Figure 1 of Guo et al., On Calibration of Modern Neural Networks: accuracy against confidence, in 15 bins.

    python examples/papers/reliability.py scores.parquet build/unknown-detection imagenet build/reliability.png

Of MSP, whose score is one minus the confidence. ECE, the expected calibration error, is the mean gap of the bins
(Naeini, Cooper and Hauskrecht, Obtaining Well Calibrated Probabilities Using Bayesian Binning, 2015).
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import unknown_detection as ud
from unknown_detection.evaluation.scoring.scores import read_scores
from unknown_detection.terminal.command_line import run_command_line

BINS = 15


def bins(scores: pd.DataFrame, release: str | Path, config: str) -> pd.DataFrame:
    """Return rows, mean confidence and accuracy of each non-empty bin, of the known rows of a config's `test`."""
    index = ud.load(release).index([config])
    frame = ud.protocols.join(index, scores[(scores["detector"] == "msp") & scores["id"].isin(index["id"])])["msp"]
    known = ud.protocols.known_rows(frame)
    judged = pd.DataFrame({"confidence": 1 - known["score"], "accuracy": ~known["wrong"]})[known["label"] >= 0]
    of_bin = judged.groupby(np.ceil(judged["confidence"] * BINS).clip(lower=1))
    return of_bin.mean().assign(rows=of_bin.size())


@click.command("python examples/papers/reliability.py")
@click.argument("scores", type=click.Path(exists=True, path_type=Path))
@click.argument("release")
@click.argument("config")
@click.argument("out", type=click.Path(path_type=Path))
def main(scores: Path, release: str, config: str, out: Path) -> None:
    """Draw a reliability diagram of the MSP scores of a file."""
    values = bins(read_scores(scores)[0].to_pandas(), release, config)
    figure = Figure(figsize=(4, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], "--", color="grey")
    values.plot("confidence", "accuracy", marker="o", ax=axes, title=f"Reliability on {config}")
    figure.savefig(out)
    error = (values["rows"] * (values["accuracy"] - values["confidence"]).abs()).sum() / values["rows"].sum()
    click.echo(f"{values.round(4).to_string()}\nECE {error:.4f}")


if __name__ == "__main__":
    sys.exit(run_command_line(main, errors=(ud.EvaluationError, ud.BuildError), stopped="stopped."))
