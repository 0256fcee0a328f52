"""The build: open sources, plan, cut into shards, write them, finish. Written once for all benchmarks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.adopt import adopt, adoption_digest
from builders.benchmark import Benchmark, Rest
from builders.completeness import shortfalls
from builders.errors import BuildError, explaining_disk
from builders.execute import Workers
from builders.finish import finish_release, finish_split, known_train_overlaps
from builders.locate import STAGING, Located, estimated_bytes, locate, write_plan
from builders.plan import Adopted, PlannedSplit, drawn_classes, label_names, plan
from builders.release import Layout, arrow_schema
from builders.shards import ShardTask, read_record
from builders.sources.base import IN_PLACE, SourceIndex, open_source
from builders.staging import remove_packs, unpack
from builders.state import Identity, check_choices, locked, record_plans


@dataclass(frozen=True)
class Choices:
    """What the user chose. `roots` maps source keys to folders; `splits` are names as `config/split`."""

    out: Path
    splits: tuple[str, ...]
    roots: Mapping[str, Path]
    seed: int
    limit_per_class: int | None = None
    index_only: bool = False
    allow_partial: bool = False
    decode: bool = False
    adopt: Path | None = None
    demo: bool = False


class Meter(Protocol):
    """Shows how far a long step is."""

    def step(self, title: str, images: int) -> None:
        """Begin a step over so many images."""

    def advance(self, images: int, size: int = 0) -> None:
        """So many more images and bytes are done."""

    def note(self, text: str) -> None:
        """Say one line that stays."""


@dataclass(frozen=True)
class Prepared:
    """A planned build: what each source was found to be, what it lacks, and the plan of every chosen split."""

    indexes: Mapping[str, SourceIndex]
    lacking: Mapping[str, tuple[str, ...]]
    adopted: Mapping[str, Adopted]
    planned: tuple[PlannedSplit, ...]


def prepare(benchmark: Benchmark, choices: Choices, meter: Meter) -> Prepared:
    """Index the sources that the chosen splits need, check that they are whole, and plan.

    Raises:
        BuildError: a source is missing, of another edition, or short without `allow_partial`.
    """
    indexes = {}
    for source, partitions in _needed(benchmark, choices.splits).items():
        declared = next(s for s in benchmark.sources() if s.key == source)
        meter.note(f"{declared.title}: indexing {', '.join(partitions)} in {choices.roots[source]}")
        indexes[source] = open_source(declared, choices.roots[source], partitions)
        found = ", ".join(f"{partition} as {layout}" for partition, layout in indexes[source].layouts.items())
        meter.note(f"{declared.title}: {indexes[source].table.num_rows:,} images ({found})")
    adopted = adopt(benchmark, choices.splits, choices.adopt, indexes, meter.note) if choices.adopt else {}
    lacking = _lacking(benchmark, choices, indexes, adopted)
    if lacking and not choices.allow_partial:
        key, sentences = next(iter(lacking.items()))
        root = indexes[benchmark.by_key()[key][1].source.key].root
        raise BuildError(
            f"{sentences[0]}, in {root}; complete that source, or build what there is with --allow-partial "
            "(the manifest will say so)."
        )
    planned = plan(
        benchmark,
        indexes,
        seed=choices.seed,
        splits=choices.splits,
        adopted=adopted,
        limit_per_class=choices.limit_per_class,
    )
    return Prepared(indexes, lacking, adopted, tuple(planned))


def build(
    benchmark: Benchmark, choices: Choices, prepared: Prepared, meter: Meter, workers: Workers
) -> dict[str, Any]:
    """Write what was planned into the release folder and return its manifest.

    Shards that an earlier run finished are used as they are. The result does not depend on `workers`.

    Raises:
        BuildError: the folder is in use or holds other choices, an image is unreadable, or the disk refuses.
    """
    layout = Layout(choices.out)
    identity = Identity(
        benchmark=benchmark.name,
        version=benchmark.version,
        seed=choices.seed,
        limit_per_class=choices.limit_per_class,
        demo=choices.demo,
    )
    adopted = {key: adoption_digest(prepared.adopted.get(key)) for key in _with_parents(benchmark, choices.splits)}
    with explaining_disk("write the release"), locked(layout):
        check_choices(layout, identity, adopted, allow_partial=choices.allow_partial)
        _refuse_full_disk_for_packs(layout, prepared)
        located = _locate(layout, prepared, meter)
        plans = {split.planned.key: split.digest for split in located}
        record_plans(layout, identity, adopted, plans, allow_partial=choices.allow_partial)
        tasks = _unfinished(layout, located, choices, prepared.indexes)
        _refuse_full_disk(layout, tasks)
        meter.step("writing", sum(task.stop - task.start for task in tasks))
        workers.run(tasks, meter.advance)
        meter.step("finishing", sum(len(p.rows) for p in prepared.planned))
        finished = []
        for split in located:
            key = split.planned.key
            finished.append(finish_split(layout, split, prepared.lacking.get(key, ()), adopted[key]))
            meter.advance(len(split.planned.rows))
        manifest = finish_release(layout, benchmark, finished, identity.choices())
        for key, ids in known_train_overlaps(layout, manifest).items():
            meter.note(f"warning: {len(ids):,} images of {key} are also training images, for instance {ids[0]}")
        remove_packs(layout.state / STAGING)
    return manifest


def _locate(layout: Layout, prepared: Prepared, meter: Meter) -> list[Located]:
    meter.step("finding", sum(len(split.rows) for split in prepared.planned))
    unpacked = {
        key: unpack(index, rows, layout.state / STAGING, meter.advance)
        for key, index in prepared.indexes.items()
        if len(rows := _packed_rows(index, [s for s in prepared.planned if s.split.source.key == key]))
    }
    return [
        locate(split, prepared.indexes[key], unpacked.get(key), advance=meter.advance)
        for split in prepared.planned
        for key in [split.split.source.key]
    ]


def _packed_rows(index: SourceIndex, splits: Sequence[PlannedSplit]) -> npt.NDArray[np.int64]:
    """The rows of an index that some split needs and that lie in containers, ascending."""
    if not splits or all(piece.how in IN_PLACE for piece in index.pieces):
        return np.zeros(0, np.int64)
    in_place = pc.is_in(index.table["how"].cast(pa.string()), value_set=pa.array(IN_PLACE)).to_numpy()
    rows = np.unique(np.concatenate([split.rows for split in splits]))
    wanted: npt.NDArray[np.int64] = rows[~in_place[rows]]
    return wanted


def _needed(benchmark: Benchmark, splits: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Partitions by source key that the splits draw from, and those that they are the rest of."""
    declared = benchmark.by_key()
    needed: dict[str, dict[str, None]] = {}
    for key in _with_parents(benchmark, splits):
        _, split = declared[key]
        needed.setdefault(split.source.key, {}).update(dict.fromkeys(split.partitions))
    return {source: tuple(partitions) for source, partitions in needed.items()}


