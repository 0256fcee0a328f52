"""The cost of a new version: the bytes that the Hub's storage (Xet) stores when ten rows of a split are withdrawn.

`python -m benchmarks.building.new_version --scratch DIR` writes 250,000 JPEGs, builds them as one split, builds them
again without ten that are drawn at random, and hands both versions to the Hub's own client (`hf_xet`), which cuts
files into chunks by their content and here stores them in a folder in place of the Hub. Printed are the bytes of the
second version that were not there, and those of all files that differ, which is what storage by whole files would
take.
"""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
from PIL import Image

from benchmarks import figures
from builders.release.digests import file_sha256
from builders.sources.datasets.imagenet import IMAGENET

WITHDRAWN = 10


def write_tree(tree: Path, images: int, size: int) -> list[Path]:
    """Write JPEGs of 8 x 8 pixels, whose bytes are mostly a comment segment that differs from file to file."""
    encoded = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(encoded, "JPEG")
    data, drawn = encoded.getvalue(), np.random.default_rng(0)
    wnids = sorted(IMAGENET.classes())
    paths = []
    for number in range(images):
        text = drawn.bytes(size - len(data) - 4)
        wnid = wnids[number % len(wnids)]
        path = tree / "train" / wnid / f"{wnid}_{number}.JPEG"
        if number < len(wnids):
            path.parent.mkdir(parents=True)
        path.write_bytes(data[:2] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + data[2:])
        paths.append(path)
    return paths


def build(tree: Path, out: Path) -> dict[str, Path]:
    """Build the tree as one split; returns the release's files by name."""
    subprocess.run([sys.executable, "-m", "benchmarks.building.whole_source", str(tree), str(out)], check=True)
    files = {path.relative_to(out).as_posix(): path for path in sorted(out.rglob("*")) if path.is_file()}
    return {name: path for name, path in files.items() if not name.startswith(".state/")}


def new_bytes(store: Path, files: dict[str, Path]) -> tuple[int, int]:
    """Upload files with the Hub's client; returns the bytes that its storage lacked, and the total."""
    import hf_xet

    commit = hf_xet.XetSession().new_upload_commit(endpoint=f"local://{store}")
    for path in files.values():
        commit.start_upload_file(str(path))
    metrics = commit.wait_to_finish().dedup_metrics
    return metrics.new_bytes, metrics.total_bytes


@click.command(epilog="Example: python -m benchmarks.building.new_version --scratch /tmp/versions --images 50000")
@click.option("--scratch", type=click.Path(path_type=Path), required=True, help="Emptied at the end; 8 GB.")
@click.option("--images", default=250_000, show_default=True)
@click.option("--size", default=8_000, show_default=True, help="Bytes of an image.")
def main(scratch: Path, images: int, size: int) -> None:
    """Build both versions, upload them and print the bytes."""
    tree, store = scratch / "tree", scratch.absolute() / "store"
    paths = write_tree(tree, images, size)
    first = build(tree, scratch / "first")
    for path in random.Random(0).sample(paths, WITHDRAWN):
        path.unlink()
    second = build(tree, scratch / "second")
    _, all_bytes = new_bytes(store, first)
    lacked, total = new_bytes(store, second)
    known = {file_sha256(path) for path in first.values()}
    differ = sum(path.stat().st_size for path in second.values() if file_sha256(path) not in known)
    print(f"{images:,} rows, {WITHDRAWN} withdrawn; {len(second)} files, {total:,} bytes (before: {all_bytes:,})")
    print(f"new to the Hub's storage: {lacked:,} bytes, {lacked / total:.2%}; lower is better")
    figures.record("building.new_version", {"images": images, "new": lacked, "total": total, "files": differ})
    print(f"files that differ: {differ:,} bytes, {differ / total:.2%}")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
