"""The build: open sources, plan, cut into shards, write them, finish. Written once for all benchmarks."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from builders.adopt import adopt, adoption_digest
from builders.benchmark import Benchmark, Rest
from builders.completeness import shortfalls
from builders.errors import BuildError
from builders.execute import run
from builders.finish import Circumstances, finish_release, finish_split, known_train_overlaps
from builders.locate import STAGING, Located, locate, write_plan
from builders.plan import Adopted, PlannedSplit, drawn_classes, label_names, plan
from builders.release import Layout, arrow_schema
from builders.shards import ShardTask, read_record
from builders.sources.base import SourceIndex, open_source
from builders.state import Identity, check_identity, locked


@dataclass(frozen=True)
class Choices:
    """What the user chose. `roots` maps source keys to folders; `splits` are names as `config/split`."""

    out: Path
    splits: tuple[str, ...]
    roots: Mapping[str, Path]
    seed: int
    workers: int
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


def build(benchmark: Benchmark, choices: Choices, prepared: Prepared, meter: Meter) -> dict[str, Any]:
    """Write what was planned into the release folder and return its manifest.

    Shards that an earlier run finished are used as they are.

    Raises:
        BuildError: the folder is in use or holds other choices, an image is unreadable, or the disk refuses.
    """
    layout = Layout(choices.out)
    with _explaining(choices.out), locked(layout):
        meter.step("finding", sum(len(p.rows) for p in prepared.planned))
        located = [
            locate(p, prepared.indexes[p.split.source.key], layout.state / STAGING, advance=meter.advance)
            for p in prepared.planned
        ]
        identity = Identity(
            benchmark.name, benchmark.version, choices.seed, choices.limit_per_class, adoption_digest(prepared.adopted)
        )
        plans = {split.planned.key: split.digest for split in located}
        check_identity(layout, identity, plans, allow_partial=choices.allow_partial)
        tasks = _unfinished(layout, located, choices, prepared.indexes)
        _refuse_full_disk(choices, located, tasks)
        meter.step("writing", sum(task.stop - task.start for task in tasks))
        run(tasks, workers=choices.workers, progress=meter.advance)
        meter.step("finishing", sum(len(p.rows) for p in prepared.planned))
        finished = []
        for split in located:
            lacking = prepared.lacking.get(split.planned.key, ())
            finished.append(finish_split(layout, split, lacking, index_only=choices.index_only))
            meter.advance(len(split.planned.rows))
        circumstances = Circumstances(
            seed=choices.seed,
            limit_per_class=choices.limit_per_class,
            adopted=bool(prepared.adopted),
            demo=choices.demo,
        )
        manifest = finish_release(layout, benchmark, finished, circumstances)
        for key, ids in known_train_overlaps(layout, manifest).items():
            meter.note(f"warning: {len(ids):,} images of {key} are also training images, for instance {ids[0]}")
        shutil.rmtree(layout.state / STAGING, ignore_errors=True)
    return manifest


def _needed(benchmark: Benchmark, splits: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Partitions by source key that the splits draw from, and those that they are the rest of."""
    declared = benchmark.by_key()
    needed: dict[str, dict[str, None]] = {}
    for key in splits:
        _, split = declared[key]
        chain = [split, declared[split.take.of][1]] if isinstance(split.take, Rest) else [split]
        for link in chain:
            needed.setdefault(link.source.key, {}).update(dict.fromkeys(link.partitions))
    return {source: tuple(partitions) for source, partitions in needed.items()}


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
        plan_path = layout.plan(config.name, name)
        schema = arrow_schema(label_names(config.labels))
        todo = [i for i in range(split.shards) if not _is_finished(layout, split, i, choices)]
        if todo:
            write_plan(split, plan_path)
        tasks += [
            ShardTask(
                plan=plan_path,
                start=split.starts[i],
                stop=split.starts[i + 1],
                roots=roots,
                data=None if choices.index_only else layout.data(config.name, name, i, split.shards),
                part=layout.part(config.name, name, i, split.shards),
                schema=schema,
                decode=choices.decode,
                drop_unreadable=choices.allow_partial,
            )
            for i in todo
        ]
    return sorted(tasks, key=lambda task: task.start - task.stop)


def _is_finished(layout: Layout, split: Located, shard: int, choices: Choices) -> bool:
    names = (split.planned.config.name, split.planned.split.name, shard, split.shards)
    part, data = layout.part(*names), layout.data(*names)
    if not part.is_file():
        return False
    record = read_record(part)
    if choices.decode and not record.decoded:
        return False
    return choices.index_only or (data.is_file() and data.stat().st_size == record.bytes)


def _refuse_full_disk(choices: Choices, located: Sequence[Located], tasks: Sequence[ShardTask]) -> None:
    if choices.index_only:
        return
    todo = {(task.plan, task.start) for task in tasks}
    layout = Layout(choices.out)
    needed = sum(
        split.bytes_of(i)
        for split in located
        for i in range(split.shards)
        if (layout.plan(split.planned.config.name, split.planned.split.name), split.starts[i]) in todo
    )
    free = shutil.disk_usage(choices.out).free
    if needed > free:
        raise BuildError(
            f"expected {needed / 1e9:,.1f} GB of free space, found {free / 1e9:,.1f} GB at {choices.out}; "
            "free some, or give another --out, and run the same command again."
        )


_DISK_ERRORS = {
    errno.ENOSPC: "found the disk full",
    errno.EDQUOT: "found the quota used up",
    errno.EFBIG: "found the file size limited",
    errno.EACCES: "found no permission to write",
    errno.EPERM: "found no permission to write",
    errno.EROFS: "found a read-only disk",
}


@contextmanager
def _explaining(out: Path) -> Iterator[None]:
    """Turn what a disk refuses into one sentence; anything else is a defect and keeps its traceback."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise BuildError(
            f"expected to write the release, {_DISK_ERRORS[error.errno]} at {error.filename or out}; mend that and "
            "run the "
            "same command again, which goes on where this run stopped."
        ) from error