def _with_parents(benchmark: Benchmark, splits: Sequence[str]) -> tuple[str, ...]:
    """The given splits, and those that they are the rest of."""
    declared = benchmark.by_key()
    found: dict[str, None] = {}
    for split in splits:
        key = split
        found[key] = None
        while isinstance(take := declared[key][1].take, Rest):
            key = take.of
            found[key] = None
    return tuple(found)


def _lacking(
    benchmark: Benchmark, choices: Choices, indexes: Mapping[str, SourceIndex], adopted: Mapping[str, Adopted]
) -> dict[str, tuple[str, ...]]:
    """What the sources lack of what each chosen split draws from, in sentences by `config/split`."""
    declared = benchmark.by_key()
    lacking = {}
    for key in choices.splits:
        config, split = declared[key]
        if key not in adopted:
            drawn = drawn_classes(split.classes, seed=choices.seed, config=config.name, split=split.name)
        elif adopted[key].source_ids is None:
            drawn = list(adopted[key].class_ids)
        else:
            continue  # the copy names its images, and each of them was found
        lacking[key] = tuple(shortfalls(indexes[split.source.key], split.partitions, drawn))
    return {key: sentences for key, sentences in lacking.items() if sentences}


def _unfinished(
    layout: Layout, located: Sequence[Located], choices: Choices, indexes: Mapping[str, SourceIndex]
) -> list[ShardTask]:
    """The shards that no earlier run has finished, largest first, so that no worker ends up alone with a large one."""
    roots = {key: str(index.root) for key, index in indexes.items()} | {STAGING: str(layout.state / STAGING)}
    tasks = []
    for split in located:
        config, name = split.planned.config, split.planned.split.name
        todo = [shard for shard in range(split.shards) if not _is_finished(layout, split, shard, choices)]
        if todo:
            write_plan(split, layout.plan(config.name, name))
            for pack in split.packs:
                if not pack.path.exists():
                    pack.unpack()
        for shard in todo:
            data = layout.data(config.name, name, shard, split.shards)
            tasks.append(
                ShardTask(
                    plan=layout.plan(config.name, name),
                    start=split.starts[shard],
                    stop=split.starts[shard + 1],
                    size=split.bytes_of(shard),
                    roots=roots,
                    # Pixels that are there stay there, also when this run asks for the index alone.
                    data=None if choices.index_only and not data.exists() else data,
                    part=layout.part(config.name, name, shard, split.shards),
                    schema=arrow_schema(label_names(config.labels)),
                    decode=choices.decode,
                    drop_unreadable=choices.allow_partial,
                )
            )
    return sorted(tasks, key=lambda task: -task.size)


def _is_finished(layout: Layout, split: Located, shard: int, choices: Choices) -> bool:
    names = (split.planned.config.name, split.planned.split.name, shard, split.shards)
    part, data = layout.part(*names), layout.data(*names)
    if not part.is_file():
        return False
    record = read_record(part)
    if choices.decode and not record.decoded:
        return False
    # Its size tells a file that was cut; `verify` recomputes digests, which here would read the whole release again.
    return (data.is_file() and data.stat().st_size == record.bytes) or (choices.index_only and not data.exists())


def _refuse_full_disk_for_packs(layout: Layout, prepared: Prepared) -> None:
    """A mirror's images lie on the disk twice during a build; before they are unpacked their bytes are an estimate."""
    if (layout.state / STAGING).exists():
        return
    needed = 0
    for split in prepared.planned:
        index = prepared.indexes[split.split.source.key]
        if any(piece.how not in IN_PLACE for piece in index.pieces if piece.partition in split.split.partitions):
            needed += 2 * estimated_bytes(index, split.rows)
    _refuse_less_than(needed, layout)


def _refuse_full_disk(layout: Layout, tasks: Sequence[ShardTask]) -> None:
    _refuse_less_than(sum(task.size for task in tasks if task.data is not None), layout)


def _refuse_less_than(needed: int, layout: Layout) -> None:
    free = shutil.disk_usage(layout.root).free
    if needed > free:
        raise BuildError(
            f"expected {needed / 1e9:,.1f} GB of free space, found {free / 1e9:,.1f} GB at {layout.root}; "
            "free some, or give another --out, and run the same command again."
        )
