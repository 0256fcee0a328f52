"""From located splits to shard tasks that can run: making images, and bringing packs back that a shard needs.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.executors.base import Executor, Meter
from builders.generate.batches import Batch, cut, generated_table, read_pixels
from builders.generate.task import BatchTask
from builders.pipeline.request import Choices
from builders.release.layout import Layout
from builders.release.schema import arrow_schema
from builders.sources.base import SourceIndex
from builders.writing.read_plan import STAGING, ReadPlan, write_plan
from builders.writing.shards import ShardTask, read_record


class Making:
    """Makes what a run's splits store, once, and knows which shards are left to write."""

    def __init__(
        self, layout: Layout, choices: Choices, indexes: Mapping[str, SourceIndex], executor: Executor, meter: Meter
    ) -> None:
        self.layout, self.choices, self.executor, self.meter = layout, choices, executor, meter
        self.staging = layout.state / STAGING
        self.roots = {key: str(index.root) for key, index in indexes.items()} | {STAGING: str(self.staging)}
        self.batches: dict[str, list[Batch]] = {}
        self.located: dict[str, ReadPlan] = {}

    def make(self, located: Sequence[ReadPlan]) -> dict[str, ReadPlan]:
        """Make the images of every split that asks for it, but for batches that an earlier run has made.

        Returns:
            The splits by key; those that were made have their images in packs, and their generators' columns.
        """
        for split in located:
            generator = split.image_generator
            if generator is not None:
                key = split.key
                name = f"made-{key.replace('/', '-')}"
                self.batches[key] = cut(split.table, generator, name, self.staging)
                self.located[key] = split
        self._run([(key, batch) for key in self.batches for batch in self.batches[key] if not batch.record.exists()])
        return {split.key: self._made(split) for split in located}

    def pixels(self, rows: pa.Table) -> npt.NDArray[np.uint8]:
        """Decode made images; packs that were removed are made again."""
        wanted = set(rows["file"].unique().to_pylist())
        self._run(self._lost(wanted))
        return read_pixels(rows, self.staging)

    def unfinished(self, split: ReadPlan) -> list[int]:
        """The shards of a split that no earlier run has finished."""
        return [shard for shard in range(split.shards) if not self._is_finished(split, shard)]

    def restore(self, wanted: Sequence[tuple[ReadPlan, Sequence[int]]]) -> None:
        """Bring back the packs that some shards are written from, and write the plans that workers read."""
        files: set[str] = set()
        for split, shards in wanted:
            config, name = split.config.name, split.name
            if split.key in self.batches:
                for shard in shards:
                    files.update(split.rows_of(shard)["file"].to_pylist())
            else:
                self._unpack(split)
            write_plan(split, self.layout.plan(config, name))
        self._run(self._lost(files))

    def tasks(self, split: ReadPlan, shards: Sequence[int]) -> list[ShardTask]:
        """What is to be run to write some shards."""
        config, name = split.config, split.name
        tasks = []
        for shard in shards:
            data = self.layout.data(config.name, name, shard, split.shards)
            tasks.append(
                ShardTask(
                    plan=self.layout.plan(config.name, name),
                    start=split.starts[shard],
                    stop=split.starts[shard + 1],
                    size=split.bytes_of(shard),
                    roots=self.roots,
                    # Pixels that are there stay there, also when this run asks for the index alone.
                    data=None if self.choices.index_only and not data.exists() else data,
                    part=self.layout.part(config.name, name, shard, split.shards),
                    schema=arrow_schema(split.labels, config.columns),
                    decode=self.choices.decode,
                    drop_unreadable=self.choices.allow_partial,
                    columns=tuple(column.name for column in config.columns),
                    generated=split.key in self.batches,
                )
            )
        return tasks

    def _run(self, wanted: Sequence[tuple[str, Batch]]) -> None:
        if not wanted:
            return
        tasks = []
        for key in dict.fromkeys(key for key, _ in wanted):
            split = self.located[key]
            self._unpack(split)
            path = self.staging / f"{key.replace('/', '-')}.arrow"
            write_plan(split, path)
            generator = split.image_generator
            if generator is None:
                raise AssertionError(f"{key} makes no images")
            tasks += [
                BatchTask(path, batch, self.roots, generator, self.choices.allow_partial)
                for of, batch in wanted
                if of == key
            ]
        self.meter.step("making images", sum(task.batch.stop - task.batch.start for task in tasks))
        self.executor.run(tasks, self.meter.advance)

    def _made(self, split: ReadPlan) -> ReadPlan:
        if split.image_generator is None:
            return dataclasses.replace(split, table=_with_absent_columns(split, split.table))
        made = generated_table(split.parts[0].table, self.batches[split.key], STAGING, split.image_generator.columns)
        return dataclasses.replace(split, table=_with_absent_columns(split, made), packs=())

    def _lost(self, files: set[str]) -> list[tuple[str, Batch]]:
        """Batches whose packs, of those named, are no longer there."""
        return [
            (key, batch)
            for key, made in self.batches.items()
            for batch in made
            if batch.pack.name in files and not batch.pack.exists()
        ]

    @staticmethod
    def _unpack(split: ReadPlan) -> None:
        for pack in split.packs:
            if not pack.path.exists():
                pack.unpack()

    def _is_finished(self, split: ReadPlan, shard: int) -> bool:
        names = (split.config.name, split.name, shard, split.shards)
        part, data = self.layout.part(*names), self.layout.data(*names)
        if not part.is_file():
            return False
        record = read_record(part)
        made = split.image_generator is not None  # which takes decoding
        if self.choices.decode and not (record.decoded or made):
            return False
        # Its size tells a file that was cut; `verify` recomputes digests, which here would read the whole release
        # again.
        index_only = self.choices.index_only and not data.exists()
        finished = (data.is_file() and data.stat().st_size == record.bytes) or index_only
        if finished and made:
            _refuse_other_images(split, shard, part)
        return finished


def _with_absent_columns(split: ReadPlan, table: pa.Table) -> pa.Table:
    """Add the columns that generators of other splits of the config add, with the values for absent rows."""
    for column in split.config.generated_columns:
        if column.name not in table.column_names:
            table = table.append_column(column.name, pa.repeat(pa.scalar(column.absent, column.arrow), table.num_rows))
    return table


def _refuse_other_images(split: ReadPlan, shard: int, part: Path) -> None:
    """Refuse a shard that was written of other images than those that the batches' records say.

    Raises:
        BuildError: a source image changed after the shard was written.
    """
    rows = split.rows_of(shard)
    wanted = rows.filter(pc.equal(rows["unreadable"], ""))
    written = pq.ParquetFile(part).read(["id", "content_sha256"])
    if wanted["content_sha256"].equals(written["content_sha256"]):
        return
    digests = dict(zip(written["id"].to_pylist(), written["content_sha256"].to_pylist(), strict=True))
    images = zip(wanted["id"].to_pylist(), wanted["content_sha256"].to_pylist(), strict=True)
    changed = next((image for image, digest in images if digests.get(image) != digest), "a row that is now left out")
    raise BuildError(
        f"The source image of {changed} changed since shard {shard} of {split.key} was written. Put it back as it "
        "was, or build into another --out."
    )
