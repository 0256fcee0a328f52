"""The seconds, memory and bytes that the page of a release of 800,000 rows takes.

`python -m benchmarks.building.release_page --scratch DIR` writes a release with the configs of all benchmarks' usual
size: 40 splits of 20,000 rows, of all 1,000 classes of ILSVRC2012, with a table of exclusions for each and with images
(the same 16 JPEGs of noise, 375 x 500 pixels, in the first row group of each split). It times `python -m
builders.commands.report`, and as its rival the least that it has to do: reading the indexes' columns with pyarrow. On
a shared machine, compare the processor's seconds: 4.8 where the page took 15.6 s with 14 processes waiting for two
cores, and 343 MB; reading the indexes took 2.4 s then.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import resource
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from benchmarks.rivals import Run, interleave, report, run_process
from builders.release.entries import (
    BenchmarkEntry,
    ConfigEntry,
    Licence,
    Manifest,
    PartEntry,
    SourceEntry,
    SplitEntry,
)
from builders.release.layout import CARD, MANIFEST, Layout
from builders.release.manifest import file_entry, write_manifest
from builders.release.schema import ROLES, Role, arrow_schema
from builders.release.tables import Exclusion, write_excluded
from taxonomy import tables

CONFIGS, SPLITS, ROWS = 8, 5, 20_000
PICTURED = 256  # rows with a photograph; the others have the smallest PNG, to spare the disk
ROLES_OF_SPLITS: tuple[Role, ...] = ("in_distribution", "in_distribution", "near_ood", "far_ood", "external")
LIMIT_SECONDS, LIMIT_MB, LIMIT_PICTURES = 30, 1_000, 3_000_000

READ = """
import pathlib, sys
import pyarrow.parquet as pq
for path in sorted(pathlib.Path(sys.argv[1]).rglob("index/*/*.parquet")):
    pq.read_table(path, columns=["role", "source", "class_id", "class_name"])
"""


def photographs(count: int) -> list[bytes]:
    """Make JPEGs of 375 x 500 pixels and about 110 KB, as ILSVRC2012's are on average."""
    random, jpegs = np.random.default_rng(0), []
    for _ in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (94, 125, 3), np.uint8)).resize((500, 375))
        encoded = io.BytesIO()
        coarse.save(encoded, "JPEG", quality=92)
        jpegs.append(encoded.getvalue())
    return jpegs


def write_release(root: Path) -> None:
    """Write a release: rows as builds write them, without the digests that only `verify` reads."""
    layout, classes, pictures = Layout(root), tables.imagenet1k(), photographs(16)
    labels = [row.wnid for row in classes]
    blank = io.BytesIO()
    Image.new("L", (1, 1)).save(blank, "PNG")
    configs = {}
    for number in range(CONFIGS):
        config = f"config-{number}"
        splits, excluded = {}, []
        for place in range(SPLITS):
            split, role = f"split_{place}", ROLES_OF_SPLITS[place]
            columns = rows(config, split, role, classes)
            images = [
                {"bytes": pictures[row % len(pictures)] if row < PICTURED else blank.getvalue(), "path": f"{row}.jpg"}
                for row in range(ROWS)
            ]
            schema = arrow_schema(labels)
            table = pa.table({"image": pa.array(images, schema.field("image").type), **columns}, schema=schema)
            index = layout.index(f"{config}/{split}")
            index.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.drop_columns("image"), index, compression="zstd")
            shard = layout.shard("data", f"{config}/{split}", 0, 1)
            shard.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, shard, compression="zstd", row_group_size=1_000)
            key = f"{config}/{split}"
            excluded += [
                Exclusion(key, "imagenet", "train", c.wnid, c.name, "", 7, "image-not-drawn", "keyed rank beyond 20")
                if n % 2
                else Exclusion(
                    key, "imagenet", "train", c.wnid, c.name, "", 9, "below_parent", f"evidence of {c.name}"
                )
                for n, c in enumerate(classes)
            ]
            part = PartEntry(
                key=key,
                role=role,
                source="imagenet",
                partitions=("train",),
                **dict.fromkeys(("rows", "expected", "paper"), ROWS),
                why="",
                available=ROWS + 8_000,
                excluded_by_rule={"below_parent": 4_500, "image-not-drawn": 3_500},
                adopted="",
                labelled=role == "in_distribution",
                **dict.fromkeys(("classes", "paper_classes"), len(classes)),
            )
            splits[split] = SplitEntry(
                parts=(part,),
                withdrawn=(),
                shortfalls=(),
                digest=hashlib.sha256(key.encode()).hexdigest(),
                data=(file_entry(layout, shard),),
                index=file_entry(layout, index),
            )
        write_excluded(layout.excluded(config), excluded, [f"{config}/{split}" for split in splits])
        configs[config] = ConfigEntry(
            benchmark="imagenet",
            description="A generated config.",
            label_names=tuple(labels),
            columns=(),
            splits=splits,
            excluded=file_entry(layout, layout.excluded(config)),
        )
    layout.inside(CARD).write_text("")
    write_manifest(
        root,
        Manifest(
            format=1,
            benchmarks={"imagenet": BenchmarkEntry("A benchmark", "A paper", "@misc{paper}", "1.0.0", 0, None, True)},
            configs=configs,
            sources={"imagenet": SourceEntry("ImageNet", "2012", Licence("terms", "", "ids-only", "terms"), "")},
            withdrawn=(),
            card=file_entry(layout, layout.inside(CARD)),
        ),
    )


