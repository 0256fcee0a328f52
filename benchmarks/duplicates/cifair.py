"""Recall and precision of the search for near-duplicates against ciFAIR's judgements of CIFAR's images.

Barz and Denzler judged, for each test image that a network puts near a training image or another test image, that one
pair: 0, almost all pixels are equal; 1, one photograph, processed in two ways; 2, different but very similar things
("Do We Train on Test Data?", Journal of Imaging 6(6), 2020; lists in https://github.com/cvjena/cifair). Their lists
count images in the order of CIFAR's archives. This script takes them by path instead.

`python -m benchmarks.duplicates.cifair NAME IMAGES JUDGED...` searches `IMAGES/test/CLASS/NAME` against `IMAGES/train`
and against itself, and writes what it counts into `figures.json` beside this file, from which the tables of
`docs/benchmarks/duplicates.md` are made (`benchmarks.duplicates.page`). `JUDGED` is a CSV file with the columns
`test`, `other` and `judgment`, as `benchmarks.duplicates.judged` writes: two paths below `IMAGES`, and 0 to 2. A
listed pair of judgement 0 or 1 counts for the recall; of several files, the recall by each is given.

Wrong are pairs of judgement 2 in the last file, and those of `two_photographs.csv`, of which we saw that they are two
photographs or could not tell. We looked at the 500 furthest pairs, of CIFAR-10 those that are not in the lists; the
others count as right. ciFAIR has one pair of a test image at most, so most found pairs are not listed.

Pairs come in connected groups, as of one photograph in many copies. Precision is given by pair, and by group as the
mean of the groups' shares of right pairs, so that each group counts once.

Halves are drawn by a keyed hash of the test image's class and name.
"""

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.duplicates.search import THRESHOLD, find_pairs
from builders.release.duplicates import connected_groups

Images = npt.NDArray[np.uint8]
Pair = tuple[str, str]

FIGURES = Path(__file__).with_name("figures.json")
SEEN = Path(__file__).with_name("two_photographs.csv")

SHOWN = 100
"""Pairs of a sheet."""

_COLUMNS = 10
_SUFFIXES = (".jpg", ".png")


def load(root: Path, split: str) -> tuple[list[str], Images]:
    """Return the sorted paths of a split's images below the folder, and their pixels (n, 32, 32, 3)."""
    files = sorted(file for file in (root / split).glob("*/*") if file.suffix in _SUFFIXES)
    if not files:
        raise click.ClickException(f"{root / split} has no images CLASS/NAME.png. Name the folder that has {split}/.")
    pixels = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
    return [file.relative_to(root).as_posix() for file in files], pixels


def pair_of(name: str, other: str) -> Pair:
    """Return a pair of paths in order: the test image comes before a training image."""
    a, b = sorted((name, other))
    return a, b


def half_of(pair: Pair) -> int:
    """Return which half, 0 or 1, a pair is in: that of its first test image."""
    return hashlib.sha256(f"cifair:{pair[0].partition('/')[2]}".encode()).digest()[0] % 2


def judgements(path: Path) -> dict[Pair, int]:
    """Return the judgement of each judged pair."""
    with path.open(newline="") as opened:
        return {pair_of(row["test"], row["other"]): int(row["judgment"]) for row in csv.DictReader(opened)}


def search(names: list[str], queries: Images, reference_names: list[str], references: Images) -> dict[Pair, float]:
    """Return the pairs that the search finds, each with the lesser distance of both directions."""
    pairs = find_pairs(queries, references, advance=lambda count: None)
    distances: dict[Pair, float] = {}
    for query, reference, measured_distance in zip(
        pairs.queries.tolist(), pairs.references.tolist(), pairs.distances.tolist(), strict=True
    ):
        pair = pair_of(names[query], reference_names[reference])
        if pair[0] != pair[1]:
            distances[pair] = min(measured_distance, distances.get(pair, measured_distance))
    return distances


