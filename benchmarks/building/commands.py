"""What users run, beside its least possible work and `datasets`: `build folder`, `verify`, `materialize` and `report`.

`python -m benchmarks.building.commands --scratch DIR` makes photograph-like JPEGs of 300 to 500 pixels at three sizes
(`benchmarks.building.photographs`). At each size all competitors run in turn, with the defaults of the command line,
and their processor time counts workers. The least work is in one process:

- of `build folder` and `materialize`: read each file, hash it, decode it once;
- of `verify`: the same of each image in the release's shards;
- of `report`: read the columns of the indexes without pixels.

`datasets` loads the same folder as imagefolder, embeds the images and writes Parquet, which decodes nothing and hashes
nothing; beside `verify` it reads the release and decodes each image once. `materialize` builds published rows of
ImageNet's training images again, all of the known images.

`build folder` is also compared with the sum of its parts: the pipeline (`--no-near-duplicates`), decoding each image
once, and the matrix products of the search for near-duplicates. Ratios of processor time and of wall time are both
printed and recorded, wall time against the processor time of one process that does the work. The exponent is that of
processor time in images, by least squares of logarithms over the sizes: 1 is linear.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import io
import math
import shutil
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.rivals import Run, Timed, interleave, report, run_process

SIZES = (1_500, 3_000, 6_000)

SPLITS = "imagenet/validation,imagenet-train"

QUERIES, CROPS, REFERENCES, COORDINATES = 128, 9, 128, 48
"""Shapes of the search's products (`builders.duplicates.search`)."""

DATASETS_PARQUET = """
import sys
from datasets import load_dataset, disable_progress_bars
disable_progress_bars()
files = {"every": sys.argv[1] + "/**/*.parquet"}
for row in load_dataset("parquet", data_files=files, split="every", cache_dir=sys.argv[2], columns=["image"]):
    row["image"].load()
"""


def least_of_files(tree: Path) -> None:
    """Read, hash and decode each file once."""
    from PIL import Image

    for path in sorted(tree.rglob("*.JPEG")):
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        Image.open(io.BytesIO(data)).load()


def least_of_release(release: Path) -> None:
    """Read, hash and decode each image in the shards once."""
    import pyarrow.parquet as pq
    from PIL import Image

    for file in shards(release):
        for batch in pq.ParquetFile(file).iter_batches(100, columns=["image"]):
            for image in batch["image"]:
                data = image["bytes"].as_py()
                hashlib.sha256(data).hexdigest()
                Image.open(io.BytesIO(data)).load()


def least_of_indexes(release: Path) -> None:
    """Read what a page shows of the rows: all columns without pixels."""
    import pyarrow.parquet as pq

    for file in sorted(release.rglob("*.parquet")):
        opened = pq.ParquetFile(file)
        opened.read([name for name in opened.schema_arrow.names if name != "image"])


def decoding_of_files(tree: Path) -> None:
    """Decode each file once."""
    from PIL import Image

    for path in sorted(tree.rglob("*.JPEG")):
        Image.open(path).load()


def products_of_search(release: Path) -> None:
    """Multiply as many matrices as the search for near-duplicates of a release does, in its blocks and by one thread.

    Of each pair of rows these are nine crops of the one and the other, `COORDINATES` numbers each.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    from builders.release.duplicates import listed_comparisons
    from builders.release.entries import SIMILARITY
    from builders.release.manifest import read_manifest

    manifest = read_manifest(release)
    assert manifest.duplicates is not None
    rows = {key: entry.rows for key, entry in manifest.by_key().items()}
    listed = listed_comparisons(manifest.duplicates.compared)
    pairs = sum(rows[each.one] * rows[each.other] for each in listed if each.by == SIMILARITY)
    random = np.random.default_rng(0)
    crops = random.standard_normal((QUERIES * CROPS, COORDINATES), np.float32)
    references = random.standard_normal((COORDINATES, REFERENCES), np.float32)
    with threadpool_limits(1, user_api="blas"):
        for _ in range(-(-pairs // (QUERIES * REFERENCES))):
            crops @ references


def shards(release: Path) -> list[Path]:
    """Return the release's Parquet files with images."""
    import pyarrow.parquet as pq

    return [file for file in sorted(release.rglob("*.parquet")) if "image" in pq.read_schema(file).names]


LEAST = {
    "files": least_of_files,
    "release": least_of_release,
    "indexes": least_of_indexes,
    "decoding": decoding_of_files,
    "products": products_of_search,
}

PARTS = ("pipeline", "decoding", "products")
"""What `build folder` cannot do without."""


