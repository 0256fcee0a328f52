"""Planning all of ILSVRC2012 against a bare scan of its folders, and the cost per file at a tenth of the files.

`python -m benchmarks.plan_imagenet --scratch DIR` writes a tree of 1,331,167 empty files with ILSVRC2012's class
folders, counts and kinds of names (planning opens no image), and plans the six ImageNet splits of the benchmark as a
dry run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from benchmarks.rivals import Run, interleave, report, run_process
from taxonomy import tables

VAL_PER_CLASS = 50

SPLITS = (
    "imagenet/validation,imagenet/test,imagenet/near_ood,imagenet/external_validation,imagenet-train,imagenet-external"
)

SCAN = """
import os, sys
files = sum(1 for _, _, names in os.walk(sys.argv[1]) for _ in names)
"""


def write_tree(root: Path, per_cent: int) -> int:
    """Write empty files: `per_cent` of every class's training images and all validation images; return how many."""
    files = number = 0
    for row in tables.imagenet1k():
        train, val = root / "train" / row.wnid, root / "val" / row.wnid
        train.mkdir(parents=True)
        val.mkdir(parents=True)
        for i in range(row.train_images * per_cent // 100):
            os.close(os.open(train / f"{row.wnid}_{i}.JPEG", os.O_CREAT))
            files += 1
        for _ in range(VAL_PER_CLASS):
            number += 1
            os.close(os.open(val / f"ILSVRC2012_val_{number:08d}.JPEG", os.O_CREAT))
            files += 1
    return files


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--scratch", type=Path, required=True, help="folder with 1.5 million free inodes; emptied at the end"
    )
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    complete, small = args.scratch / "whole", args.scratch / "small"
    files = {root: write_tree(root, per_cent) for root, per_cent in ((complete, 100), (small, 4))}

    def planning(root: Path) -> Run:
        command = [
            sys.executable,
            "-m",
            "builders.imagenet_benchmark",
            "--dry-run",
            "--allow-partial",
            "--splits",
            SPLITS,
        ]
        return Run(lambda: None, lambda: run_process([*command, "--imagenet", str(root)]))

    for root in files:
        run_process([sys.executable, "-c", SCAN, str(root)])  # the first scan warms the cache and is nobody's
    results = interleave(
        {
            f"plan {files[small]:,}": planning(small),
            f"plan {files[complete]:,}": planning(complete),
            "bare os.walk": Run(lambda: None, lambda: run_process([sys.executable, "-c", SCAN, str(complete)])),
        },
        args.repeats,
    )
    report(results, "bare os.walk")
    for (root, count), timed in zip(reversed(files.items()), results.values(), strict=False):
        print(f"{count:,} files ({root.name}): {timed.median / count * 1e6:.2f} us a file")
    shutil.rmtree(args.scratch)


if __name__ == "__main__":
    main()
