"""Corruptions on two cores against one, in batches of 2,000 photographs as a build runs them.

`python -m benchmarks.making.corruptions --scratch DIR` writes JPEGs of 500 x 375 (about 110 KB) and makes BROAD's four
corruptions of each by 1 and by 2 workers in turn: decoding, preparing, corrupting, encoding and writing packs. Workers
are started before a round is timed, because a build starts them once.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.making.fixed_resize import write_tree
from benchmarks.rivals import Run, interleave, report
from builders.broad_benchmark import PAPERS_CORRUPTIONS
from builders.cli.executor_flags import WORKER_IMPORTS
from builders.executors.base import without_pandas
from builders.executors.local import LocalExecutor
from builders.generate import batches
from builders.generate.exact.corruptions import corruption
from builders.generate.task import BatchTask


def write_plan(tree: Path, place: Path, images: int) -> pa.Table:
    """Write the plan of some images of the tree, a row for each, as `BatchTask` reads it."""
    paths = sorted((tree / "train").rglob("*.JPEG"))[:images]
    names = [path.relative_to(tree).as_posix() for path in paths]
    rows = pa.table(
        {
            "id": [f"imagenet/{name}" for name in names],
            "source": ["imagenet"] * len(names),
            "source_id": names,
            "class_id": [path.parent.name for path in paths],
            "class_name": ["a class"] * len(names),
            "root": ["imagenet"] * len(names),
            "file": names,
            "offset": pa.array([0] * len(names), pa.int64()),
            "size": pa.array([path.stat().st_size for path in paths], pa.int64()),
            "form": ["encoded"] * len(names),
        }
    )
    with pa.ipc.new_file(str(place), rows.schema) as writer:
        writer.write_table(rows)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 4 GB free; emptied at the end")
    parser.add_argument("--images", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    tree, packs = args.scratch / "tree", args.scratch / "packs"
    if not tree.exists():
        write_tree(tree)
    rows = write_plan(tree, args.scratch / "plan.arrow", args.images)

    def tasks() -> list[BatchTask]:
        return [
            BatchTask(args.scratch / "plan.arrow", batch, {"imagenet": str(tree)}, generator, False)
            for generator in (corruption(name, 5) for name in PAPERS_CORRUPTIONS)
            for batch in batches.cut_batches(rows, generator, generator.name, packs)
        ]

    def clean() -> None:
        shutil.rmtree(packs, ignore_errors=True)
        packs.mkdir()

    def corrupted_by(executor: LocalExecutor) -> Callable[[], float]:
        return lambda: float(0 * len(executor.run(tasks(), lambda *_: None)))

    with LocalExecutor(1, preload=WORKER_IMPORTS) as one_core, LocalExecutor(2, preload=WORKER_IMPORTS) as two_cores:
        runs = {
            f"{name} core{'s' * (name > 1)}": Run(clean, corrupted_by(by))
            for name, by in ((1, one_core), (2, two_cores))
        }
        for run in runs.values():  # imports, and the first read of the tree
            run.clean()
            run.work()
        results = interleave(runs, args.repeats)
    report(results, "2 cores")
    corrupted = args.images * len(PAPERS_CORRUPTIONS)
    print(f"{corrupted / results['2 cores'].median:,.0f} corrupted images a second on 2 cores, and written")
    shutil.rmtree(args.scratch, ignore_errors=True)


if __name__ == "__main__":
    without_pandas()
    main()
