"""Seconds and memory of a report of OpenOOD's size: `python -m benchmarks.evaluating.report [OLD_TREE]`.

131,000 rows (45,000 known ones, and the five unknown sets of OpenOOD v1.5 with their sizes) x 20 detectors with
predictions, made up. Each report runs in a process of its own, with its plots and without; with the folder of another
tree, also there, in turn.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

CONFIG = "openood-imagenet1k"
SPLITS = {
    "test": ("in_distribution", 45_000),
    "ssb_hard": ("near_ood", 49_000),
    "ninco": ("near_ood", 5_879),
    "inaturalist": ("far_ood", 10_000),
    "textures": ("far_ood", 5_160),
    "openimage_o": ("far_ood", 15_869),
}
DETECTORS, CLASSES, SEEDS = 20, 1000, 0

MEASURED = """
import resource, sys, time
from pathlib import Path
import unknown_detection as ud
started = time.perf_counter()
out, plots = sys.argv[3], None if sys.argv[4] == "plots" else False
ud.report(sys.argv[2], sys.argv[1], out, plots=plots)
print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def make(folder: Path) -> tuple[Path, Path]:
    """Write the release, without images, and its scores."""
    from tests.evaluation.duplicates_release import pairs_table, put_table
    from tests.evaluation.written_release import made_row, write_release
    from unknown_detection.evaluation.releases import load
    from unknown_detection.evaluation.scoring.scores import Provenance, write_scores

    numbers, rows, level = np.random.default_rng(SEEDS), {}, []
    for split, (role, count) in SPLITS.items():
        name = f"{split}/class-{{:04d}}/a-name-as-long-as-those-of-imagenet-{{:08d}}.JPEG"
        known = role == "in_distribution"
        rows[f"{CONFIG}/{split}"] = [
            made_row(name.format(row % CLASSES, row), role, row % CLASSES if known else -1) for row in range(count)
        ]
        level += [{"in_distribution": 0.0, "near_ood": 0.8, "far_ood": 1.6}[role]] * count
    release = write_release(folder / "release", rows, [f"class-{number}" for number in range(CLASSES)])
    ssb, test = (rows[f"{CONFIG}/{split}"] for split in ("ssb_hard", "test"))
    pairs = [(f"{CONFIG}/ssb_hard", ssb[n]["id"], f"{CONFIG}/test", test[n]["id"], 0.0) for n in range(100)]
    put_table(release, pairs_table(pairs))
    ids = [row["id"] for of in rows.values() for row in of]
    prediction = numbers.integers(0, CLASSES, len(ids))
    right = numbers.random(len(ids)) < 0.76
    prediction = np.where(right, [max(row["label"], 0) for of in rows.values() for row in of], prediction)
    tables = [
        pa.table({"id": ids, "detector": [f"d{number:02d}"] * len(ids), "prediction": prediction,
                  "score": numbers.normal(size=len(ids)) + np.array(level)})
        for number in range(DETECTORS)
    ]  # fmt: skip
    scores = folder / "scores.parquet"
    about = Provenance(load(release).digest, (CONFIG,), "made up", "ab", 0, {}, {})
    write_scores(scores, pa.concat_tables(tables), about)
    return release, scores


def main(*trees: str) -> None:
    """Print the seconds and GiB of each report, the least of three runs."""
    places = [Path.cwd(), *(Path(tree).resolve() for tree in trees)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        release, scores = make(folder)
        for plots in ("plots", "none"):
            runs: dict[Path, list[list[float]]] = {place: [] for place in places}
            for _ in range(3):
                for place in places:
                    command = [sys.executable, "-c", MEASURED, release, scores, folder / "out", plots]
                    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
                    runs[place].append([float(word) for word in done.stdout.split()])
            for place, numbers in runs.items():
                seconds, memory = np.min(numbers, axis=0)
                print(f"{place.name:>12}, plots: {plots:5}  {seconds:6.1f} s  {memory:5.2f} GiB", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
