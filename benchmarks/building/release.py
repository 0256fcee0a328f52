"""Building a Parquet release against `cp -r` and against `load_dataset("imagefolder")`.

`python -m benchmarks.building.release --scratch DIR` writes 24,000 unique JPEGs of about 85 KB into 1,000 class
folders (2 GB), and builds all of them, digests included, with the pipeline and the ImageNet source of a real build.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.rivals import Run, interleave, report, run_process
from builders.sources.datasets.imagenet import IMAGENET

CLASSES = 1000
IMAGES_PER_CLASS = 24

# The script that one would write: scan the folders, embed the bytes (`to_parquet` alone stores paths), write Parquet.
IMAGEFOLDER = """
import sys
from datasets import load_dataset, disable_progress_bars
from datasets.table import embed_table_storage
disable_progress_bars()
tree, out, cache = sys.argv[1:]
data = load_dataset("imagefolder", data_dir=tree, split="train", cache_dir=cache)
fmt = data.format
data = data.with_format("arrow").map(embed_table_storage, batched=True, batch_size=1000).with_format(**fmt)
data.to_parquet(out)
"""


def write_tree(tree: Path, per_class: int = IMAGES_PER_CLASS) -> None:
    """Write JPEGs of one photograph-like picture, each made unique by a comment segment."""
    noise = np.random.default_rng(0).normal(0, 1, (500, 375, 3)).cumsum(axis=0).cumsum(axis=1)
    pixels = ((noise - noise.min()) / np.ptp(noise) * 255).astype(np.uint8)
    pixels = pixels + np.random.default_rng(1).integers(0, 40, pixels.shape, dtype=np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "JPEG", quality=92)
    data = encoded.getvalue()
    for wnid in sorted(IMAGENET.classes())[:CLASSES]:
        folder = tree / "train" / wnid
        folder.mkdir(parents=True)
        for i in range(per_class):
            text = f"{wnid}_{i}".encode()
            comment = b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text
            (folder / f"{wnid}_{i}.JPEG").write_bytes(data[:2] + comment + data[2:])
    print(f"{CLASSES * per_class:,} JPEGs of {len(data):,} bytes")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 8 GB free; emptied at the end")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--per-class", type=int, default=IMAGES_PER_CLASS, help="images of each of 1,000 classes")
    parser.add_argument("--skip-imagefolder", action="store_true")
    args = parser.parse_args()
    tree, out, copy, cache = (args.scratch / name for name in ("tree", "release", "copy", "cache"))
    if not tree.exists():
        write_tree(tree, args.per_class)
    subprocess.run(["cp", "-r", f"{tree}/.", copy], check=True)  # the first read of the tree is nobody's

    def cleaning(*paths: Path) -> Callable[[], None]:
        return lambda: [shutil.rmtree(path, ignore_errors=True) for path in paths] and None

    def cp() -> float:
        run_process(["cp", "-r", f"{tree}/.", str(copy)])
        return 0.0

    def build() -> float:
        return run_process([sys.executable, "-m", "benchmarks.building.whole_source", str(tree), str(out)])

    def imagefolder() -> float:
        out.mkdir(parents=True)
        return run_process(
            [sys.executable, "-c", IMAGEFOLDER, str(tree / "train"), str(out / "x.parquet"), str(cache)]
        )

    runs = {"cp -r": Run(cleaning(copy), cp), "builders": Run(cleaning(out), build)}
    if not args.skip_imagefolder:
        runs["imagefolder + to_parquet"] = Run(cleaning(out, cache), imagefolder)
    report(interleave(runs, args.repeats), "cp -r", "building.release", images=CLASSES * args.per_class)
    cleaning(out, copy, cache)()


if __name__ == "__main__":
    main()
