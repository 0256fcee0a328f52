"""Finding exact copies among the rows of a release, against a group-by of pandas and a dictionary.

`python -m benchmarks.duplicates.exact` writes index files of all splits of the ImageNet-scale benchmark, with random
digests and the public counts of pairs (797 validation images among the training images, 29 pairs inside
validation, 5,836 training images in groups; Kisel et al., "Flaws of ImageNet", 2025). Each competitor runs in a
process of its own and must find all pairs; memory is that process's peak, beside that of one that only imports.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.rivals import Run, interleave, report, run_process
from builders.imagenet_benchmark import BENCHMARK
from builders.release.tables import write_index

OURS = """
import sys
from pathlib import Path
from builders.duplicates.exact import exact_pairs
paths = {f"{p.parent.name}/{p.stem}": p for p in sorted(Path(sys.argv[1]).rglob("*.parquet"))}
assert len(exact_pairs(paths)) == int(sys.argv[2])
"""

IMPORTS = "from builders.duplicates.exact import exact_pairs"

# The script that one would write: one table of all splits, grouped by digest.
PANDAS = """
import itertools, sys
from pathlib import Path
import pandas as pd
parts = []
for path in sorted(Path(sys.argv[1]).rglob("*.parquet")):
    part = pd.read_parquet(path, columns=["id", "role", "class_id", "content_sha256"])
    parts.append(part.assign(split=f"{path.parent.name}/{path.stem}"))
rows = pd.concat(parts, ignore_index=True)
rows = rows[rows.duplicated("content_sha256", keep=False)]
pairs = []
for _, group in rows.groupby("content_sha256"):
    pairs += itertools.combinations(group.itertuples(index=False), 2)
assert len(pairs) == int(sys.argv[2])
"""

DICTIONARY = """
import itertools, sys
from collections import defaultdict
from pathlib import Path
import pyarrow.parquet as pq
places = defaultdict(list)
for path in sorted(Path(sys.argv[1]).rglob("*.parquet")):
    table = pq.read_table(path, columns=["id", "role", "class_id", "content_sha256"])
    columns = (table[name].to_pylist() for name in ("content_sha256", "id", "role", "class_id"))
    for digest, *row in zip(*columns):
        places[digest].append((path, *row))
pairs = [pair for same in places.values() if len(same) > 1 for pair in itertools.combinations(same, 2)]
assert len(pairs) == int(sys.argv[2])
"""


def write_indexes(folder: Path) -> tuple[int, int]:
    """Write the index of every split; returns the number of rows and of pairs of equal digests."""
    generator = np.random.default_rng(0)
    counts = {key: BENCHMARK.count(key).rows for key in BENCHMARK.splits}
    digests = {key: [generator.bytes(32).hex() for _ in range(count)] for key, count in counts.items()}
    train, known = digests["imagenet-external/train"], digests["imagenet-train/train"]
    validation = digests["imagenet/near_ood"]
    validation[:797] = known[:797]
    validation[1000:1029] = validation[2000:2029]
    train[:2918] = train[10_000:12_918]
    for key, column in digests.items():
        config, _, name = key.partition("/")
        count = len(column)
        numbers = [f"{number:08d}" for number in range(count)]
        ids = [f"imagenet/{name}/{config}_{number}" for number in numbers]
        rows = {
            "label": pa.array(generator.integers(0, 200, count)),
            "role": pa.array(np.zeros(count, np.int64)),
            "class_id": [f"n{number:08d}" for number in generator.integers(0, 1000, count).tolist()],
            "class_name": ["a name"] * count,
            "source": ["imagenet"] * count,
            "source_id": ids,
            "id": ids,
            "content_sha256": column,
            "stored": ["source"] * count,
        }
        write_index(folder / config / f"{name}.parquet", pa.table(rows), [f"n{number:08d}" for number in range(200)])
    return sum(counts.values()), 797 + 29 + 2918


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        # In a process of its own: the memory of this one would count towards its children's peak.
        with concurrent.futures.ProcessPoolExecutor(1) as writer:
            rows, pairs = writer.submit(write_indexes, Path(scratch)).result()

        def running(script: str) -> Run:
            return Run(lambda: None, lambda: run_process([sys.executable, "-c", script, scratch, str(pairs)]))

        competitors = {"builders": OURS, "its imports alone": IMPORTS, "pandas": PANDAS, "a dictionary": DICTIONARY}
        results = interleave({name: running(script) for name, script in competitors.items()}, args.repeats)
        report(results, "builders", "duplicates.exact", rows=rows)
        print(f"{rows:,} rows, {pairs:,} pairs; a ratio above 1 takes longer than builders")


if __name__ == "__main__":
    main()
