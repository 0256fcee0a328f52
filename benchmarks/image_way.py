"""Counts which of our files and functions an image passes in a build, to measure how hard a build is to follow.

`python -m benchmarks.image_way [TREE ...]` builds one split of the demo's ImageNet in one process, in this checkout
and in other ones, and notes every function of ours the first time that it is called. `files` are the files that
have one, `stops` the functions, `returns` how often the way comes back to a file that it had left: once up to the
written shard, where the image is in the release, and once of the whole build, which also describes it (duplicates,
card, manifest). `--list` prints the way. Imports are done before, so what runs at import does not count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).parents[1]
PACKAGES = ("builders", "hf_scripts", "taxonomy", "unknown_detection")
SPLIT = "imagenet/test"
WRITES = "ShardTask.run"
"""The function that returns when a shard is written."""

Way = list[tuple[str, str]]
"""The functions of ours that were called as (file, qualified name), by their first calls."""


def follow(tree: Path) -> tuple[Way, int]:
    """Run a build; returns the stops on an image's way, and how many come before its shard is written."""
    from builders.demo.write import write_demo
    from builders.imagenet_benchmark import main

    inside = tuple(f"{tree / package}{os.sep}" for package in PACKAGES)
    way: dict[tuple[str, str], None] = {}
    written = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal written
        code = frame.f_code
        if event == "return" and code.co_qualname == WRITES:
            written = len(way)
        if event == "call" and code.co_filename.startswith(inside) and not code.co_name.startswith("<"):
            way[code.co_filename.removeprefix(f"{tree}{os.sep}"), code.co_qualname] = None

    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        write_demo(root / "demo", ["imagenet"])
        flags = ["--imagenet", str(root / "demo" / "imagenet"), "--allow-partial", "--splits", SPLIT, "--workers", "1"]
        if main([*flags, "--quiet", "--dry-run"]):  # imports what a build needs
            raise RuntimeError(f"the dry run failed in {tree}")
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            code = main([*flags, "--quiet", "--out", str(root / "out")])
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        if code:
            raise RuntimeError(f"the build failed in {tree}")
    return list(way), written


def counts(way: Way) -> str:
    """Count files, stops, and returns to a file that was left before."""
    left_files: set[str] = set()
    count, last = 0, ""
    for file, _ in way:
        if file != last:
            count += file in left_files
            left_files.add(last)
            last = file
    return f"{len({file for file, _ in way}):5} {len(way):5} {count:7}"


def main() -> None:
    """Count and print, in a process for each tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, help="other checkouts")
    parser.add_argument("--list", action="store_true", help="print the way through this one")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        way, written = follow(args.child)
        print(counts(way[:written]), counts(way), sep="   ", file=sys.stderr)
        for number, (file, name) in enumerate(way if args.list else ()):
            print(f"  {file}: {name}{'  <- the shard is written' * (number == written - 1)}", file=sys.stderr)
        return
    print("to the written shard  the whole build\nfiles stops returns   files stops returns  tree")
    for tree in (HERE, *(path.resolve() for path in args.trees)):
        child = [sys.executable, str(HERE / "benchmarks" / "image_way.py"), "--child", str(tree)]
        child += ["--list"] if args.list and tree == HERE else []
        env = os.environ | {"PYTHONPATH": str(tree)}
        completed = subprocess.run(child, cwd=tree, env=env, capture_output=True, text=True, check=True)
        print(completed.stderr.rstrip(), "", tree.name, flush=True)


if __name__ == "__main__":
    main()
