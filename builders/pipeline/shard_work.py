"""Makes shard tasks from read plans: generates images first, and restores the packs that shards are written from.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.duplicates.checked import checked_images
from builders.duplicates.exact import DIGEST
from builders.duplicates.pixels import is_of
from builders.errors import BuildError
from builders.executors.base import Executor, Meter
from builders.generate.batches import Batch, cut_batches, generated_table
from builders.generate.contract import OF_ARRAYS, check_installed
from builders.generate.task import BatchTask
from builders.pipeline.build_plan import BuildPlan
from builders.pipeline.read_plan import STAGING, ReadPlan
from builders.pipeline.shards import ShardTask, record_of
from builders.release.entries import SIMILARITY
from builders.release.layout import RECORDS
from builders.release.remarks import summary as remarks_summary
from builders.release.schema import MADE, arrow_schema
from builders.storage.kept_tables import find_kept
from builders.storage.parquet import write_arrow
from unknown_detection.words import quantity


class ShardWork:
    """Generates the images of a run's splits, once, and makes the tasks of the shards that are still to write."""

    def __init__(self, plan: BuildPlan, executor: Executor, meter: Meter) -> None:
        self.request, self.benchmark, self.layout = plan.request, plan.draws.benchmark, plan.request.layout
        self.executor, self.meter, self.labels = executor, meter, plan.labels
        self.staging = self.layout.state / STAGING
        self.roots = {key: str(index.root) for key, index in plan.indexes.items()} | {STAGING: str(self.staging)}
        self.batches: dict[str, tuple[ReadPlan, list[Batch]]] = {}
        listed = plan.repeated.manifest.duplicates
        is_own = any(index.source.contents for index in plan.indexes.values())
        self.checked = checked_images(self.layout) if is_own else None
        self.are_listed = listed is not None and any(entry.by == SIMILARITY for entry in listed.compared)

    def generate(self, plans: Sequence[ReadPlan]) -> dict[str, ReadPlan]:
        """Generate the images of all splits with a generator, except batches that an earlier run has finished.

        Returns the plans by key; those of generated images read them from packs and have their generators' columns.
        """
        missing: dict[str, list[Batch]] = {}
        for plan in plans:
            if plan.image_generator is not None:
                name = f"made-{plan.key.replace('/', '-')}"
                if plan.image_generator in OF_ARRAYS.values() and plan.copy:
                    name += (
                        f"-{plan.copy[:8]}"  # arrays have one size, so that a batch of another copy is called alike
                    )
                batches = cut_batches(plan.table, plan.image_generator, name, self.staging)
                self.batches[plan.key] = plan, batches
                missing[plan.key] = [batch for batch in batches if find_kept(batch.record) is None]
        self._run(missing)
        return {plan.key: self._with_images(plan) for plan in plans}

    def packs(self) -> list[Path]:
        """Return the packs of generated images, and the files of their sealed residuals."""
        return [
            path
            for plan, batches in self.batches.values()
            for batch in batches
            for path in (batch.pack, *([batch.sealed] if plan.is_sealed else ()))
        ]

    def tasks(self, plans: Sequence[ReadPlan]) -> list[ShardTask]:
        """Return the tasks of the shards that no earlier run has finished, the largest shard first.

        What they read is written: the plans, and the packs of images from containers and of generated ones.
        """
        unfinished = [
            (plan, shard) for plan in plans for shard in range(plan.shards) if not self._finished(plan, shard)
        ]
        if kept := sum(plan.shards for plan in plans) - len(unfinished):
            earlier = f"{quantity(kept, 'shard')} of an earlier run {'is' if kept == 1 else 'are'} used"
            changed = "; an image that changed since then is not noticed" * any(not plan.contents for plan in plans)
            self.meter.note(earlier + changed)
        for plan in {plan.key: plan for plan, _ in unfinished}.values():
            plan.unpack()
            write_arrow(self.layout.plan(plan.key), plan.table)
        if self.batches:
            generated = [plan.rows_of(shard)["file"] for plan, shard in unfinished if plan.key in self.batches]
            self.restore({file for files in generated for file in files.to_pylist()})
        tasks = []
        for plan, shard in unfinished:
            record, data, sealed = self._files(plan, shard)
            # Pixels that are there stay there, also when this run asks for the index alone.
            target = data if self.request.has_pixels(plan.config) or data.exists() else None
            task = self.task(plan, shard, plan=self.layout.plan(plan.key), data=target, record=record)
            # A published table has the pairs of its splits, which need no comparison.
            is_kept = self.benchmark.is_searched(plan.key) and (target is None or not self.are_listed)
            pixels = self._pixels(plan, shard) if is_kept else None
            tasks.append(dataclasses.replace(task, sealed=sealed if plan.is_sealed else None, pixels=pixels))
        # The largest first, so that no worker ends up alone with a large one.
        return sorted(tasks, key=lambda task: -task.size)

    def task(self, split: ReadPlan, shard: int, *, plan: Path, data: Path | None, record: Path) -> ShardTask:
        """Return the task that writes one shard; without `data` it reads the images but writes only index rows."""
        generator = split.image_generator
        return ShardTask(
            plan=plan,
            start=split.starts[shard],
            stop=split.starts[shard + 1],
            size=int(pc.sum(split.rows_of(shard)["size"]).as_py() or 0),
            roots=self.roots,
            data=data,
            record=record,
            schema=arrow_schema(self.labels[split.config.name], split.config.columns, demo=self.request.demo),
            decode=self.request.decode,
            drop_unreadable=self.request.allow_partial,
            stored="source" if generator is None else generator.stored,
            contents=split.contents,
            copy=split.copy,
            checked=self.checked,
        )

    def _run(self, missing: Mapping[str, Sequence[Batch]]) -> None:
        """Generate the images of the batches that are missing, given by the keys of their splits."""
        if not any(missing.values()):
            return
        tasks = []
        generators = self.benchmark.generators(key for key, batches in missing.items() if batches)
        check_installed(generators)
        for key, generator in generators.items():
            plan = self.batches[key][0]
            plan.unpack()
            path = self.staging / f"{key.replace('/', '-')}.arrow"
            write_arrow(path, plan.table)
            tasks += [
                BatchTask(path, batch, self.roots, generator, self.request.allow_partial) for batch in missing[key]
            ]
        count = sum(task.batch.stop - task.batch.start for task in tasks)
        with self.meter.step("generating images", count) as advance:
            remarks = self.executor.run(tasks, advance)
        if told := remarks_summary(remarks):
            self.meter.note(told)

    def restore(self, files: set[str]) -> None:
        """Generate the images of the named packs again, where these were removed."""
        missing: dict[str, list[Batch]] = {}
        for key, (plan, batches) in self.batches.items():
            named = [batch for batch in batches if batch.pack.name in files]
            missing[key] = [b for b in named if not (b.pack.exists() and (b.sealed.exists() or not plan.is_sealed))]
        self._run(missing)

    def _with_images(self, plan: ReadPlan) -> ReadPlan:
        table, packs, generator = plan.table, plan.packs, plan.image_generator
        if generator is not None:
            batches = self.batches[plan.key][1]
            table, packs = generated_table(plan.parts[0].table, batches, STAGING, generator.columns), ()
        absent: dict[str, pa.Scalar] = dict.fromkeys(MADE, pa.scalar("")) if generator is None else {}
        # Columns of the generators of other splits of the config have the values for absent rows.
        for column in plan.config.generated_columns:
            if generator is None or column not in generator.columns:
                absent[column.name] = pa.scalar(column.absent, column.arrow)
        for name, value in absent.items():
            table = table.append_column(name, pa.repeat(value, table.num_rows))
        if generator is not None:
            _refuse_other_values(table, plan.parts[0].expected)
        return dataclasses.replace(plan, table=table, packs=packs)

    def _files(self, plan: ReadPlan, shard: int) -> list[Path]:
        """Return the places of a shard: its record, its images, and their sealed residuals."""
        return [self.layout.shard(folder, plan.key, shard, plan.shards) for folder in (RECORDS, "data", "sealed")]

    def _pixels(self, plan: ReadPlan, shard: int) -> Path:
        return self.layout.pixels(plan.key, shard, plan.shards)

    def _finished(self, split: ReadPlan, shard: int) -> bool:
        _, data, sealed = self._files(split, shard)
        rows = split.record(self.layout, shard)
        if rows is None:
            return False
        record = record_of(rows)
        generated = split.image_generator is not None  # which takes decoding
        if self.request.decode and not (record.decoded or generated):
            return False
        # Its size tells a file that was cut; `verify` recomputes digests, which here would read the whole release
        # again.
        index_only = not self.request.has_pixels(split.config) and not data.exists()
        finished = _has_bytes(data, record.bytes) or index_only
        if index_only and self.benchmark.is_searched(split.key):
            # Of a shard with images they are read from these.
            finished = is_of(self._pixels(split, shard), rows[DIGEST].to_pylist())
        if split.is_sealed:
            finished = finished and _has_bytes(sealed, record.sealed_bytes)
        if finished and generated:
            _refuse_shard_of_other_images(split, shard, rows)
        return finished


