"""`python -m unknown_detection evaluate graph`: draws the graph of true and predicted classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from unknown_detection.evaluation.commands import options
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.graph import pruning
from unknown_detection.evaluation.graph.pruning import STEPS
from unknown_detection.evaluation.graph.transitions import PREFERRED_DETECTOR, read_transitions, scored_transitions
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.report.pivot import aligned_columns
from unknown_detection.evaluation.report.plots import save


@click.command(
    epilog="Example: python -m unknown_detection evaluate graph build/scores.parquet --release "
    "build/unknown-detection --splits facets-t1 --out build/graph"
)
@click.argument("scores", type=click.Path(path_type=Path))
@options.release(required=False)
@options.listed(
    "--splits",
    metavar="CONFIG[/SPLIT]",
    help="Config of the rows, needed if several were scored, or one of its splits. A config stands for its scored "
    "splits that are not for fitting or tuning.",
)
@click.option(
    "--detector", metavar="NAME", help=f"Detector to use. Default: the only one in the file, or {PREFERRED_DETECTOR}."
)
@click.option(
    "--min-weight",
    type=click.IntRange(min=1),
    default=pruning.MIN_WEIGHT,
    show_default=True,
    help="Minimum number of images on an edge.",
)
@click.option(
    "--accepted",
    type=click.FloatRange(0, 1, min_open=True),
    default=pruning.ACCEPTED,
    show_default=True,
    help="Fraction of in-distribution images, by ascending score, that count as evidently in-distribution; 1 for all.",
)
@click.option("--keep", type=click.Choice(list(STEPS)), multiple=True, help="A pruning step to skip; may be repeated.")
@click.option(
    "--edges",
    type=click.IntRange(min=1),
    default=pruning.EDGES,
    show_default=True,
    help="Number of edges to draw, the heaviest first.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the graph.")
def command(
    scores: Path,
    release: str | None,
    revision: str | None,
    splits: str | None,
    detector: str | None,
    edges: int,
    out: Path,
    **limits: Any,
) -> None:
    """Build the graph of true and predicted classes, pruned as in the FACETS paper.

    SCORES is a scores file of a release or, without --release, a Parquet or CSV file with the columns id, class,
    prediction and score, with both classes as DATASET:CLASS, and optionally role (in_distribution or another). An edge
    leads from the class of some images to the class predicted for them; its weight is the number of these images.

    Writes graph.graphml, edges.csv (the heaviest edges first), graph.png and graph.svg, and prints what each step
    takes away.
    """
    if release is None and (splits or revision):
        raise EvaluationError(
            "--splits and --revision apply to a release only. Name one with --release, or leave them out."
        )
    if splits and "," in splits:
        raise EvaluationError(f"A graph is of one config or split. Give one of {splits} with --splits.")
    config, _, split = (splits or "").partition("/")
    opened = load(release, revision) if release is not None else None
    if opened is None:
        transitions = read_transitions(scores, detector=detector)
    else:
        transitions = scored_transitions(scores, opened, config=config, split=split, detector=detector)
    graph, stages = pruning.prune(transitions, **limits)
    taken = [stage.step for stage in stages if stage.step and not stage.skipped]
    graph.graph |= {"scores": scores.name, "detector": transitions.detector, "steps": ", ".join(taken)}
    graph.graph |= {name: f"{limits[name]}" for name in ("min_weight", "accepted")}
    if opened is not None:
        named = ", ".join(transitions.splits)
        graph.graph |= {"config": transitions.config, "splits": named, "release_digest": opened.digest}
    pruning.write_edges(graph, out / "edges.csv")
    pruning.write_graphml(graph, out / "graph.graphml")
    title = f"Predicted classes of {transitions.config or scores.stem} ({transitions.detector} scores)"
    save(pruning.draw_graph(graph, title=title, shown=edges), out, "graph")
    click.echo(f"{len(transitions.images):,} images, scores of {transitions.detector}")
    if transitions.left_out:
        whose = f"{transitions.config}/{', '.join(transitions.splits)}"
        click.echo(f"{transitions.left_out:,} more images do not belong to {whose} and were left out")
    click.echo("\n".join(_lines(stages, limits["min_weight"])))
    click.echo(f"edges.csv, graph.graphml, graph.png and graph.svg are in {out}")


def _lines(stages: Sequence[pruning.Stage], min_weight: int) -> list[str]:
    """Format the pruning steps as a table: what each takes away, and what it leaves."""
    lines = [["step", "takes away", "edges", "images", "leaves classes", "edges", "images"]]
    for before, stage in zip([stages[0], *stages], stages, strict=False):
        effect = STEPS[stage.step] if stage.step else "(the whole graph)"
        effect = f"{effect}, fewer than {min_weight:,}" if stage.step == "light-edges" else effect
        effect = f"skipped: {stage.skipped}" if stage.skipped else effect
        taken = (before.edges - stage.edges, before.images - stage.images)
        counts = [f"{count:,}" for count in (*taken, stage.nodes, stage.edges, stage.images)]
        lines.append([stage.step, effect, *counts])
    return aligned_columns(lines, left=(0, 1))
