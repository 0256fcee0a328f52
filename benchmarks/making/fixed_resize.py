"""The fixed resize of ImageNet-size JPEGs in a build against a bare loop that decodes and resizes.

`python -m benchmarks.making.fixed_resize --scratch DIR` writes 12,000 JPEGs of 500 x 375 (about 110 KB) and shrinks
them to 32 x 32 in as many processes as there are cores: a bare Pillow loop that stores nothing, and the whole build of
a release.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from benchmarks.rivals import Run, interleave, report, run_process
from builders.sources.datasets.imagenet import IMAGENET

CLASSES = 100
IMAGES_PER_CLASS = 120


def write_tree(tree: Path) -> None:
    """Write JPEGs: turned and brightened pieces of two photographs, each made unique by a comment segment."""
    generator = np.random.default_rng(0)
    photographs = load_sample_images().images
    variants = []
    for _ in range(60):
        photograph = Image.fromarray(photographs[generator.integers(2)]).rotate(180 * int(generator.integers(2)))
        left, top = int(generator.integers(640 - 500)), int(generator.integers(427 - 375))
        piece = photograph.crop((left, top, left + 500, top + 375))
        encoded = io.BytesIO()
        piece.point([min(255, int(v * generator.uniform(0.7, 1.2))) for v in range(256)] * 3).save(
            encoded, "JPEG", quality=94
        )
        variants.append(encoded.getvalue())
    for number, wnid in enumerate(sorted(IMAGENET.classes())[:CLASSES]):
        folder = tree / "train" / wnid
        folder.mkdir(parents=True)
        for i in range(IMAGES_PER_CLASS):
            data = variants[(number * IMAGES_PER_CLASS + i) % len(variants)]
            text = f"{wnid}_{i}".encode()
            comment = b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text
            (folder / f"{wnid}_{i}.JPEG").write_bytes(data[:2] + comment + data[2:])
    print(f"{CLASSES * IMAGES_PER_CLASS:,} JPEGs of {np.mean([len(v) for v in variants]):,.0f} bytes on average")


def bare(path: str) -> int:
    """Decode and resize one image in the straightforward way."""
    with Image.open(path) as image:
        return image.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR).width


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 2 GB free; emptied at the end")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    tree, out = args.scratch / "tree", args.scratch / "release"
    if not tree.exists():
        write_tree(tree)
    paths = [str(path) for path in sorted((tree / "train").rglob("*.JPEG"))]
    cores = os.cpu_count() or 1

    def loop() -> float:
        with multiprocessing.get_context("spawn").Pool(cores) as pool:
            return float(0 * sum(pool.imap_unordered(bare, paths, chunksize=64)))

    def build() -> float:
        return run_process([sys.executable, "-m", "benchmarks.building.whole_source", str(tree), str(out), "--resize"])

    loop()  # the first read of the tree is nobody's
    runs = {
        "bare Pillow loop": Run(lambda: None, loop),
        "builders": Run(lambda: shutil.rmtree(out, ignore_errors=True), build),
    }
    report(interleave(runs, args.repeats), "bare Pillow loop")
    shutil.rmtree(args.scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
