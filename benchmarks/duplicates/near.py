"""The search for near-duplicates against nearest neighbours of raw pixels, and distances of changed photographs.

`python -m benchmarks.duplicates.near` generates 60,000 references and 20,000 queries, so no files are needed: coloured
noise with the spectrum of photographs. Every tenth query is a changed copy of a reference, every twentieth white
noise. It times `builders.duplicates.search.find_pairs` and scikit-learn's brute-force nearest neighbour of the raw
pixels in turn.

`python -m benchmarks.duplicates.near FILE...` measures distances of changed copies on patches of the given
photographs. `benchmarks.duplicates.cifair` measures recall and precision on CIFAR's own near-duplicates.
"""

import io
import re
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage
from sklearn.neighbors import NearestNeighbors

from benchmarks.rivals import Run, interleave, report
from builders.duplicates.search import THRESHOLD, distance, find_pairs

Images = npt.NDArray[np.uint8]
Pairs = set[tuple[int, int]]
"""Row numbers of a query and of a reference."""

Change = Callable[[npt.NDArray[np.floating], np.random.Generator], npt.NDArray[np.floating]]

SIDE = 32
PATCH_SIDES = (48, 64, 96, 128, 192, 256)
# Clear sky and the like have nothing to recognise; CIFAR's photographs of objects hardly ever have so little.
LEAST_DEVIATION = 12


def rounded(image: npt.NDArray[np.floating]) -> Images:
    """Return levels as whole numbers from 0 to 255."""
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def shifted(image: npt.NDArray[np.floating], random: np.random.Generator) -> npt.NDArray[np.floating]:
    """Move an image by one or two pixels in a random direction, repeating its edge."""
    down, right = [(y, x) for y in range(5) for x in range(5) if (y, x) != (2, 2)][random.integers(24)]
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="edge")
    return padded[down : down + SIDE, right : right + SIDE]


def jpeg(quality: int) -> Change:
    """Encode and decode as JPEG."""

    def change(image: npt.NDArray[np.floating], _: np.random.Generator) -> npt.NDArray[np.floating]:
        buffer = io.BytesIO()
        Image.fromarray(rounded(image)).save(buffer, "JPEG", quality=quality)
        return np.asarray(Image.open(buffer), dtype=float)

    return change


CHANGES: dict[str, Change] = {
    "shifted, edge repeated": shifted,
    "shifted, wrapped": lambda image, random: np.roll(image, random.integers(-2, 3, 2), (0, 1)),
    "mirrored": lambda image, _: image[:, ::-1],
    "x + 30": lambda image, _: image + 30,
    "x - 30": lambda image, _: image - 30,
    "0.8 x + 20": lambda image, _: 0.8 * image + 20,
    "1.25 x - 30": lambda image, _: 1.25 * image - 30,
    "gamma 0.7": lambda image, _: 255 * (image / 255) ** 0.7,
    "gamma 1.4": lambda image, _: 255 * (image / 255) ** 1.4,
    "JPEG 75": jpeg(75),
    "JPEG 50": jpeg(50),
    "blur, sigma 0.7": lambda image, _: ndimage.gaussian_filter(image, (0.7, 0.7, 0)),
    "blur, sigma 1": lambda image, _: ndimage.gaussian_filter(image, (1, 1, 0)),
    "noise, sd 5": lambda image, random: image + random.normal(0, 5, image.shape),
    "noise, sd 8": lambda image, random: image + random.normal(0, 8, image.shape),
}
COMBINED = ("shifted, edge repeated", "mirrored", "0.8 x + 20", "JPEG 50", "blur, sigma 0.7", "noise, sd 5")


def changed(image: Images, names: Sequence[str], random: np.random.Generator) -> Images:
    """Apply changes to an image one after the other, rounding to whole levels after each."""
    for name in names:
        image = rounded(CHANGES[name](image.astype(float), random))
    return image