def seen_apart(name: str) -> set[Pair]:
    """Return the pairs of some images that we judged to be two photographs, or could not judge."""
    with SEEN.open(newline="") as opened:
        return {pair_of(row["test"], row["other"]) for row in csv.DictReader(opened) if row["images"] == name}


def count(pairs: Iterable[Pair], joins: Sequence[Mapping[Pair, int]], apart: set[Pair]) -> dict[str, Any]:
    """Count found pairs, the judged ones among them by each join, and the wrong ones, by pair and by group."""
    found = set(pairs)
    wrong = {pair for pair in found if pair in apart or joins[-1].get(pair) == 2}
    groups = connected_groups(sorted(found))
    group_of = {name: number for number, group in enumerate(groups) for name in group}
    pairs_of: list[list[Pair]] = [[] for _ in groups]
    for pair in sorted(found):
        pairs_of[group_of[pair[0]]].append(pair)
    right_shares = [sum(pair not in wrong for pair in of_group) / len(of_group) for of_group in pairs_of]
    near = [{pair for pair, judgement in judged.items() if judgement < 2} for judged in joins]
    return {
        "found": len(found),
        "near": [[len(listed & found), len(listed)] for listed in near],
        "judged 2": sum(joins[-1].get(pair) == 2 for pair in found),
        "not judged": sum(pair not in joins[-1] for pair in found),
        "wrong": len(wrong),
        "groups": len(groups),
        "largest": max(map(len, pairs_of), default=0),
        "right share of groups": round(sum(right_shares) / len(groups), 4) if groups else None,
    }


def sheet(path: Path, pairs: list[Pair], pixels: dict[str, Images]) -> None:
    """Draw pairs side by side, in reading order."""
    cell = 64
    picture = Image.new("RGB", (_COLUMNS * (2 * cell + 8), -(-len(pairs) // _COLUMNS) * (cell + 8)), "white")
    for number, pair in enumerate(pairs):
        top, left = number // _COLUMNS * (cell + 8), number % _COLUMNS * (2 * cell + 8)
        for side, name in enumerate(pair):
            image = Image.fromarray(pixels[name]).resize((cell, cell), Image.Resampling.BICUBIC)
            picture.paste(image, (left + side * cell, top))
    picture.save(path)


@click.command()
@click.argument("name")
@click.argument("images", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("judged", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--sheet", "folder", type=click.Path(path_type=Path), help="Folder for pictures of the found pairs.")
def main(name: str, images: Path, judged: tuple[Path, ...], folder: Path | None) -> None:
    """Search, count, and write the counts into the file of figures."""
    (names, test), (train_names, train) = load(images, "test"), load(images, "train")
    pixels = dict(zip([*names, *train_names], [*test, *train], strict=True))
    joins, apart = [judgements(path) for path in judged], seen_apart(name)
    figures: dict[str, Any] = {"distance": THRESHOLD, "test images": len(names)}
    everything: dict[Pair, float] = {}
    for title, right, references in (("train", train_names, train), ("test", names, test)):
        distances = search(names, test, right, references)
        everything |= distances
        for half in (0, 1, None):
            of_half = [pair for pair in distances if half in (None, half_of(pair))]
            of_joins = [
                {pair: value for pair, value in join.items() if _is_of(pair, title) and half in (None, half_of(pair))}
                for join in joins
            ]
            key = title if half is None else f"{title}, half {half}"
            figures[key] = count(of_half, of_joins, apart)
            print(f"{name}, test and {key}: {figures[key]}")
    figures["test images in pairs"] = len({side for pair in everything for side in pair if side.startswith("test/")})
    written = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    FIGURES.write_text(json.dumps(written | {name: figures}, indent=2, sort_keys=True) + "\n")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        furthest = sorted(everything, key=lambda pair: (-everything[pair], pair))
        for start in range(0, len(furthest), SHOWN):
            sheet(folder / f"{name}-{start}.png", furthest[start : start + SHOWN], pixels)


def _is_of(pair: Pair, title: str) -> bool:
    return pair[1].startswith(f"{title}/")


if __name__ == "__main__":
    main()
