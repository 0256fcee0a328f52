"""`python -m unknown_detection evaluate softmax`: maps the mean softmax outputs of each class of unknowns."""

from __future__ import annotations

from pathlib import Path

import click

from unknown_detection.evaluation.commands import options
from unknown_detection.evaluation.display.canvas import save
from unknown_detection.evaluation.display.plots import Shades, heatmap
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.graph.softmax import mean_softmax, write_softmax
from unknown_detection.evaluation.releases import choose_splits, load
from unknown_detection.evaluation.scoring.joining import role_names
from unknown_detection.evaluation.scoring.rows import IN_DISTRIBUTION


@click.command(
    epilog="Example: python -m unknown_detection evaluate softmax --features build/features --release "
    "build/unknown-detection --splits cifar/near_ood,cifar/far_ood_svhn --out build/softmax"
)
@click.option("--features", type=options.FOLDER, required=True, help="Folder written by `extract`.")
@click.option(
    "--member",
    "members",
    type=options.FOLDER,
    multiple=True,
    help="Features of another model of the same release, for an ensemble; may be repeated.",
)
@options.release(required=True)
@click.option(
    "--splits", metavar="CONFIG[/SPLIT],...", help="Configs or single splits. Default: all splits of unknown rows."
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the maps.")
def command(
    features: Path, members: tuple[Path, ...], release: str, revision: str | None, splits: str | None, out: Path
) -> None:
    """Map the mean softmax outputs of the images of each class, as in figure 7 of the unified benchmark.

    Writes for each split a CSV and a heat map: a row for each class of its images, a column for each known class. The
    paper shows 20 classes that it drew; here are all.
    """
    stores = [FeatureStore.open(folder) for folder in (features, *members)]
    opened = load(release, revision)
    stores[0].require_release(opened.digest)
    keys = choose_splits(stores[0].splits(), splits, str(features))
    if splits is None:
        keys = [key for key in keys if IN_DISTRIBUTION not in role_names(opened.rows(*key)).to_pylist()]
    if not keys:
        raise EvaluationError(f"{features} has no features of a split of unknown rows. Extract one, or give --splits.")
    for config, split in keys:
        found = mean_softmax(stores, opened, (config, split))
        name = write_softmax(out, (config, split), found)
        title = f"Mean softmax outputs on {config}/{split}, {stores[0].identity.model}"
        shades = Shades((0, 100), text="")
        classes, images = (found.index.get_level_values(level) for level in found.index.names)
        picture = heatmap(found.to_numpy(), classes, [*found], title=title, bar="softmax (%)", shades=shades)
        save(picture, out, name)
        click.echo(f"{config}/{split}: {len(classes):,} classes, {sum(images):,} images: {out / name}.png")
