"""`python -m evaluation graph`: draws the graph of true and predicted classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from evaluation.commands import options
from evaluation.errors import EvaluationError
from evaluation.graph.picture import CLUSTERS, draw_graph
from evaluation.graph.transition_graph import ACCEPTED, MIN_WEIGHT, STEPS, Stage, prune, write_edges, write_graphml
from evaluation.graph.transitions import PREFERRED_DETECTOR, Transitions, read_transitions, scored_transitions
from evaluation.progress import bar
from evaluation.releases import Release, open_release
from evaluation.reports.plots import save
from evaluation.reports.tables import aligned


@click.command(
    epilog="Example: python -m evaluation graph build/scores.parquet --release build/unknown-detection --config "
    "facets-t1 --out build/graph"
)
@click.argument("scores", type=click.Path(path_type=Path))
@options.release(required=False)
@click.option(
    "--config", metavar="CONFIG", help="Config of the rows; required if several configs of the release were scored."
)
@click.option(
    "--split",
    metavar="SPLIT",
    help="Split of the rows. Default: the scored splits that are not for fitting or tuning.",
)
@click.option(
    "--detector", metavar="NAME", help=f"Detector to use. Default: the only one in the file, or {PREFERRED_DETECTOR}."
)
@click.option(
    "--min-weight",
    type=click.IntRange(min=1),
    default=MIN_WEIGHT,
    show_default=True,
    help="Minimum number of images on an edge.",
)
@click.option(
    "--accepted",
    type=click.FloatRange(0, 1, min_open=True),
    default=ACCEPTED,
    show_default=True,
    help="Fraction of in-distribution images, by ascending score, that count as evidently in-distribution; 1 for all.",
)
@click.option(
    "--keep",
    type=click.Choice(list(STEPS)),
    multiple=True,
    help="A pruning step to skip; may be repeated.",
)
@click.option(
    "--clusters",
    type=click.IntRange(min=1),
    default=CLUSTERS,
    show_default=True,
    help="Number of clusters to draw, the heaviest first.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the graph.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(
    scores: Path,
    release: str | None,
    revision: str | None,
    config: str | None,
    split: str | None,
    detector: str | None,
    min_weight: int,
    accepted: float,
    keep: tuple[str, ...],
    clusters: int,
    out: Path,
    quiet: bool,
) -> None:
    """Build the graph of true and predicted classes, pruned as in the FACETS paper.

    SCORES is a scores file of a release or, without --release, a Parquet or CSV file with the columns id, class,
    prediction and score, with both classes as DATASET:CLASS, and optionally role (in_distribution or another). An edge
    leads from the class of some images to the class predicted for them; its weight is the number of these images.

    Writes graph.graphml, edges.csv (the heaviest edges first), graph.png and graph.svg.
    """
    if release is None and (config or split or revision):
        raise EvaluationError(
            "--config, --split and --revision apply to a release only. Name one with --release, or leave them out."
        )
    with bar(4, "graph", quiet=quiet, unit="steps") as progress:
        opened = open_release(release, revision) if release is not None else None
        transitions = (
            read_transitions(scores, detector=detector)
            if opened is None
            else scored_transitions(scores, opened, config=config, split=split, detector=detector)
        )
        progress.update(1)
        graph, stages = prune(transitions, min_weight=min_weight, accepted=accepted, keep=keep)
        progress.update(1)
        attributes = _attributes(scores, opened, transitions, stages)
        attributes |= {"min_weight": f"{min_weight}", "accepted": f"{accepted}"}
        write_edges(graph, out / "edges.csv")
        write_graphml(graph, out / "graph.graphml", attributes)
        progress.update(1)
        title = f"Predicted classes of {transitions.config or scores.stem} ({transitions.detector} scores)"
        save(draw_graph(graph, title=title, shown=clusters), out, "graph")
        progress.update(1)
    click.echo(f"{len(transitions):,} images, scores of {transitions.detector}")
    if transitions.left_out:
        whose = f"{transitions.config}/{', '.join(transitions.splits)}"
        click.echo(f"{transitions.left_out:,} more images do not belong to {whose} and were left out")
    click.echo("\n".join(_lines(stages, min_weight)))
    click.echo(f"edges.csv, graph.graphml, graph.png and graph.svg are in {out}")


def _lines(stages: Sequence[Stage], min_weight: int) -> list[str]:
    """Format the pruning steps as a table, with the counts after each."""
    lines = [["step", "removes", "classes", "edges", "images"]]
    for stage in stages:
        what = STEPS[stage.step].what if stage.step else "(the whole graph)"
        if stage.step == "light-edges":
            what += f", fewer than {min_weight:,}"
        if stage.skipped:
            what = f"skipped: {stage.skipped}"
        lines.append([stage.step, what, *(f"{count:,}" for count in (stage.nodes, stage.edges, stage.images))])
    return aligned(lines, left=(0, 1))


def _attributes(
    scores: Path, release: Release | None, transitions: Transitions, stages: Sequence[Stage]
) -> dict[str, str]:
    """Return the attributes of the whole graph for the GraphML file."""
    attributes = {"scores": scores.name, "detector": transitions.detector}
    if release is not None:
        attributes |= {
            "config": transitions.config,
            "splits": ", ".join(transitions.splits),
            "release_digest": release.digest,
        }
    return attributes | {"steps": ", ".join(stage.step for stage in stages if stage.step and not stage.skipped)}
