"""Figure 7 of the unified benchmark: mean softmax outputs of the images of each unknown class.

    python examples/papers/unified_softmax.py build/features build/unknown-detection cifar/near_ood build/softmax

Writes a CSV and a heat map: a row for each class of the split's images, those that are taken for the same known class
together, and a column for each known class. The paper shows 20 classes that it drew; here are all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import softmax

import unknown_detection as ud
from unknown_detection.terminal.command_line import run_command_line


def output(number: int) -> Callable[[ud.Features], Any]:
    """Return a detector whose score is the softmax output of one class."""

    def probability(features: ud.Features) -> Any:
        return softmax(features.logits.astype(np.float64), axis=1)[:, number]

    probability.__name__ = f"class_{number}"
    return probability


def mean_softmax(features: Any, release: str | Path, split: str) -> pd.DataFrame:
    """Return mean softmax outputs, classes of the images x known classes; each row sums to 1.

    `features` is what `ud.extract` returned, or its folder; `split` is `config/split`.
    """
    opened = ud.load(release)
    names = opened.label_names(split.partition("/")[0])
    scores = ud.score(features, [output(number) for number in range(len(names))], splits=split)
    outputs = pd.DataFrame({name: np.asarray(scores[name]) for name in ("id", "detector", "score")})
    table = outputs.pivot(index="id", columns="detector", values="score")
    table = table[[f"class_{number}" for number in range(len(names))]].set_axis(names, axis=1)
    rows = opened.rows(*split.split("/")).select(["id", "source", "class_name"]).to_pandas().set_index("id")
    shared = rows.drop_duplicates()["class_name"].duplicated().any()  # datasets may share names of classes
    classes = rows["source"] + ":" + rows["class_name"] if shared else rows["class_name"]
    means = table.groupby(classes.rename("class")).mean()
    return means.iloc[np.lexsort((-means.max(axis=1), means.to_numpy().argmax(axis=1)))]


def draw(means: pd.DataFrame, title: str) -> Figure:
    """Plot the map, in percent."""
    figure = Figure(figsize=(0.15 * means.shape[1] + 3, 0.15 * means.shape[0] + 2), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(100 * means, vmin=0, vmax=100, aspect="auto")
    axes.set_xticks(range(means.shape[1]), means.columns, rotation=90, fontsize=7)
    axes.set_yticks(range(means.shape[0]), means.index, fontsize=7)
    axes.set_title(title)
    figure.colorbar(image, label="softmax (%)")
    return figure


@click.command("python examples/papers/unified_softmax.py")
@click.argument("features", type=click.Path(exists=True, path_type=Path))
@click.argument("release")
@click.argument("split", metavar="CONFIG/SPLIT")
@click.argument("out", type=click.Path(path_type=Path))
def main(features: Path, release: str, split: str, out: Path) -> None:
    """Draw the mean softmax outputs of the images of each class of a split."""
    means = mean_softmax(features, release, split)
    out.mkdir(parents=True, exist_ok=True)
    means.to_csv(out / "softmax.csv")
    draw(means, f"Mean softmax outputs on {split}").savefig(out / "softmax.png")
    click.echo((100 * means).round(1).to_string())


if __name__ == "__main__":
    sys.exit(run_command_line(main, errors=(ud.EvaluationError, ud.BuildError), stopped="stopped."))