def competitors(scratch: Path, images: int) -> dict[str, list[str]]:
    """Return the command of each competitor; those that come first leave what later ones read."""
    from benchmarks.building.release import IMAGEFOLDER

    tree, own, published, out = (scratch / f"{name}{images}" for name in ("tree", "own", "published", "out"))
    python = sys.executable
    ours = [python, "-m", "unknown_detection"]
    folders = ["--in-distribution", str(tree / "known"), "--unknown", f"near={tree / 'unknown'}"]
    source = ["--imagenet", str(scratch / f"source{images}")]

    def least(kind: str, folder: Path) -> list[str]:
        return [python, "-m", "benchmarks.building.commands", "--scratch", str(scratch), "--least", kind, str(folder)]

    return {
        "build folder": [*ours, "build", "folder", *folders, "--out", str(own), "--quiet"],
        "build folder, least": least("files", tree),
        "build folder, pipeline": [
            *(*ours, "build", "folder", *folders, "--out", str(out / "plain"), "--quiet", "--no-near-duplicates"),
        ],
        "build folder, decoding": least("decoding", tree),
        "build folder, products": least("products", own),
        "build folder, datasets": [python, "-c", IMAGEFOLDER, str(tree), str(out / "x.parquet"), str(out / "cache")],
        "verify": [*ours, "verify", str(own)],
        "verify, least": least("release", own),
        "verify, datasets": [python, "-c", DATASETS_PARQUET, str(own / "data"), str(out / "cache")],
        "report": [*ours, "report", str(own), "--out", str(out / "page.html")],
        "report, least": least("indexes", own),
        "materialize": [*ours, "materialize", str(published), "--splits", SPLITS, *source, "--out", str(out / "same")],
        "materialize, least": least("files", tree / "known"),
        "materialize, datasets": [
            *(python, "-c", IMAGEFOLDER, str(tree / "known"), str(out / "x.parquet"), str(out / "cache")),
        ],
    }


def prepare(scratch: Path, images: int) -> None:
    """Write the images, and the release that is materialized; in a process of its own, whose memory is not ours."""
    from benchmarks.building.photographs import write_photographs
    from builders.registry import BENCHMARKS

    classes = BENCHMARKS["imagenet"].parts["imagenet/validation"].class_ids(0)
    tree, source, published = (scratch / f"{name}{images}" for name in ("tree", "source", "published"))
    if not tree.exists():
        write_photographs(tree, classes, images)
    source.mkdir(exist_ok=True)
    if not (source / "train").exists():
        (source / "train").symlink_to((tree / "known").absolute())
    shutil.rmtree(published, ignore_errors=True)
    command = [sys.executable, "-m", "unknown_detection", "build", "imagenet", "--splits", SPLITS, "--allow-partial"]
    run_process([*command, "--imagenet", str(source), "--out", str(published), "--quiet"])


def measure(scratch: Path, images: int, repeats: int) -> dict[str, Timed]:
    """Run all competitors in turn on so many images."""
    out, own = scratch / f"out{images}", scratch / f"own{images}"

    def clean(name: str) -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        if name == "build folder":
            shutil.rmtree(own, ignore_errors=True)

    runs = {
        name: Run(functools.partial(clean, name), functools.partial(run_process, command))
        for name, command in competitors(scratch, images).items()
    }
    results = interleave(runs, repeats)
    for folder in (out, own, scratch / f"published{images}"):
        shutil.rmtree(folder)
    return results


def exponent(seconds: Mapping[int, float]) -> float:
    """Return the exponent of the images in these seconds, by least squares of logarithms."""
    return statistics.linear_regression(
        *([math.log(value) for value in of] for of in (seconds, seconds.values()))
    ).slope


def ratios(results: Mapping[str, Timed]) -> dict[str, dict[str, float]]:
    """Return each command's processor and wall time beside the processor time of what it cannot do without.

    `build folder` is beside the sum of its `PARTS`, too.
    """
    beside = {name.partition(",")[0]: timed.median_processor for name, timed in results.items() if "least" in name}
    parts = sum(results[f"build folder, {part}"].median_processor for part in PARTS)
    found = {name: (results[name], base) for name, base in beside.items()}
    found["build folder, its parts"] = results["build folder"], parts
    return {
        name: {"processor": round(timed.median_processor / base, 2), "wall": round(timed.median / base, 2)}
        for name, (timed, base) in found.items()
    }


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with four times the images' bytes free")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="images of each size")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prepare", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--least", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.least:
        LEAST[args.least[0]](Path(args.least[1]))
        return
    if args.prepare:
        prepare(args.scratch, args.prepare)
        return
    args.scratch.mkdir(exist_ok=True, parents=True)
    by_size: dict[int, dict[str, Timed]] = {}
    for images in args.sizes:
        own = [sys.executable, "-m", "benchmarks.building.commands", "--scratch", str(args.scratch)]
        run_process([*own, "--prepare", str(images)])
        by_size[images] = measure(args.scratch, images, args.repeats)
    largest = max(by_size)
    exponents = {
        name: round(exponent({images: results[name].median_processor for images, results in by_size.items()}), 2)
        for name in by_size[largest]
    }
    size = sum(path.stat().st_size for path in (args.scratch / f"tree{largest}").rglob("*.JPEG"))
    print(f"{largest:,} images; exponents {exponents}")
    for images, results in by_size.items():
        print(f"{images:,} images, times the least work's processor time:")
        for name, ratio in ratios(results).items():
            print(f"    {name:28} processor {ratio['processor']:6.2f}  wall {ratio['wall']:6.2f}")
    processor = {
        str(images): {name: round(timed.median_processor, 3) for name, timed in results.items()}
        for images, results in by_size.items()
    }
    report(
        *(by_size[largest], "build folder, least", "building.commands"),
        images=largest,
        bytes=size,
        exponents=exponents,
        processor=processor,
        ratios={str(images): ratios(results) for images, results in by_size.items()},
    )


if __name__ == "__main__":
    main()