def rows(config: str, split: str, role: Role, classes: tuple[tables.ImageNetClass, ...]) -> dict[str, pa.Array]:
    """Return the columns of a split, with its classes in random order."""
    drawn = np.random.default_rng(len(config + split)).integers(0, len(classes), ROWS)
    ids = [f"imagenet/{config}/{split}/{row}.JPEG" for row in range(ROWS)]
    return {
        "label": pa.array(drawn),
        "role": pa.array(np.full(ROWS, ROLES.index(role))),
        "class_id": pa.array([classes[place].wnid for place in drawn]),
        "class_name": pa.array([classes[place].name for place in drawn]),
        "source": pa.array(["imagenet"] * ROWS),
        "source_id": pa.array(ids),
        "id": pa.array(ids),
        "content_sha256": pa.array([hashlib.sha256(row_id.encode()).hexdigest() for row_id in ids]),
        "stored": pa.array(["source"] * ROWS),
    }


def main() -> int:
    """Run the benchmark; returns 1 if the page takes more than its limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder for the release; it is kept")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    root, page = args.scratch / "release-800k", args.scratch / "release-800k.html"
    if not Layout(root).inside(MANIFEST).exists():
        shutil.rmtree(root, ignore_errors=True)
        write_release(root)
    command = [sys.executable, "-m", "builders.commands.report", str(root)]
    runs = {
        "reading the indexes": Run(lambda: None, lambda: run_process([sys.executable, "-c", READ, str(root)])),
        "python -m builders.commands.report": Run(
            lambda: page.unlink(missing_ok=True), lambda: run_process([*command, "--out", str(page)])
        ),
    }
    results = interleave(runs, args.repeats)
    report(results, "reading the indexes")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_process([*command, "--out", str(page)])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"processor: {spent:.1f} s for the page, after which {os.getloadavg()[0]:.1f} processes wait on average")
    text = page.read_text(encoding="utf-8")
    pictures = sum(len(part.partition('"')[0]) for part in text.split('src="data:')[1:])
    print(f"{CONFIGS * SPLITS * ROWS:,} rows: a page of {len(text.encode()):,} bytes, {pictures:,} of them pictures")
    page_run = results["python -m builders.commands.report"]
    within = page_run.median < LIMIT_SECONDS and page_run.peak_mb < LIMIT_MB and pictures <= LIMIT_PICTURES
    print(f"{'within' if within else 'BEYOND'} {LIMIT_SECONDS} s, {LIMIT_MB:,} MB and {LIMIT_PICTURES:,} bytes")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
