"""Processor time and memory of `build folder` where something is many: rows, classes, empty class folders, shards.

`python -m benchmarks.building.shapes --scratch DIR [SHAPE ...]` builds images of 8 x 8 pixels, at three sizes of each
shape, without the search for near-duplicates and without waiting for the disk, and runs `verify --check fast` on them.
With `--near` both commands do all that they do by default. Processor time counts workers, and memory is that of the
largest process. The exponent is that of processor time by least squares of logarithms, starting Python not counted: 1
is linear.

Shards are cut at a number of bytes that gives two images each. Empty class folders are refused, and how long that
takes is measured.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import figures
from benchmarks.building.commands import exponent
from benchmarks.rivals import Run, interleave, run_process

MANY = {"rows": 1_000_000, "classes": 100_000, "empty": 100_000, "shards": 10_000}
"""What is many, and how many a user may have of it (ours)."""

FRACTIONS = (10, 3, 1)
"""The sizes are this part of it (ours)."""

START = 100
"""The size whose time counts as that of starting Python (ours)."""

KNOWN, FEW = 3, 20
"""Classes, and images of a class or of unknown ones, where there are not many (ours)."""

FAST = ("--check", "fast")

# In place of 512 MiB a shard; workers are told which rows they write.
BUILD = """
import sys
from builders.pipeline import read_plan
read_plan.SHARD_BYTES, expected = int(sys.argv.pop(1)) or read_plan.SHARD_BYTES, int(sys.argv.pop(1))
from unknown_detection.__main__ import main
sys.exit(main(sys.argv[1:]) != expected)
"""


def maker() -> Callable[[Path, int], None]:
    """Return a function that writes the image with a number, always in as many bytes, in 20 microseconds.

    It is noise of 8 x 8 pixels, so no two are equal or near. Of images that are all alike each two would be
    near-duplicates, and the search takes a millisecond for each pair that it finds.
    """
    import random
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    end = chunk(b"IEND", b"")

    def write(path: Path, number: int) -> None:
        noise = random.Random(number).randbytes(8 * 8 * 3)
        rows = b"".join(b"\0" + noise[start : start + 24] for start in range(0, len(noise), 24))
        path.write_bytes(head + chunk(b"IDAT", zlib.compress(rows, 0)) + end)

    return write


def write_tree(tree: Path, shape: str, size: int) -> None:
    """Write class folders with so many of what is many."""
    write = maker()
    images = {"rows": size, "classes": size, "empty": KNOWN * FEW, "shards": 2 * size}[shape]
    classes = size if shape == "classes" else 10 if shape == "rows" else KNOWN
    known = tree / "known"
    # A class needs few images where nothing is drawn.
    parts = {"train": classes, "validation": FEW, "test": FEW} if shape == "classes" else {"": classes}
    number = 0
    for part, count in parts.items():
        for of in range(count):
            (known / part / f"class-{of:06d}").mkdir(parents=True)
        for image in range(images if part in ("", "train") else count):
            write(known / part / f"class-{image % count:06d}" / f"{number:08d}.png", number)
            number += 1
    for of in range(size if shape == "empty" else 0):
        (known / f"empty-{of:06d}").mkdir()
    (tree / "unknown").mkdir()
    for image in range(FEW):
        write(tree / "unknown" / f"{image}.png", number + image)


def measure(scratch: Path, shape: str, size: int, *, near: bool) -> dict[str, dict[str, float]]:
    """Build and check a tree of this shape once."""
    tree, out = scratch / "tree", scratch / "out"
    for folder in (tree, out):
        shutil.rmtree(folder, ignore_errors=True)
    write_tree(tree, shape, size)
    image = (tree / "unknown" / "0.png").stat().st_size
    folders = ["--in-distribution", str(tree / "known"), "--unknown", f"near={tree / 'unknown'}", "--out", str(out)]
    flags = ["--no-sync", "--quiet", *([] if near else ["--no-near-duplicates"])]
    cut, expected = str(2 * image if shape == "shards" else 0), str(2 if shape == "empty" else 0)
    commands = {
        "build": [sys.executable, "-c", BUILD, cut, expected, "build", "folder", *folders, *flags],
        "verify": [sys.executable, "-m", "unknown_detection", "verify", str(out), *([] if near else FAST)],
    }
    if shape == "empty":
        del commands["verify"]
    runs = {
        name: Run(lambda: None, lambda command=command: run_process(command))  # type: ignore[misc]
        for name, command in commands.items()
    }
    results = interleave(runs, 1)
    for folder in (tree, out):
        shutil.rmtree(folder, ignore_errors=True)
    return {name: timed.figures() for name, timed in results.items()}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(MANY))
    parser.add_argument("--near", action="store_true", help="with the defaults: near-duplicates, all checks")
    parser.add_argument("--part", type=int, default=1, metavar="N", help="build an N-th of the sizes")
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 5 GB and 1.2 million inodes free")
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    for shape in args.shapes or MANY:
        start = measure(args.scratch, shape, START, near=args.near)
        sizes = [MANY[shape] // (args.part * fraction) for fraction in FRACTIONS]
        measured = {size: measure(args.scratch, shape, size, near=args.near) for size in sizes}
        exponents = {}
        for name, once in start.items():
            grown = {size: of[name]["processor"] - once["processor"] for size, of in measured.items()}
            exponents[name] = round(exponent(grown), 2)
        print(shape, measured, exponents, flush=True)
        figures.record(
            f"building.shapes, {shape}{', near' if args.near else ''}",
            {"exponents": exponents, "sizes": {str(size): each for size, each in measured.items()}},
        )


if __name__ == "__main__":
    main()
