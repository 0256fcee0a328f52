"""`python -m unknown_detection evaluate softmax`: maps the mean softmax outputs of each class of unknowns.

This is figure 7 of the unified benchmark (Kim, Koo and Hwang 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import pandas as pd
from scipy.special import softmax

from builders.storage.files import write_text
from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.commands import options
from unknown_detection.evaluation.detectors.base import pieces
from unknown_detection.evaluation.detectors.logits import average
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.files import safe_file_name
from unknown_detection.evaluation.releases import Key, Release, choose_splits, load
from unknown_detection.evaluation.report.plots import plot_heatmap, save
from unknown_detection.evaluation.truth import IN_DISTRIBUTION, role_names


@click.command(
    epilog="Example: python -m unknown_detection evaluate softmax --features build/features --release "
    "build/unknown-detection --splits cifar/near_ood,cifar/far_ood_svhn --out build/softmax"
)
@options.features
@options.release(required=True)
@options.listed(
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
    for store in stores:
        store.require_release(opened.digest)
    keys = choose_splits(stores[0].splits(), splits, str(features))
    if splits is None:
        keys = [key for key in keys if IN_DISTRIBUTION not in role_names(opened.rows(*key)).to_pylist()]
    if not keys:
        raise EvaluationError(f"{features} has no features of a split of unknown rows. Extract one, or give --splits.")
    for config, split in keys:
        means = _mean_softmax(stores, opened, (config, split))
        name = safe_file_name("softmax", config, split)
        lines = [[*means.index.names, *means.columns], *means.reset_index().to_numpy()]
        write_text(out / f"{name}.csv", csv_text(lines))
        title = f"Mean softmax outputs on {config}/{split}, {stores[0].identity.model}"
        images = means.index.get_level_values("images")
        picture = plot_heatmap(means.droplevel("images"), title=title, bar="softmax (%)")
        save(picture, out, name)
        click.echo(f"{config}/{split}: {len(images):,} classes, {sum(images):,} images: {out / name}.png")


def _mean_softmax(stores: Sequence[FeatureStore], release: Release, key: Key) -> pd.DataFrame:
    """Average the softmax outputs of the images of each class of a split.

    With features of several models, the outputs are the mean of theirs, as of an ensemble. Returns a line for each
    class, indexed by its name and its number of images, those that are taken for the same known class together, and a
    column for each known class, by name, with the mean of its output. Lines sum to 1.
    """
    members = [store.features(*key) for store in stores]
    features = members[0] if len(members) == 1 else average(members)
    outputs = [softmax(logits, axis=1) for _, logits in pieces(features.logits)]
    known = _known_names(stores[0].identity.label_names, release, key[0])
    rows = release.rows(*key).select(["source", "class_id", "class_name"]).to_pandas()
    classes = [rows["source"], rows["class_id"]]  # datasets may share ids of classes
    by_class = pd.DataFrame(np.concatenate(outputs), columns=known).groupby(classes)
    names = rows.groupby(classes)["class_name"].last()
    shown = names.tolist() if names.is_unique else [":".join(id_) for id_ in names.index]
    means = by_class.mean()
    means.index = pd.MultiIndex.from_arrays([shown, by_class.size()], names=["class", "images"])
    values = means.to_numpy()
    return means.iloc[np.lexsort((-values.max(axis=1), values.argmax(axis=1)))]


def _known_names(labels: Sequence[str], release: Release, config: str) -> tuple[str, ...]:
    """Return the names of a config's labels, which are class ids, from the rows of these classes."""
    named: dict[str, str] = {}
    for split in release.splits(config):
        rows = release.rows(config, split)
        named |= dict(zip(rows["class_id"].to_pylist(), rows["class_name"].to_pylist(), strict=True))
    names = tuple(named.get(label) or label for label in labels)
    return names if len(set(names)) == len(names) else tuple(labels)