def coloured_noise(count: int, slope: float, random: np.random.Generator) -> Images:
    """Generate images whose amplitude spectrum falls as 1 / f^slope; photographs have a slope of about 1.

    Each is a quarter of a periodic image, so that its edges do not meet, with a contrast, a brightness and a tint of
    its own, and channels that mostly go together.
    """
    frequencies = np.hypot(np.fft.fftfreq(2 * SIDE)[:, None], np.fft.rfftfreq(2 * SIDE))
    frequencies[0, 0] = np.inf
    white = random.standard_normal((count, 3, 2 * SIDE, 2 * SIDE))
    fields = np.fft.irfft2(np.fft.rfft2(white) / frequencies**slope)[..., :SIDE, :SIDE]
    grey, red, blue = fields.transpose(1, 0, 2, 3)
    images = np.stack([grey + 0.3 * red, grey - 0.15 * red - 0.15 * blue, grey + 0.3 * blue], axis=-1)
    images -= images.mean(axis=(1, 2), keepdims=True)
    images *= random.uniform(15, 60, (count, 1, 1, 1)) / images.std(axis=(1, 2, 3), keepdims=True)
    return rounded(images + random.uniform(70, 180, (count, 1, 1, 1)) + random.uniform(-30, 30, (count, 1, 1, 3)))


