"""`python -m evaluation graph`: what images of each class are taken for, as a graph of classes."""

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
from evaluation.report.plots import save
from evaluation.report.tables import aligned


@click.command(
    epilog="Example: python -m evaluation graph build/scores.parquet --release build/unknown-detection --config "
    "facets-t1 --out build/graph"
)
@click.argument("scores", type=click.Path(path_type=Path))
@options.release(required=False)
@click.option("--config", metavar="CONFIG", help="Whose rows; needed where the release has several that were scored.")
@click.option(
    "--split",
    metavar="SPLIT",
    help="Whose rows; of several those that are judged (not validation) unless told otherwise.",
)
@click.option(
    "--detector", metavar="NAME", help=f"Whose scores; of several {PREFERRED_DETECTOR} unless told otherwise."
)
@click.option(
    "--min-weight",
    type=click.IntRange(min=1),
    default=MIN_WEIGHT,
    show_default=True,
    help="Images that an edge must have to stay.",
)
@click.option(
    "--accepted",
    type=click.FloatRange(0, 1, min_open=True),
    default=ACCEPTED,
    show_default=True,
    help="Share of in-distribution images, those with the lowest scores, that are evidently so; 1 for all of them.",
)
@click.option(
    "--keep",
    type=click.Choice(list(STEPS)),
    multiple=True,
    help="A step of pruning to leave out; may be repeated.",
)
@click.option(
    "--clusters",
    type=click.IntRange(min=1),
    default=CLUSTERS,
    show_default=True,
    help="Clusters in the picture, the heaviest first.",
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
    """Make a graph of what images of each class are taken for, pruned as in the FACETS paper.

    SCORES is a scores file of a release, or, without --release, a Parquet or CSV file with the columns id, class,
    prediction and score, both classes as DATASET:CLASS, and perhaps role (in_distribution or another). An edge leads
    from a class to one that its images are predicted as; its weight is the number of these images.

    Writes graph.graphml, edges.csv (the heaviest edges first), graph.png and graph.svg.
    """
    if release is None and (config or split or revision):
        raise EvaluationError("expected --release with --config, --split or --revision, found none; name the release.")
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
        about = _about(scores, opened, transitions, stages)
        about |= {"min_weight": f"{min_weight}", "accepted": f"{accepted}"}
        write_edges(graph, out / "edges.csv")
        write_graphml(graph, out / "graph.graphml", about)
        progress.update(1)
        title = f"What images of {transitions.config or scores.stem} are taken for ({transitions.detector} scores)"
        save(draw_graph(graph, title=title, shown=clusters), out, "graph")
        progress.update(1)
    click.echo(f"{len(transitions):,} images, scores of {transitions.detector}")
    if transitions.left_out:
        whose = f"{transitions.config}/{', '.join(transitions.splits)}"
        click.echo(f"{transitions.left_out:,} more are not of {whose} and were left out")
    click.echo("\n".join(_lines(stages, min_weight)))
    click.echo(f"edges.csv, graph.graphml, graph.png and graph.svg are in {out}")


def _lines(stages: Sequence[Stage], min_weight: int) -> list[str]:
    """The steps as a table: what there is after each."""
    lines = [["step", "takes away", "classes", "edges", "images"]]
    for stage in stages:
        what = STEPS[stage.step].what if stage.step else "(the whole graph)"
        if stage.step == "light-edges":
            what += f", fewer than {min_weight:,}"
        if stage.not_done:
            what = f"not done: {stage.not_done}"
        lines.append([stage.step, what, *(f"{count:,}" for count in (stage.nodes, stage.edges, stage.images))])
    return aligned(lines, left=(0, 1))


def _about(scores: Path, release: Release | None, transitions: Transitions, stages: Sequence[Stage]) -> dict[str, str]:
    """What the GraphML file notes of the whole graph."""
    about = {"scores": scores.name, "detector": transitions.detector}
    if release is not None:
        about |= {
            "config": transitions.config,
            "splits": ", ".join(transitions.splits),
            "release_digest": release.digest,
        }
    return about | {"steps": ", ".join(stage.step for stage in stages if stage.step and not stage.not_done)}
