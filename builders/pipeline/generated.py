"""From located splits to shard tasks that can run: making images, and bringing packs back that a shard needs.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.executors.base import Executor, Meter
from builders.generate.batches import MakeTask, Strip, made_table, read_pixels, strips
from builders.pipeline.read_plan import STAGING, Located, write_plan
from builders.pipeline.request import Choices
from builders.pipeline.shards import ShardTask, read_record
from builders.release.layout import Layout
from builders.release.schema import arrow_schema
from builders.sources.base import SourceIndex


class Making:
    """Makes what a run's splits store, once, and knows which shards are left to write."""

    def __init__(
        self, layout: Layout, choices: Choices, indexes: Mapping[str, SourceIndex], executor: Executor, meter: Meter
    ) -> None:
        self.layout, self.choices, self.executor, self.meter = layout, choices, executor, meter
        self.staging = layout.state / STAGING
        self.roots = {key: str(index.root) for key, index in indexes.items()} | {STAGING: str(self.staging)}
        self.strips: dict[str, list[Strip]] = {}
        self.located: dict[str, Located] = {}

    def make(self, located: Sequence[Located]) -> dict[str, Located]:
        """Make the images of every split that asks for it, but for strips that an earlier run has made.

        Returns:
            The splits by key; those that were made have their images in packs.
        """
        for split in located:
            making = split.making
            if making is not None:
                key = split.key
                name = f"made-{key.replace('/', '-')}"
                self.strips[key] = strips(split.table, making, name, self.staging)
                self.located[key] = split
        self._run([(key, strip) for key in self.strips for strip in self.strips[key] if not strip.record.exists()])
        return {split.key: self._made(split) for split in located}

    def pixels(self, rows: pa.Table) -> npt.NDArray[np.uint8]:
        """Decode made images; packs that were removed are made again."""
        wanted = set(rows["file"].unique().to_pylist())
        self._run(self._lost(wanted))
        return read_pixels(rows, self.staging)

    def unfinished(self, split: Located) -> list[int]:
        """The shards of a split that no earlier run has finished."""
        return [shard for shard in range(split.shards) if not self._is_finished(split, shard)]

    def restore(self, wanted: Sequence[tuple[Located, Sequence[int]]]) -> None:
        """Bring back the packs that some shards are written from, and write the plans that workers read."""
        files: set[str] = set()
        for split, shards in wanted:
            config, name = split.config.name, split.name
            if split.key in self.strips:
                for shard in shards:
                    files.update(split.rows_of(shard)["file"].to_pylist())
            else:
                self._unpack(split)
            write_plan(split, self.layout.plan(config, name))
        self._run(self._lost(files))

    def tasks(self, split: Located, shards: Sequence[int]) -> list[ShardTask]:
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
                    columns=config.columns,
                    made=split.key in self.strips,
                )
            )
        return tasks

    def _run(self, wanted: Sequence[tuple[str, Strip]]) -> None:
        if not wanted:
            return
        tasks = []
        for key in dict.fromkeys(key for key, _ in wanted):
            split = self.located[key]
            self._unpack(split)
            path = self.staging / f"{key.replace('/', '-')}.arrow"
            write_plan(split, path)
            making = split.making
            if making is None:
                raise AssertionError(f"{key} makes no images")
            tasks += [
                MakeTask(path, strip, self.roots, making.name, self.choices.allow_partial)
                for of, strip in wanted
                if of == key
            ]
        self.meter.step("making images", sum(task.strip.stop - task.strip.start for task in tasks))
        self.executor.run(tasks, self.meter.advance)

    def _made(self, split: Located) -> Located:
        key = split.key
        if key not in self.strips:
            return split
        return dataclasses.replace(split, table=made_table(split.parts[0].table, self.strips[key], STAGING), packs=())

    def _lost(self, files: set[str]) -> list[tuple[str, Strip]]:
        """Strips whose packs, of those named, are no longer there."""
        return [
            (key, strip)
            for key, made in self.strips.items()
            for strip in made
            if strip.pack.name in files and not strip.pack.exists()
        ]

    @staticmethod
    def _unpack(split: Located) -> None:
        for pack in split.packs:
            if not pack.path.exists():
                pack.unpack()

    def _is_finished(self, split: Located, shard: int) -> bool:
        names = (split.config.name, split.name, shard, split.shards)
        part, data = self.layout.part(*names), self.layout.data(*names)
        if not part.is_file():
            return False
        record = read_record(part)
        made = split.making is not None  # which takes decoding
        if self.choices.decode and not (record.decoded or made):
            return False
        # Its size tells a file that was cut; `verify` recomputes digests, which here would read the whole release
        # again.
        index_only = self.choices.index_only and not data.exists()
        return (data.is_file() and data.stat().st_size == record.bytes) or index_only