def scene(count: int, random: np.random.Generator) -> Images:
    """Generate coloured noise of slopes 1, 1.5 and 2, a thousand images at a time to bound the memory."""
    parts = [coloured_noise(min(1000, count - i), 1 + i // 1000 % 3 / 2, random) for i in range(0, count, 1000)]
    return np.concatenate(parts) if parts else np.zeros((0, SIDE, SIDE, 3), np.uint8)


def planted(references: int, queries: int, random: np.random.Generator) -> tuple[Images, Images, Pairs]:
    """Generate references and queries, and which query is a changed copy of which reference."""
    known, asked = scene(references, random), scene(queries, random)
    kinds = [*((name,) for name in CHANGES), *combinations(COMBINED, 2)]
    rows = np.arange(0, queries, 10)
    origins = random.integers(references, size=len(rows))
    for number, (row, origin) in enumerate(zip(rows, origins, strict=True)):
        asked[row] = changed(known[origin], kinds[number % len(kinds)], random)
    white = np.arange(5, queries, 20)
    asked[white] = rounded(random.normal(128, 40, (len(white), SIDE, SIDE, 3)))
    return known, asked, set(zip(rows.tolist(), origins.tolist(), strict=True))


def patches(photograph: Image.Image) -> tuple[Images, npt.NDArray[np.int64]]:
    """Cut a photograph into adjoining squares of several sizes, and scale them to 32 x 32 with antialiasing.

    Returns:
        The patches (k, 32, 32, 3) that have some contrast, and their squares (k, 3) as left, upper, side.
    """
    squares = [
        (left, upper, side)
        for side in PATCH_SIDES
        for upper in range(0, photograph.height - side + 1, side)
        for left in range(0, photograph.width - side + 1, side)
    ]
    images = np.array(
        [
            np.asarray(photograph.resize((SIDE, SIDE), Image.Resampling.LANCZOS, (x, y, x + side, y + side)))
            for x, y, side in squares
        ]
    )
    contrasted = images.std(axis=(1, 2)).mean(axis=1) > LEAST_DEVIATION
    return images[contrasted], np.array(squares)[contrasted]


def disjoint(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each row whether its first and its second square share no pixel."""
    (x, y, side), (u, v, other) = first.T, second.T
    return (x + side <= u) | (u + other <= x) | (y + side <= v) | (v + other <= y)


def measure(files: Sequence[Path], sample: int) -> None:
    """Print how far changed patches are from their originals, and the least distances of disjoint patches."""
    random = np.random.default_rng(0)
    cut = [patches(Image.open(path).convert("RGB")) for path in files]
    images, squares = (np.concatenate(parts) for parts in zip(*cut, strict=True))
    photograph = np.repeat(np.arange(len(cut)), [len(pieces) for pieces, _ in cut])
    print(f"{len(images):,} patches of {len(files)} photographs")

    sampled = np.sort(random.choice(len(images), min(sample, len(images)), replace=False))
    bold = images[sampled].std(axis=(1, 2)).mean(axis=1) > 25
    print(
        f"{len(sampled):,} changed: share found at {THRESHOLD}; of the {bold.sum():,} with a deviation over 25 levels;"
    )
    print("distance of 50, 95, 99 % of all")
    for names in [*((name,) for name in CHANGES), *combinations(COMBINED, 2)]:
        distances = np.array([distance(changed(image, names, random), image) for image in images[sampled]])
        quantiles = " ".join(f"{value:.2f}" for value in np.quantile(distances, (0.5, 0.95, 0.99)))
        close = distances <= THRESHOLD
        print(f"  {' and '.join(names):42} {close.mean():7.1%} {close[bold].mean():7.1%}  {quantiles}")

    pairs = find_pairs(images, images, threshold=0.3, advance=lambda count: None)
    of_one = photograph[pairs.queries] == photograph[pairs.references]
    apart = disjoint(squares[pairs.queries], squares[pairs.references])
    in_one = sum(np.count_nonzero(photograph == number) ** 2 for number in range(len(cut)))
    for title, kind, total in (
        ("of two photographs", ~of_one, len(images) ** 2 - in_one),
        ("of one, that share no pixel", of_one & apart, in_one),
    ):
        least = np.sort(pairs.distances[kind])
        counts = ", ".join(f"{np.count_nonzero(least <= limit)} to {limit}" for limit in (0.08, THRESHOLD, 0.15, 0.2))
        print(f"{total:,} pairs {title}: least {least[0] if len(least) else np.inf:.3f}; {counts}")


def growth(work: Callable[[], object]) -> float:
    """Run `work`; returns by how many MB the resident set grew at its peak (Linux's /proc)."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the present resident set
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _status(name: str) -> float:
    match = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match
    return int(match[1]) / 1024


def race(references: int, queries: int, sample: int, repeats: int) -> None:
    """Time the search and its rival, and count the planted copies that each finds."""
    random = np.random.default_rng(0)
    train, test, copies = planted(references, queries, random)
    results_of_find, nearest = [], []
    part = random.permutation(queries)[:sample]

    def ours() -> None:
        results_of_find.append(find_pairs(test, train, advance=lambda count: None))

    def theirs() -> None:
        model = NearestNeighbors(n_neighbors=1, algorithm="brute")
        model.fit(train.reshape(references, -1).astype(np.float32))
        nearest.append(model.kneighbors(test[part].reshape(len(part), -1).astype(np.float32))[1][:, 0])

    # Warm-up: the first call of each starts threads and fills caches.
    find_pairs(test[:256], train[:4096], advance=lambda count: None)
    NearestNeighbors(algorithm="brute").fit(train[:64].reshape(64, -1)).kneighbors(test[:64].reshape(64, -1))
    runs = {"find": Run(_nothing, lambda: growth(ours)), "raw-pixel neighbours": Run(_nothing, lambda: growth(theirs))}
    results = interleave(runs, repeats)
    rival = results["raw-pixel neighbours"]
    rival.seconds = [second * queries / len(part) for second in rival.seconds]
    print(f"{queries:,} queries x {references:,} references; the rival's time is {len(part):,} queries', scaled up")
    report(results, "find")

    pairs = set(zip(results_of_find[-1].queries.tolist(), results_of_find[-1].references.tolist(), strict=True))
    print(f"find: {len(pairs & copies):,} of {len(copies):,} planted copies, {len(pairs - copies):,} other pairs")
    answers = set(zip(part.tolist(), nearest[-1].tolist(), strict=True))
    sampled = {row for row, _ in copies} & set(part.tolist())
    print(
        f"raw-pixel neighbours: the origin is nearest to {len(answers & copies):,} of {len(sampled):,} planted copies"
    )


def _nothing() -> None:
    pass


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--references", default=60_000, show_default=True)
@click.option("--queries", default=20_000, show_default=True)
@click.option("--sample", default=2_000, show_default=True, help="Queries of the rival; patches that are changed.")
@click.option("--repeats", default=3, show_default=True, help="Runs of each side; the median counts.")
def main(files: tuple[Path, ...], references: int, queries: int, sample: int, repeats: int) -> None:
    """Race against the rival, or measure distances on photographs."""
    if files:
        measure(files, sample)
    else:
        race(references, queries, sample, repeats)


if __name__ == "__main__":
    main()
