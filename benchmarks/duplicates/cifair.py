"""Recall and precision of the search for near-duplicates against ciFAIR's judgements of CIFAR's images.

Barz and Denzler judged, for each test image that a network puts near a training image or another test image, that one
pair: 0, almost all pixels are equal; 1, one photograph, processed in two ways; 2, different but very similar things
("Do We Train on Test Data?", Journal of Imaging 6(6), 2020; lists in https://github.com/cvjena/cifair). Their lists
count images in the order of CIFAR's archives. This script takes them by path instead.

`python -m benchmarks.duplicates.cifair IMAGES JUDGED` searches `IMAGES/test/CLASS/NAME.png` against `IMAGES/train` and
against itself. `JUDGED` is a CSV file with the columns `test`, `other` and `judgment`: two paths below `IMAGES`, and 0
to 2. A listed pair of judgement 0 or 1 counts as right and one of 2 as wrong. Pairs that are not in the lists are
counted alone, since ciFAIR has one pair of a test image at most: who looks at `--sheet` can say how many are right.

Halves are drawn by a keyed hash of the test image's class and name.
"""

import csv
import hashlib
import time
from collections import Counter
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.duplicates.search import THRESHOLD, find_pairs

Images = npt.NDArray[np.uint8]
Pair = tuple[str, str]

SHOWN = 130
_COLUMNS = 10


def load(root: Path, split: str) -> tuple[list[str], Images]:
    """Return the sorted paths of a split's images below the folder, and their pixels (n, 32, 32, 3)."""
    files = sorted((root / split).glob("*/*.png"))
    if not files:
        raise click.ClickException(f"{root / split} has no images CLASS/NAME.png. Name the folder that has {split}/.")
    pixels = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
    return [file.relative_to(root).as_posix() for file in files], pixels


def pair_of(name: str, other: str) -> Pair:
    """Return the pair of two paths in order; the test image of a pair with a training image comes first."""
    a, b = sorted((name, other))
    return a, b


def half_of(pair: Pair) -> int:
    """Return the half, 0 or 1, of a pair: that of its first test image."""
    return hashlib.sha256(f"cifair:{pair[0].partition('/')[2]}".encode()).digest()[0] % 2


def judgements(path: Path) -> dict[Pair, int]:
    """Return the judgement of each judged pair."""
    with path.open(newline="") as opened:
        return {pair_of(row["test"], row["other"]): int(row["judgment"]) for row in csv.DictReader(opened)}


def search(names: list[str], queries: Images, reference_names: list[str], references: Images) -> dict[Pair, float]:
    """Return the found pairs with the lesser of the distances of both directions."""
    pairs = find_pairs(queries, references, advance=lambda count: None)
    distances: dict[Pair, float] = {}
    for query, reference, measured_distance in zip(
        pairs.queries.tolist(), pairs.references.tolist(), pairs.distances.tolist(), strict=True
    ):
        pair = pair_of(names[query], reference_names[reference])
        if pair[0] != pair[1]:
            distances[pair] = min(measured_distance, distances.get(pair, measured_distance))
    return distances


def line(title: str, pairs: dict[Pair, float], judged: dict[Pair, int]) -> str:
    """Return a line with the recall of judged pairs, and the judgements of the found ones."""
    near = [pair for pair, judgement in judged.items() if judgement < 2]
    counts = Counter("near" if judged.get(pair, 3) < 2 else "similar" if pair in judged else "rest" for pair in pairs)
    share = f"{counts['near'] / len(near):.1%}" if near else "none"
    return (
        f"{title:28} recall {counts['near']:4} of {len(near):4} ({share}); of {len(pairs):4} found "
        f"{counts['similar']:3} judged 2 and {counts['rest']:4} not judged"
    )


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
@click.argument("images", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("judged", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--sheet", "folder", type=click.Path(path_type=Path), help="Folder for pictures of pairs that are not 0 or 1."
)
def main(images: Path, judged: Path, folder: Path | None) -> None:
    """Search, and count the judged pairs that are found."""
    (names, test), (train_names, train) = load(images, "test"), load(images, "train")
    pixels = dict(zip([*names, *train_names], [*test, *train], strict=True))
    known = judgements(judged)
    for title, right, references in (("test and train", train_names, train), ("inside test", names, test)):
        wall, cpu = time.perf_counter(), time.process_time()
        distances = search(names, test, right, references)
        seconds = f"{time.perf_counter() - wall:.0f} s, {time.process_time() - cpu:.0f} s of a core"
        print(f"{title}: distance at most {THRESHOLD}, {len(test):,} x {len(references):,} images, {seconds}")
        listed_pairs = {pair: value for pair, value in known.items() if pair[1].startswith(right[0].partition("/")[0])}
        for half in (0, 1, None):
            of_half = {pair: value for pair, value in distances.items() if half in (None, half_of(pair))}
            listed = {pair: value for pair, value in listed_pairs.items() if half in (None, half_of(pair))}
            print(line("both halves" if half is None else f"half {half}", of_half, listed))
            if folder and half is not None:
                doubtful = sorted((value, pair) for pair, value in of_half.items() if listed.get(pair, 2) > 1)
                for start in range(0, len(doubtful), SHOWN):
                    folder.mkdir(parents=True, exist_ok=True)
                    name = f"{title.replace(' ', '-')}-half-{half}-{start}.png"
                    sheet(folder / name, [pair for _, pair in doubtful[start : start + SHOWN]], pixels)


if __name__ == "__main__":
    main()