def _refuse_other_values(generated: pa.Table, expected: pa.Table) -> None:
    """Refuse images that are the published ones and have other values than were published with them."""
    same_image = pc.equal(generated["content_sha256"], generated["expected_sha256"])
    for name in expected.column_names:
        # As text, in which NaN equals NaN.
        made, listed = (values[name].cast(pa.string()) for values in (generated, expected))
        for first in np.flatnonzero(pc.and_(same_image, pc.not_equal(made, listed)).to_numpy())[:1].tolist():
            raise BuildError(
                f"{generated['id'][first]} has {name} {made[first]} when it is generated here, and {listed[first]} as "
                "published. Use the tools that published it."
            )


def _has_bytes(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _refuse_shard_of_other_images(split: ReadPlan, shard: int, written: pa.Table) -> None:
    """Refuse a shard that was written of other images than the batches' records list."""
    rows = split.rows_of(shard)
    expected = rows.filter(pc.equal(rows["unreadable"], ""))
    if expected["content_sha256"].equals(written["content_sha256"]):
        return
    digests = dict(zip(written["id"].to_pylist(), written["content_sha256"].to_pylist(), strict=True))
    images = zip(expected["id"].to_pylist(), expected["content_sha256"].to_pylist(), strict=True)
    changed = next((image for image, digest in images if digests.get(image) != digest), "a row that is now left out")
    raise BuildError(
        f"The source image of {changed} changed since shard {shard} of {split.key} was written. Put it back as it "
        "was, or build into another --out."
    )
