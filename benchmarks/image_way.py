"""Count our files and functions that a build goes through, as a measure of how hard it is to follow.

`python -m benchmarks.image_way [TREE ...]` builds one split of the demo's ImageNet in one process, in this checkout
and in other ones, and notes every function of ours the first time that it is called. `files` are the files that
have one, `stops` the functions, `returns` how often the way comes back to a file that it had left. `--list` prints the
way. Imports are done before, so what runs at import does not count.
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


def follow(tree: Path) -> list[tuple[str, str]]:
    """Build, and return the functions that were called as (file, qualified name), by their first calls."""
    from builders.demo.write import write_demo
    from builders.imagenet_benchmark import main

    inside = tuple(f"{tree / package}{os.sep}" for package in PACKAGES)
    way: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
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
    return list(way)


def returns(way: list[tuple[str, str]]) -> int:
    """Return how often the way comes back to a file that it had left."""
    left_files: set[str] = set()
    count, last = 0, ""
    for file, _ in way:
        if file != last:
            count += file in left_files
            left_files.add(last)
            last = file
    return count


def main() -> None:
    """Count and print, in a process for each tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, help="other checkouts")
    parser.add_argument("--list", action="store_true", help="print the way through this one")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        way = follow(args.child)
        files = len({file for file, _ in way})
        print(f"{files:5} {len(way):5} {returns(way):7}", file=sys.stderr)
        for file, name in way if args.list else ():
            print(f"  {file}: {name}", file=sys.stderr)
        return
    print("files stops returns  tree")
    for tree in (HERE, *(path.resolve() for path in args.trees)):
        child = [sys.executable, str(HERE / "benchmarks" / "image_way.py"), "--child", str(tree)]
        child += ["--list"] if args.list and tree == HERE else []
        env = os.environ | {"PYTHONPATH": str(tree)}
        completed = subprocess.run(child, cwd=tree, env=env, capture_output=True, text=True, check=True)
        print(completed.stderr.rstrip(), "", tree.name, flush=True)


if __name__ == "__main__":
    main()
