"""Planning all seven FACETS configs from full-size sources, against a bare scan of their folders.

`python -m benchmarks.plan_facets --scratch DIR` writes trees of empty files with the real folders, counts and kinds of
names (planning opens no image): ImageNet's 1,331,167 files, SUN397's 108,754, Places365's 36,500 validation images,
SVHN's 46,470. Then it plans every split as a dry run, about a million rows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from benchmarks.plan_imagenet import SCAN, write_tree
from benchmarks.rivals import Run, interleave, report, run_process
from builders.sources.svhn_full import SVHN_FULL
from taxonomy import tables

_PLACES_PER_CLASS = 100


def _touch(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT))


def _letters(number: int) -> str:
    """Return a name of letters alone, as SUN397's images have."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(16))


def write_trees(root: Path) -> int:
    """Write the four sources; returns how many images they have."""
    files = write_tree(root / "imagenet", 100)
    for row in tables.sun397():
        folder = root / "sun397" / "SUN397" / row.category[1:]
        folder.mkdir(parents=True)
        for number in range(row.images):
            _touch(folder / f"sun_{_letters(number)}.jpg")
        files += row.images
    places = root / "places365"
    (places / "val_256").mkdir(parents=True)
    lines = []
    for number in range(_PLACES_PER_CLASS * len(tables.places365())):
        name = f"Places365_val_{number + 1:08d}.jpg"
        _touch(places / "val_256" / name)
        lines.append(f"{name} {number % len(tables.places365())}\n")
    (places / "places365_val.txt").write_text("".join(lines), encoding="utf-8")
    categories = "".join(f"{row.category} {row.index}\n" for row in tables.places365())
    (places / "categories_places365.txt").write_text(categories, encoding="utf-8")
    files += len(lines)
    for partition, expected in SVHN_FULL.expected().items():
        folder = root / "svhn_full" / partition
        folder.mkdir(parents=True)
        for number in range(expected.total):
            _touch(folder / f"{number + 1}.png")
        files += expected.total
    return files


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--scratch", type=Path, required=True, help="folder with 1.7 million free inodes; emptied at the end"
    )
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    files = write_trees(args.scratch)
    command = [sys.executable, "-m", "builders.facets_benchmark", "--dry-run"]
    for source in ("imagenet", "sun397", "places365", "svhn_full"):
        command += [f"--{source}", str(args.scratch / source)]
    scan = [sys.executable, "-c", SCAN, str(args.scratch)]
    run_process(scan)  # the first scan warms the cache and is nobody's
    results = interleave(
        {
            "plan of seven configs": Run(lambda: None, lambda: run_process(command)),
            "bare os.walk": Run(lambda: None, lambda: run_process(scan)),
        },
        args.repeats,
    )
    report(results, "bare os.walk")
    print(f"{files:,} files")
    shutil.rmtree(args.scratch)


if __name__ == "__main__":
    main()
