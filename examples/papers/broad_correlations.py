"""Figure 3 of BROAD: correlations of detectors' scores on in-distribution rows, from which its ensembles follow.

    python examples/papers/broad_correlations.py scores.parquet build/unknown-detection build/correlations.png

The paper calls them covariances; detectors have units of their own, so they are of standardized scores (ours).
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pandas as pd
from matplotlib.figure import Figure

import unknown_detection as ud
from unknown_detection.evaluation.scoring.scores import read_scores
from unknown_detection.terminal.command_line import run_command_line


def correlations(scores: pd.DataFrame, release: str | Path, split: str) -> pd.DataFrame:
    """Return Pearson's correlations of scores on the known rows of `config/split`, detectors x detectors."""
    config, _, name = split.partition("/")
    index = ud.load(release).index([config])
    known = index["id"][index["known"] & (index["split"] == name)]
    chosen = scores[scores["id"].isin(known)]
    if chosen.empty:
        raise ud.EvaluationError(
            f"There are no scores of known rows of {split}. Give another --split or other scores."
        )
    values = chosen.pivot(index="id", columns="detector", values="score")
    return values.loc[:, values.std() > 0].corr()


def draw(values: pd.DataFrame, title: str) -> Figure:
    """Plot the matrix."""
    figure = Figure(figsize=(0.3 * len(values) + 2, 0.3 * len(values) + 1.5), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, vmin=-1, vmax=1, cmap="RdBu_r")
    axes.set_xticks(range(len(values)), values.columns, rotation=90)
    axes.set_yticks(range(len(values)), values.index)
    axes.set_title(title)
    figure.colorbar(image)
    return figure


@click.command("python examples/papers/broad_correlations.py")
@click.argument("scores", type=click.Path(exists=True, path_type=Path))
@click.argument("release")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--split", default="broad-reference/held_out", show_default=True, help="CONFIG/SPLIT of known rows.")
def main(scores: Path, release: str, out: Path, split: str) -> None:
    """Draw the correlations of the scores of a file."""
    values = correlations(read_scores(scores)[0].to_pandas(), release, split)
    draw(values, f"Correlation of scores on {split}").savefig(out)
    click.echo(values.round(2).to_string())


if __name__ == "__main__":
    sys.exit(run_command_line(main, errors=(ud.EvaluationError, ud.BuildError), stopped="stopped."))
