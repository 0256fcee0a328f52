"""Processor time of building a release against hashing its images once, and the cost of waiting for the disk.

`python -m benchmarks.building.cost --scratch DIR` builds 24,000 JPEGs (2 GB, as `benchmarks.building.release` writes
them) in one process, with and without flushing, and in turn reads and hashes each file once. A third competitor does
only the work that every build needs: it reads each image, computes the SHA-256 of the image and of one file of all
images, and writes that file. Each also runs on a sixth of the images. Prints the processor time (user and system, of
the process and its children) of a GB more, which is the difference of both sizes' medians, and the rest of the larger
one, which is starting Python and imports. The ratio is of the former.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from unknown_detection.durable import NO_SYNC

ONCE = "SHA-256 of each file"
LEAST = "both digests, and a copy"


PART = 6
"""The smaller size is one image in so many (ours)."""


def link_part(tree: Path, part: Path) -> None:
    """Make a tree of links to one image for each class in `PART`."""
    for folder in sorted((tree / "train").iterdir()):
        (part / "train" / folder.name).mkdir(parents=True)
        for path in sorted(folder.iterdir())[::PART]:
            (part / "train" / folder.name / path.name).hardlink_to(path)


def both_digests(tree: Path, out: Path) -> None:
    """Read every image, hash it alone and with all others, and write the images into one file."""
    joined = hashlib.sha256()
    with out.open("wb", buffering=0) as file:
        for path in sorted(tree.rglob("*.JPEG")):
            data = path.read_bytes()
            hashlib.sha256(data).hexdigest()
            joined.update(data)
            file.write(data)


def measured(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a command; returns its processor seconds and its wall-clock seconds.

    Raises:
        RuntimeError: it failed.
    """
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - started


def competitors(scratch: Path, tree: Path) -> dict[str, tuple[list[str], Mapping[str, str]]]:
    """Return the command of each competitor for a tree, and its environment."""
    plain = {name: value for name, value in os.environ.items() if name != NO_SYNC}
    own = [sys.executable, "-m", "benchmarks.building.cost", "--scratch", str(scratch), "--tree", str(tree), "--part"]
    build = [sys.executable, "-m", "benchmarks.building.whole_source", str(tree), str(scratch / "out"), "--one-worker"]
    return {
        ONCE: ([*own, "hash"], plain),
        LEAST: ([*own, "copy"], plain),
        "builders": (build, plain),
        "builders --no-sync": (build, plain | {NO_SYNC: "1"}),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 5 GB free")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--part", choices=("hash", "copy"), help=argparse.SUPPRESS)
    parser.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    tree, small, out = (args.scratch / name for name in ("tree", "small", "out"))
    if args.part == "hash":
        for path in sorted(args.tree.rglob("*.JPEG")):
            hashlib.sha256(path.read_bytes()).hexdigest()
        return
    if args.part == "copy":
        both_digests(args.tree, out)
        return
    from benchmarks.building.release import write_tree  # with NumPy, whose import is no part of hashing

    if not tree.exists():
        write_tree(tree)
    if not small.exists():
        link_part(tree, small)
    timings: dict[tuple[str, Path], list[tuple[float, float]]] = {}
    for _ in range(args.repeats):
        for images in (small, tree):
            for name, (command, environment) in competitors(args.scratch, images).items():
                out.unlink() if out.is_file() else shutil.rmtree(out, ignore_errors=True)
                os.sync()
                timings.setdefault((name, images), []).append(measured(command, environment))
    gigabytes = {t: sum(path.stat().st_size for path in t.rglob("*.JPEG")) / 1e9 for t in (small, tree)}
    base = 0.0
    for name in competitors(args.scratch, tree):
        less, more = (statistics.median(seconds for seconds, _ in timings[name, t]) for t in (small, tree))
        cost = (more - less) / (gigabytes[tree] - gigabytes[small])
        base = base or cost
        clock = statistics.median(seconds for _, seconds in timings[name, tree])
        start = more - cost * gigabytes[tree]
        print(
            f"{name:26} {cost:5.2f} s of processor a GB, ratio {cost / base:4.2f}; start {start:5.2f} s; "
            f"elapsed {clock:6.2f} s  ({' '.join(f'{seconds:.2f}' for seconds, _ in timings[name, tree])})"
        )


if __name__ == "__main__":
    main()
