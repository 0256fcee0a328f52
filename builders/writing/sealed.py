"""Writes the sealed residuals of a shard's images, which batches have left beside their packs.

Tested by `tests/builders/generate/test_sealed_release.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.generate.batches import Batch
from builders.release.schema import demo_metadata
from builders.storage.atomic import atomic_path
from builders.storage.paths import as_path
from builders.storage.sealed_files import SealedWriter, read_residuals


def write_sealed(rows: pa.Table, roots: Mapping[str, str], target: Path, *, demo: bool) -> int:
    """Write the sealed residuals of a shard; returns the bytes of the file.

    Args:
        rows: the shard's plan: `id`, `root` and `file` (the pack of the image), `unreadable`. A batch's rows stand
            together and in the batch's order.
        roots: the folder of each name in `root`.
        target: the file.
        demo: whether the rows are of demo sources.
    """
    kept = rows.filter(pc.equal(rows["unreadable"], ""))
    places = zip(kept["root"].to_pylist(), kept["file"].to_pylist(), strict=True)
    wanted = set(kept["id"].to_pylist())
    with atomic_path(target) as temporary:
        with SealedWriter(temporary, demo_metadata(demo=demo)) as writer:
            for root, file in dict.fromkeys(places):
                for row_id, sealed in read_residuals(Batch(0, 0, as_path(roots[root]) / file).sealed):
                    if row_id in wanted:
                        writer.add(row_id, sealed)
        return temporary.stat().st_size
