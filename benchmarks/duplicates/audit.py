"""`builders.commands.audit duplicates` against hashes and nearest neighbours, on 60,000 and 20,000 images.

`python -m benchmarks.duplicates.audit` writes a release of 32 x 32 images (coloured noise with the spectrum of
photographs, no files are needed): a training split, and a test split whose every tenth image is a changed copy of a
training image and whose every twentieth is white noise. Each competitor starts from the release's Parquet files and
ends with pairs: the audit as a command (decoding, digests, search, table, chart, card), perceptual hashes
(`imagehash.phash`, every two compared, at most 10 bits apart) and the nearest neighbour of raw pixels by NumPy's
matrix product, for a sample of the queries. Planted copies found are printed beside the times. Needs `pip install
imagehash`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import imagehash
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from benchmarks.duplicates.near import Images, Pairs, planted
from benchmarks.rivals import Run, interleave, report, run_process
from builders.card.card import write_card_and_manifest
from builders.generate.png import encode
from builders.release.digests import rows_digest
from builders.release.entries import (
    EMPTY,
    BenchmarkEntry,
    ConfigEntry,
    Licence,
    Manifest,
    PartEntry,
    SourceEntry,
    SplitEntry,
)
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.schema import arrow_schema
from builders.release.tables import write_excluded, write_index

SPLITS = {"train": "cifar-train", "test": "cifar"}
MOST_BITS = 10
"""Greatest Hamming distance of two hashes of 64 bits: the default of the package imagededup."""

_ROW_GROUP = 5_000


def write_split(layout: Layout, split: str, images: Images) -> SplitEntry:
    """Write the shard and the index of a split of known images."""
    config, count = SPLITS[split], len(images)
    ids = [f"cifar100/{split}/{number:05d}" for number in range(count)]
    encoded = encode(images)
    rows = {
        "image": [{"bytes": data, "path": None} for data in encoded],
        "label": np.zeros(count, np.int64),
        "role": np.zeros(count, np.int64),
        "class_id": ["x"] * count,
        "class_name": ["x"] * count,
        "source": ["cifar100"] * count,
        "source_id": ids,
        "id": ids,
        "content_sha256": [hashlib.sha256(image.tobytes()).hexdigest() for image in images],
        "stored": ["pixels"] * count,
    }
    table = pa.table(rows, schema=arrow_schema(["x", "y"]))
    path = layout.shard("data", f"{config}/{split}", 0, 1)
    path.parent.mkdir(parents=True)
    pq.write_table(table, path, compression="zstd", row_group_size=_ROW_GROUP)
    write_index(layout.index(f"{config}/{split}"), table, ["x", "y"])
    part = PartEntry(
        key=f"{config}/{split}",
        role="in_distribution",
        source="cifar100",
        partitions=(split,),
        **dict.fromkeys(("rows", "expected", "paper", "available"), count),
        why="",
        excluded_by_rule={},
        adopted="",
        labelled=True,
        classes=1,
        paper_classes=1,
    )
    return SplitEntry(
        parts=(part,),
        withdrawn=(),
        shortfalls=(),
        digest=rows_digest(table),
        data=(file_entry(layout, path),),
        index=file_entry(layout, layout.index(f"{config}/{split}")),
    )


def write_release(root: Path, images: dict[str, Images]) -> None:
    """Write a release of two configs."""
    layout, configs = Layout(root), {}
    for split, config in SPLITS.items():
        entry = write_split(layout, split, images[split])
        write_excluded(layout.excluded(config), [], [])
        configs[config] = ConfigEntry(
            benchmark="cifar",
            description="",
            label_names=("x", "y"),
            columns=(),
            splits={split: entry},
            excluded=file_entry(layout, layout.excluded(config)),
        )
    licence = Licence("none", "https://example.org", "ids-only", "")
    manifest = Manifest(
        format=EMPTY.format,
        benchmarks={"cifar": BenchmarkEntry("Benchmark", "", "", "1.0.0", 0, None, True)},
        configs=configs,
        sources={"cifar100": SourceEntry("Noise", "1", licence, "")},
        withdrawn=(),
    )
    write_card_and_manifest(layout, manifest)


def images_of(root: Path, split: str) -> Iterator[Image.Image]:
    """Decode the images of a split, as a script would."""
    for path in sorted((root / "data" / SPLITS[split]).glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(1024, columns=["image"]):
            for image in batch.column(0).to_pylist():
                yield Image.open(io.BytesIO(image["bytes"])).convert("RGB")


def by_hashes(root: Path) -> Pairs:
    """Return the pairs whose perceptual hashes differ in at most `MOST_BITS` bits."""
    codes = {}
    for split in SPLITS:
        bits = np.array([imagehash.phash(image).hash.ravel() for image in images_of(root, split)])
        codes[split] = np.packbits(bits, axis=1).view(np.uint64).ravel()
    pairs: Pairs = set()
    for start in range(0, len(codes["test"]), 256):
        differing_bits = codes["test"][start : start + 256, None] ^ codes["train"]
        rows, columns = np.nonzero(np.bitwise_count(differing_bits) <= MOST_BITS)
        pairs.update(zip((rows + start).tolist(), columns.tolist(), strict=True))
    return pairs


def by_pixels(root: Path, rows: npt.NDArray[np.int64], reading: list[float]) -> Pairs:
    """Return each test image's pair with its nearest training image; counts the seconds of reading."""
    started = time.perf_counter()
    references = np.array([np.asarray(image).ravel() for image in images_of(root, "train")], np.float32)
    queries = np.array([np.asarray(image).ravel() for image in images_of(root, "test")], np.float32)[rows]
    reading.append(time.perf_counter() - started)
    half = np.square(references).sum(axis=1) / 2
    nearest: list[int] = []
    for start in range(0, len(queries), 250):
        nearest += np.argmin(half - queries[start : start + 250] @ references.T, axis=1).tolist()
    return set(zip(rows.tolist(), nearest, strict=True))


