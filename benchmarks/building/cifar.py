"""The CIFAR-40/60 part of the CIFAR-scale benchmark against `Dataset.from_generator` of PIL images and `to_parquet`.

`python -m benchmarks.building.cifar --scratch DIR` writes 60,000 small pictures as CIFAR-100's own pickles, from which
both write the same 30,000 rows. The builder also hashes every image and file, and writes the index and the card;
`--near-duplicates` adds a row for the default build, which also searches for near-duplicates.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_sample_images

from benchmarks.rivals import Run, interleave, report, run_process
from taxonomy import tables

# The script that one would write: load the pickles, yield PIL images with labels, one Parquet file per split.
FROM_GENERATOR = """
import pickle, sys
from PIL import Image
from datasets import ClassLabel, Dataset, Features, Image as ImageFeature, disable_progress_bars
disable_progress_bars()
source, out, cache = sys.argv[1:]
features = Features({"image": ImageFeature(), "label": ClassLabel(num_classes=100)})
known = set(range(0, 100, 5)) | set(range(1, 100, 5))
for part, name, wanted, first, last in (
    ("train", "train", known, 50, 500), ("train", "validation", known, 0, 50),
    ("test", "test", known, 0, 100), ("test", "near_ood", set(range(100)) - known, 0, 100),
):
    def generate(part, wanted, first, last):
        with open(f"{source}/cifar-100-python/{part}", "rb") as opened:
            loaded = pickle.load(opened, encoding="bytes")
        seen = dict.fromkeys(wanted, 0)
        for pixels, label in zip(loaded[b"data"], loaded[b"fine_labels"]):
            if label in wanted:
                seen[label] += 1
                if first < seen[label] <= last:
                    yield {"image": Image.fromarray(pixels.reshape(3, 32, 32).transpose(1, 2, 0)), "label": label}
    arguments = {"part": part, "wanted": wanted, "first": first, "last": last}
    data = Dataset.from_generator(generate, features=features, cache_dir=cache, gen_kwargs=arguments)
    data.to_parquet(f"{out}/{name}.parquet")
"""


def write_pickles(source: Path) -> None:
    """Write `train` and `test` of CIFAR-100 with pieces of scikit-learn's two photographs at several scales."""
    generator = np.random.default_rng(0)
    photographs = [np.ascontiguousarray(image) for image in load_sample_images().images]
    halves = [p[: p.shape[0] // 2 * 2, ::1].reshape(p.shape[0] // 2, 2, 320, 2, 3).mean((1, 3)) for p in photographs]
    pool = [*photographs, *(half.astype(np.uint8) for half in halves)]
    classes = tables.cifar100()
    superclasses = sorted({row.coarse for row in classes})
    folder = source / "cifar-100-python"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        # In the owner's order, which the builder asks of a copy that is called complete.
        labels = np.array(tables.cifar_order("cifar100", part))
        data = np.empty((len(labels), 3072), dtype=np.uint8)
        for row in range(len(labels)):
            picture = pool[generator.integers(len(pool))]
            top, left = (int(generator.integers(size - 32)) for size in picture.shape[:2])
            data[row] = picture[top : top + 32, left : left + 32].transpose(2, 0, 1).ravel()
        coarse = [superclasses.index(classes[label].coarse) for label in labels]
        members = {
            b"filenames": [f"{part}_{i}.png".encode() for i in range(len(labels))],
            b"batch_label": b"made up",
            b"fine_labels": labels.tolist(),
            b"coarse_labels": coarse,
            b"data": data,
        }
        # Protocol 3 stores bytes directly, as Python 2 did in the original's protocol 2.
        (folder / part).write_bytes(pickle.dumps(members, protocol=3))
    names = {"fine_label_names": [row.fine for row in classes], "coarse_label_names": superclasses}
    (folder / "meta").write_bytes(pickle.dumps(names, protocol=2))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 1 GB free; emptied at the end")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--near-duplicates", action="store_true", help="also time a build that searches for near-duplicates"
    )
    args = parser.parse_args()
    source, out, plain, cache = (args.scratch / name for name in ("source", "release", "plain", "cache"))
    if not source.exists():
        write_pickles(source)

    def cleaning(*paths: Path) -> Callable[[], None]:
        return lambda: [shutil.rmtree(path, ignore_errors=True) for path in paths] and None

    def build(module: str) -> Callable[[], float]:
        splits = "cifar/validation,cifar/test,cifar/near_ood,cifar-train"
        flags = ["--cifar100", str(source), "--splits", splits, "--out", str(out), "--quiet"]
        return lambda: run_process([sys.executable, "-m", module, *flags])

    def from_generator() -> float:
        plain.mkdir(parents=True)
        return run_process([sys.executable, "-c", FROM_GENERATOR, str(source), str(plain), str(cache)])

    runs = {
        "builders": Run(cleaning(out), build("benchmarks.building.cifar_without_duplicates")),
        "from_generator + to_parquet": Run(cleaning(plain, cache), from_generator),
    }
    if args.near_duplicates:
        runs["builders, near-duplicates too"] = Run(cleaning(out), build("builders.cifar_benchmark"))
    report(interleave(runs, args.repeats), "builders", "building.cifar")
    cleaning(out, plain, cache)()


if __name__ == "__main__":
    main()
