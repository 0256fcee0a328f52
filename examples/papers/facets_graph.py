"""Figure 4 of FACETS, section V: the graph of true and predicted classes, pruned in the paper's steps.

    python examples/papers/facets_graph.py scores.parquet build/unknown-detection facets-t1 build/graph

A node is a class with its dataset. An edge leads from the class of some images to the class predicted for them; its
weight is the number of these images. Writes `edges.csv`, the heaviest edges first, `graph.graphml` and `graph.png`.
Where the paper leaves open what a step does, our reading is:

- Links between evidently ID samples: an in-distribution image whose score is among the lowest 95 %, where the paper
  reports the FPR. Such images do not count.
- Classes that share an identical name: names are compared letter by letter, without dataset and folder. Heavy edges
  reveal pairs that an underscore or another order of words separates.
- Edges from Places365 (val), after which all remaining edges join two datasets: edges within any dataset.
- Edges of low weight: the paper gives no number. Ours, 10, is about a tenth of the 103 images that most ImageNet
  classes have in a split of facets-t1.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import click
import networkx
import pandas as pd
from matplotlib.figure import Figure

import unknown_detection as ud
from unknown_detection.evaluation.scoring.scores import read_scores
from unknown_detection.terminal.command_line import run_command_line

DETECTOR = "msp"
"""The detector of the paper's graph."""

ACCEPTED, MIN_WEIGHT, DRAWN = 0.95, 10, 40
"""Fraction of in-distribution images that count as evident, least number of images on an edge, and edges drawn."""


def transitions(scores: pd.DataFrame, release: str | Path, config: str) -> pd.DataFrame:
    """Return a line for each scored test image: its true and predicted class (DATASET:CLASS), their names, its score.

    Labels are classes of one dataset: the one whose rows have most of them. Another may share some class ids, as
    SUN397 shares 294 with Places365.
    """
    opened = ud.load(release)
    rows = opened.rows(config, "test").select(["id", "source", "class_id", "class_name"]).to_pandas()
    rows["true"] = rows["source"] + ":" + rows["class_id"].str.strip("/")
    index = opened.index([config])
    of_detector = scores[(scores["detector"] == DETECTOR) & scores["id"].isin(index["id"])]
    frame = ud.protocols.join(index, of_detector)[DETECTOR]
    images = frame[frame["split"] == "test"][["id", "label", "prediction", "score", "known"]]
    images = images.astype({"id": str}).merge(rows, on="id")
    labelled = images[images["label"] >= 0]
    dataset = labelled.groupby("source")["label"].nunique().idxmax()
    names = opened.label_names(config)
    classes = labelled[labelled["source"] == dataset].drop_duplicates("class_id")
    titles = classes.set_index("class_id")["class_name"]
    predicted = images["prediction"].map(lambda number: names[number])
    images["predicted"] = dataset + ":" + predicted.str.strip("/")
    images["predicted_name"] = predicted.map(titles).fillna(predicted)
    return images.rename(columns={"class_name": "true_name"})


def prune(images: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the images that remain after the paper's steps, and a table of what each step leaves."""
    known = images.loc[images["known"], "score"].sort_values()
    threshold = known.iloc[math.ceil(round(ACCEPTED * len(known), 9)) - 1] if len(known) else -math.inf
    datasets = [images[side].str.partition(":")[0] for side in ("true", "predicted")]
    kept = {
        "images predicted as another class": images["true"] != images["predicted"],
        "unknown, or not accepted by the detector": ~images["known"] | (images["score"] > threshold),
        "classes with other names": images["true_name"] != images["predicted_name"],
        "classes of other datasets": datasets[0] != datasets[1],
    }
    stages = [("all", images)]
    for step, mask in kept.items():
        last = stages[-1][1]
        stages.append((step, last[mask[last.index]]))
    last = stages[-1][1]
    weights = last.groupby(["true", "predicted"])["id"].transform("size")
    stages.append((f"edges of at least {MIN_WEIGHT} images", last[weights >= MIN_WEIGHT]))
    counts = [(step, of.groupby(["true", "predicted"]).ngroups, len(of)) for step, of in stages]
    return stages[-1][1], pd.DataFrame(counts, columns=["left", "edges", "images"])


def edges(images: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each edge, heaviest first, ties by name: both ends, `weight` and `mean_score`."""
    ends = ["true", "predicted", "true_name", "predicted_name"]
    table = images.groupby(ends)["score"].agg(weight="size", mean_score="mean").reset_index()
    return table.sort_values(["weight", "true", "predicted"], ascending=[False, True, True], ignore_index=True)


def draw(table: pd.DataFrame, title: str) -> Figure:
    """Plot the heaviest edges, with true classes on the left and predicted ones on the right.

    The order of both columns is that of the Fiedler vector, which puts classes that are taken for each other side by
    side.
    """
    shown = table.head(DRAWN)
    graph = networkx.Graph()
    for true, predicted, weight in zip(shown["true"], shown["predicted"], shown["weight"], strict=True):
        graph.add_edge((0, true), (1, predicted), weight=weight)
    order = networkx.spectral_ordering(graph, weight="weight", seed=0)
    columns = [[node for node in order if node[0] == side] for side in (0, 1)]
    places = {node: (node[0], -(row + 0.5) / len(of)) for of in columns for row, node in enumerate(of)}
    figure = Figure(figsize=(9, 1 + 0.2 * max(map(len, columns))), layout="constrained")
    axes = figure.subplots()
    widths = [6 * math.sqrt(weight / shown["weight"].max()) for _, _, weight in graph.edges(data="weight")]
    networkx.draw_networkx_edges(graph, places, ax=axes, width=widths, alpha=0.5)
    for node, (side, height) in places.items():
        text = {"ha": "left" if side else "right", "va": "center", "fontsize": 8, "parse_math": False}
        axes.text(side * 1.02 - 0.01, height, node[1], **text)
    axes.set(xlim=(-1, 2), title=title)
    axes.axis("off")
    return figure


@click.command("python examples/papers/facets_graph.py")
@click.argument("scores", type=click.Path(exists=True, path_type=Path))
@click.argument("release")
@click.argument("config")
@click.argument("out", type=click.Path(path_type=Path))
def main(scores: Path, release: str, config: str, out: Path) -> None:
    """Draw the transition graph of the MSP scores of a file."""
    images, stages = prune(transitions(read_scores(scores)[0].to_pandas(), release, config))
    table = edges(images)
    if table.empty:
        raise click.UsageError(f"No edge is left:\n{stages.to_string(index=False)}")
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "edges.csv", index=False)
    graph = networkx.from_pandas_edgelist(table, "true", "predicted", ["weight", "mean_score"], networkx.DiGraph)
    networkx.write_graphml(graph, out / "graph.graphml")
    draw(table, f"Predicted classes of {config}").savefig(out / "graph.png")
    click.echo(stages.to_string(index=False))


if __name__ == "__main__":
    sys.exit(run_command_line(main, errors=(ud.EvaluationError, ud.BuildError), stopped="stopped."))
