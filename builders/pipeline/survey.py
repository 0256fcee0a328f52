"""Looks at the images of a plan before anything is built: their digests, and the pixels of those that are generated.

Tested by `tests/builders/pipeline/test_without_duplicates.py`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.duplicates.exact import DIGEST
from builders.pipeline.generated import ShardWork
from builders.pipeline.request import Run
from builders.plan.planner import PlannedSplit
from builders.release.schema import PIXEL_DIGEST
from builders.sources.base import SourceIndex
from builders.storage.parquet import read_parquet
from builders.writing.read_plan import ReadPlan, write_plan
from builders.writing.shards import ShardTask

Locate = Callable[[Sequence[PlannedSplit]], list[ReadPlan]]
"""Finds the images of some plans and joins those that are declared in parts."""


class Survey:
    """What is known of images by row id; each image is read once, also over several plans and runs.

    Attributes:
        digests: `content_sha256`, without images that do not decode and are left out.
        pixel_digests: `builders.release.images.pixel_sha256` of images that are not generated, where all are decoded.
        pixels: (32, 32, 3) of those images that are asked for.
    """

    def __init__(self, run: Run, indexes: Mapping[str, SourceIndex], locate: Locate) -> None:
        self.run, self.indexes, self.locate = run, indexes, locate
        self.folder = run.layout.state / "survey"
        self.seen: set[str] = set()
        self.digests: dict[str, str] = {}
        self.pixel_digests: dict[str, str] = {}
        self.pixels: dict[str, npt.NDArray[np.uint8]] = {}

    def look(self, planned: Sequence[PlannedSplit], keeps_pixels: Callable[[str], bool]) -> None:
        """Read the images of some plans that are not known yet.

        Args:
            planned: the plans.
            keeps_pixels: whether the pixels of a split (`config/split`) are wanted, too.

        Raises:
            BuildError: an image is missing or unreadable (unless partial builds are allowed), or the disk refuses.
        """
        new = [some for split in planned if (some := self._unknown(split)) is not None]
        if not new:
            return
        work = ShardWork(self.run, self.indexes)
        ready = work.generate(self.locate(new))
        self._read([split for split in ready.values() if split.image_generator is None], work)
        for key, split in ready.items():
            if split.image_generator is not None:
                generated = split.table.filter(pc.equal(split.table["unreadable"], ""))
                self._know(generated, generated[DIGEST])
                if keeps_pixels(key):
                    self.pixels |= zip(generated["id"].to_pylist(), work.pixels(generated), strict=True)

    def _unknown(self, split: PlannedSplit) -> PlannedSplit | None:
        """The part of a plan whose images were not looked at; None where there is none."""
        ids = split.table["id"].to_pylist()
        mask = np.array([name not in self.seen for name in ids], bool)
        self.seen.update(ids)
        if not mask.any():
            return None
        return dataclasses.replace(split, rows=split.rows[mask], table=split.table.filter(pa.array(mask)))

    def _read(self, splits: Sequence[ReadPlan], work: ShardWork) -> None:
        """Read images whose bytes pass, as shards without pixels do it; what an earlier run read is there."""
        parts: list[Path] = []
        tasks: list[ShardTask] = []
        for split in splits:
            name = hashlib.sha256("\n".join([split.digest, str(self.run.request.decode)]).encode()).hexdigest()[:16]
            plan = self.folder / f"{name}.arrow"
            split.unpack()
            for shard in range(split.shards):
                part = self.folder / f"{name}-{shard:05d}.parquet"
                parts.append(part)
                if not part.exists():
                    tasks.append(work.task(split, shard, plan=plan, data=None, part=part))
            if any(task.plan == plan for task in tasks):
                write_plan(split, plan)
        self.run.meter.step("looking for duplicates", sum(task.stop - task.start for task in tasks))
        self.run.executor.run(tasks, self.run.meter.advance)
        for part in parts:
            rows = read_parquet(part)
            self._know(rows, rows[DIGEST])
            if PIXEL_DIGEST in rows.column_names:
                self.pixel_digests |= zip(rows["id"].to_pylist(), rows[PIXEL_DIGEST].to_pylist(), strict=True)

    def _know(self, rows: pa.Table, digests: pa.ChunkedArray) -> None:
        self.digests |= zip(rows["id"].to_pylist(), digests.to_pylist(), strict=True)