def by_audit(root: Path) -> Pairs:
    """Return the pairs in the table of the audit."""
    with (root / "audit/duplicates.csv").open(encoding="utf-8", newline="") as opened:
        rows = [(row["id"], row["other_id"]) for row in csv.DictReader(opened)]
    numbers = [{name.split("/")[1]: int(name.rpartition("/")[2]) for name in pair} for pair in rows]
    return {(pair["test"], pair["train"]) for pair in numbers if len(pair) == 2}


@click.command()
@click.option("--references", default=60_000, show_default=True)
@click.option("--queries", default=20_000, show_default=True)
@click.option("--sample", default=2_000, show_default=True, help="Queries of the nearest neighbours, scaled up.")
@click.option("--repeats", default=3, show_default=True, help="Runs of each side; the median counts.")
def main(references: int, queries: int, sample: int, repeats: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "release"
        train_images, test_images, copies = planted(references, queries, np.random.default_rng(0))
        write_release(root, {"train": train_images, "test": test_images})
        del train_images, test_images
        sampled = np.sort(np.random.default_rng(1).permutation(queries)[:sample])
        pairs_of: dict[str, Pairs] = {}
        reading: list[float] = []

        def audit() -> float:
            run_process([sys.executable, "-m", "builders.commands.audit", "duplicates", str(root)])
            pairs_of["audit"] = by_audit(root)
            return 0.0  # the system's peak would include this process's own memory, with which the child begins

        def keeping(name: str, work: Callable[[], Pairs]) -> Callable[[], float]:
            def run() -> float:
                pairs_of[name] = work()
                return 0.0

            return run

        runs = {
            "audit": Run(lambda: None, audit),
            "imagehash": Run(lambda: None, keeping("imagehash", lambda: by_hashes(root))),
            "raw-pixel neighbours": Run(
                lambda: None, keeping("raw-pixel neighbours", lambda: by_pixels(root, sampled, reading))
            ),
        }
        load = os.getloadavg()[0]
        results = interleave(runs, repeats)
        pixels = results["raw-pixel neighbours"]
        pixels.seconds = [
            read + (second - read) * queries / sample for read, second in zip(reading, pixels.seconds, strict=True)
        ]
        print(f"{queries:,} x {references:,} images, {len(copies):,} planted copies; load average before: {load:.1f}")
        report(results, "audit")
        for name, pairs in pairs_of.items():
            planted_pairs = {
                pair for pair in copies if name != "raw-pixel neighbours" or pair[0] in set(sampled.tolist())
            }
            hits = len(pairs & planted_pairs)
            print(f"{name:28} {hits:,} of {len(planted_pairs):,} planted copies, {len(pairs) - hits:,} other pairs")


if __name__ == "__main__":
    main()
