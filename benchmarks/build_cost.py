"""Processor time of building a release against hashing its images once, and what waiting for the disk costs.

`python -m benchmarks.build_cost --scratch DIR` builds 24,000 JPEGs (2 GB, as `benchmarks.build_release` writes them)
in one process, with and without flushing, and in turn reads and hashes each file once. A third competitor does only
what no build can leave out: it reads each image, computes the SHA-256 of the image and that of the file that it goes
into, and writes that file. Prints medians of processor time (user and system, of the whole process) and of elapsed
time.
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


def hash_once(tree: Path) -> None:
    """Read every image and compute its digest."""
    for path in sorted(tree.rglob("*.JPEG")):
        hashlib.sha256(path.read_bytes()).hexdigest()


def both_digests(tree: Path, out: Path) -> None:
    """Read every image, compute its digest and that of all of them, and write them into one file."""
    whole = hashlib.sha256()
    with out.open("wb", buffering=0) as file:
        for path in sorted(tree.rglob("*.JPEG")):
            data = path.read_bytes()
            hashlib.sha256(data).hexdigest()
            whole.update(data)
            file.write(data)


def measured(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds of the processor and of the clock that a command takes.

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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 5 GB free")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--part", choices=("hash", "copy"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    tree, out = args.scratch / "tree", args.scratch / "out"
    if args.part == "hash":
        return hash_once(tree)
    if args.part == "copy":
        return both_digests(tree, out)
    from benchmarks.build_release import write_tree  # with NumPy, whose import is no part of hashing

    if not tree.exists():
        write_tree(tree)
    size = sum(path.stat().st_size for path in tree.rglob("*.JPEG"))
    ours = [sys.executable, "-m", "benchmarks.build_cost", "--scratch", str(args.scratch), "--part"]
    build = [sys.executable, "-m", "benchmarks.whole_source", str(tree), str(out), "--one-worker"]
    plain = {name: value for name, value in os.environ.items() if name != NO_SYNC}
    runs = {
        ONCE: ([*ours, "hash"], plain),
        LEAST: ([*ours, "copy"], plain),
        "builders": (build, plain),
        "builders --no-sync": (build, plain | {NO_SYNC: "1"}),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(args.repeats):
        for name, (command, environment) in runs.items():
            out.unlink() if out.is_file() else shutil.rmtree(out, ignore_errors=True)
            os.sync()
            found[name].append(measured(command, environment))
    base = statistics.median(processor for processor, _ in found[ONCE])
    for name, rounds in found.items():
        processor, clock = (statistics.median(values) for values in zip(*rounds, strict=True))
        each = " ".join(f"{seconds:.2f}" for seconds, _ in rounds)
        print(
            f"{name:26} {processor / size * 1e9:6.2f} s of processor a GB  ratio {processor / base:5.2f}  "
            f"elapsed {clock:6.2f} s  ({each})"
        )
    return None


if __name__ == "__main__":
    main()
