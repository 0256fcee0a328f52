"""The build: open sources, plan, cut into shards, write them, finish. Written once for all benchmarks."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from builders.adopt.copies import adopt, adoption_digest
from builders.adopt.text_lists import adopt_indexes
from builders.benchmark import Benchmark
from builders.duplicates.comparisons import are_compared, write_pixels
from builders.errors import NAMED, BuildError, more, os_errors_as_build_errors
from builders.executors.base import Executor, Meter
from builders.pipeline.finish import Finished, finish_release, finish_split
from builders.pipeline.generated import Making
from builders.pipeline.request import Choices, generators_of, needed_partitions, parts_of, with_parents
from builders.pipeline.state import Identity, check_choices, check_generators, check_labels, locked, record_plans
from builders.pipeline.survey import Survey
from builders.pipeline.without_duplicates import Gone, compared_with, find_duplicates, short_classes, variant_version
from builders.plan.agreement import agreements
from builders.plan.classes import Adopted, label_names, split_classes
from builders.plan.completeness import shortfalls
from builders.plan.planner import PlannedSplit, plan
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.sources.base import IN_PLACE, SourceIndex, open_source
from builders.sources.editions import refuse_resized
from builders.sources.sizes import estimated_bytes
from builders.writing.packs import remove_packs, unpack
from builders.writing.read_plan import STAGING, ReadPlan, join, keyed, locate, packed_rows
from builders.writing.shards import ShardTask


@dataclass(frozen=True)
class Prepared:
    """A planned build: what each source was found to be, what it lacks, and the plan of every chosen split or part.

    `lacking`, `adopted` and the plans go by the keys of parts where a split is joined.
    """

    indexes: Mapping[str, SourceIndex]
    lacking: Mapping[str, tuple[str, ...]]
    adopted: Mapping[str, Adopted]
    planned: tuple[PlannedSplit, ...]


def prepare(benchmark: Benchmark, choices: Choices, meter: Meter) -> Prepared:
    """Index the sources that the chosen splits need, check that they are whole, and plan.

    Raises:
        BuildError: a source is missing, of another edition, resized, or short without `allow_partial`.
    """
    indexes = {}
    asked = compared_with(benchmark, choices.splits) if choices.without_duplicates else choices.splits
    needed = parts_of(benchmark, asked)
    for source, partitions in needed_partitions(benchmark, asked).items():
        root = choices.roots.get(source.key, Path())
        where = f" in {root}" if source.on_disk else ""
        meter.note(f"{source.title}: indexing {', '.join(partitions)}{where}")
        index = indexes[source.key] = open_source(source, root, partitions)
        found = ", ".join(f"{partition} as {layout}" for partition, layout in index.layouts.items())
        meter.note(f"{source.title}: {index.table.num_rows:,} images ({found})")
    adopted: dict[str, Adopted] = {}
    if choices.adopt and benchmark.index_words:
        adopted = adopt_indexes(benchmark, needed, choices.adopt, indexes, meter.note)
    elif choices.adopt:
        adopted = adopt(benchmark, needed, choices.adopt, indexes, meter.note, seed=choices.seed)
    lacking = _lacking(benchmark, needed, choices.seed, indexes, adopted)
    if lacking and not choices.allow_partial:
        key, sentences = next(iter(lacking.items()))
        root = indexes[benchmark.by_key()[key][1].source.key].root
        raise BuildError(
            f"{sentences[0]}, in {root}; complete that source, or build what there is with --allow-partial "
            "(the manifest will say so)."
        )
    _refuse_resized(choices, indexes)
    planned = _plan(benchmark, choices, parts_of(benchmark, choices.splits), indexes, adopted, {})
    _note_strangers(choices, planned, meter)
    for line in agreements(planned, indexes, seed=choices.seed):
        meter.note(line)
    _refuse_empty(planned, indexes)
    return Prepared(indexes, lacking, adopted, tuple(planned))


def _plan(
    benchmark: Benchmark,
    choices: Choices,
    keys: Sequence[str],
    indexes: Mapping[str, SourceIndex],
    adopted: Mapping[str, Adopted],
    duplicates: Gone,
) -> list[PlannedSplit]:
    return plan(
        benchmark,
        indexes,
        seed=choices.seed,
        splits=keys,
        adopted=adopted,
        limit_per_class=choices.limit_per_class,
        withdrawn=choices.withdrawn,
        duplicates=duplicates,
    )


def _refuse_empty(planned: Sequence[PlannedSplit], indexes: Mapping[str, SourceIndex]) -> None:
    """Refuse a split without rows, also of a copy that is known to be partial: nothing was built of it."""
    rows: dict[str, int] = {}
    for split in planned:
        rows[split.split_key] = rows.get(split.split_key, 0) + len(split.rows)
    for split in planned:
        if not rows[split.split_key]:
            index = indexes[split.split.source.key]
            where = f" in {index.root}" if index.source.on_disk else ""
            raise BuildError(
                f"{split.split_key} would have no rows: {index.source.title}{where} has no image of its classes that "
                "is not withdrawn; complete that source, or leave the split out with --splits."
            )


def _refuse_resized(choices: Choices, indexes: Mapping[str, SourceIndex]) -> None:
    """Refuse mirrors with resized images; those of a demo are small on purpose."""
    from builders.demo.write import is_demo  # which draws images, and only this asks it

    for index in indexes.values():
        if not choices.demo and not is_demo(index.root):
            refuse_resized(index)


def _note_strangers(choices: Choices, planned: Sequence[PlannedSplit], meter: Meter) -> None:
    """Say which ids of a withdrawal list no chosen split has: they may be misspelt, or of splits built elsewhere."""
    met = {split.split.row_id(e.image) for split in planned for e in split.excluded if e.rule == "withdrawn"}
    strangers = sorted(choices.withdrawn.keys() - met)
    if strangers:
        names = ", ".join(strangers[:NAMED]) + more(strangers)
        meter.note(f"--withdraw: no row of these splits has the id {names}; look at the spelling")


def build(benchmark: Benchmark, choices: Choices, prepared: Prepared, meter: Meter, executor: Executor) -> Manifest:
    """Write what was planned into the release folder and return its manifest.

    Shards that an earlier run finished are used as they are. The result does not depend on `executor`.

    Raises:
        BuildError: the folder is in use or holds other choices, an image is unreadable, or the disk refuses.
    """
    layout = Layout(choices.out)
    identity = Identity(
        benchmark=benchmark.name,
        version=_version(benchmark, choices),
        seed=choices.seed,
        limit_per_class=choices.limit_per_class,
        demo=choices.demo,
    )
    adopted = {key: adoption_digest(prepared.adopted.get(key)) for key in with_parents(benchmark, choices.splits)}
    with os_errors_as_build_errors("write the release"), locked(layout):
        check_choices(layout, identity, adopted, allow_partial=choices.allow_partial)
        generators = generators_of(benchmark, choices.splits)
        check_generators(layout, identity, generators)
        check_labels(layout, _labels(benchmark, choices, prepared))
        _refuse_full_disk_for_packs(layout, prepared)
        if choices.without_duplicates:
            prepared = _without_duplicates(benchmark, choices, prepared, layout, executor, meter)
        located = _locate(layout, prepared, choices.seed, meter)
        plans = {split.key: split.digest for split in located}
        record_plans(layout, identity, adopted, plans, generators, allow_partial=choices.allow_partial)
        making = Making(layout, choices, prepared.indexes, executor, meter)
        ready = making.make(located)
        chosen = [ready[key] for key in choices.splits]
        todo = {split.key: making.unfinished(split) for split in chosen}
        making.restore([(ready[key], shards) for key, shards in todo.items() if shards])
        tasks = [task for key, shards in todo.items() if shards for task in making.tasks(ready[key], shards)]
        # The largest first, so that no worker ends up alone with a large one.
        tasks.sort(key=lambda task: -task.size)
        _refuse_full_disk(layout, tasks)
        meter.step("writing", sum(task.stop - task.start for task in tasks))
        executor.run(tasks, meter.advance)
        meter.step("finishing", sum(len(p.rows) for p in prepared.planned))
        finished = []
        for split in chosen:
            finished.append(finish_split(layout, split, prepared.lacking, adopted))
            _keep_pixels(benchmark, layout, making, split, finished[-1])
            meter.advance(split.table.num_rows)
        manifest = finish_release(layout, benchmark, finished, identity, meter)
        remove_packs(layout.state / STAGING)
    return manifest


def _version(benchmark: Benchmark, choices: Choices) -> str:
    if choices.without_duplicates:
        return variant_version(benchmark.version, decode=choices.decode)
    return benchmark.version


def _without_duplicates(
    benchmark: Benchmark, choices: Choices, prepared: Prepared, layout: Layout, executor: Executor, meter: Meter
) -> Prepared:
    """Plan again without duplicates, of all splits that are compared with those that are built."""

    def planned(keys: Sequence[str], gone: Gone) -> list[PlannedSplit]:
        return _plan(benchmark, choices, keys, prepared.indexes, prepared.adopted, gone)

    def located(some: Sequence[PlannedSplit]) -> list[ReadPlan]:
        return _locate(layout, dataclasses.replace(prepared, planned=tuple(some)), choices.seed, meter)

    every = parts_of(benchmark, compared_with(benchmark, choices.splits))
    survey = Survey(layout, choices, prepared.indexes, located, executor, meter)
    gone = find_duplicates(benchmark, lambda found: planned(every, found), survey, meter.note)
    final = tuple(planned(parts_of(benchmark, choices.splits), gone))
    short = short_classes(prepared.planned, final)
    for key, sentence in short.items():
        meter.note(f"{key}: {sentence}")
    lacking = {
        split.key: (*prepared.lacking.get(split.key, ()), *((short[split.key],) if split.key in short else ()))
        for split in final
    }
    return dataclasses.replace(prepared, planned=final, lacking=lacking)


def _labels(benchmark: Benchmark, choices: Choices, prepared: Prepared) -> dict[str, list[str]]:
    return {
        config.name: label_names(benchmark, config, seed=choices.seed, adopted=prepared.adopted)
        for config in benchmark.configs
    }


def _locate(layout: Layout, prepared: Prepared, seed: int, meter: Meter) -> list[ReadPlan]:
    """Find the images of every split, and join those that are declared in parts."""
    planned = prepared.planned
    meter.step("finding", sum(len(split.rows) for split in planned))
    unpacked = {
        key: unpack(index, rows, layout.state / STAGING, meter.advance)
        for key, index in prepared.indexes.items()
        if len(rows := packed_rows(index, [s for s in planned if s.split.source.key == key]))
    }
    parts: dict[str, list[ReadPlan]] = {}
    for split in planned:
        key = split.split.source.key
        located = locate(split, prepared.indexes[key], unpacked.get(key), advance=meter.advance)
        parts.setdefault(split.split_key, []).append(located)
    return [join(found, keyed(seed, key)) for key, found in parts.items()]


def _keep_pixels(benchmark: Benchmark, layout: Layout, making: Making, split: ReadPlan, finished: Finished) -> None:
    """Keep what later runs need to compare a split with theirs, where its shards will not have it."""
    path = layout.pixels(finished.entry.digest)
    if finished.entry.data:
        path.unlink(missing_ok=True)
    elif are_compared(benchmark, split.key) and not path.exists():
        made = split.table.filter(pc.equal(split.table["unreadable"], ""))
        write_pixels(layout, finished.entry.digest, making.pixels(made))


def _lacking(
    benchmark: Benchmark,
    parts: Sequence[str],
    seed: int,
    indexes: Mapping[str, SourceIndex],
    adopted: Mapping[str, Adopted],
) -> dict[str, tuple[str, ...]]:
    """What the sources lack of what each split draws from, in sentences by `config/split`."""
    lacking = {}
    for key in parts:
        sentences = _shortfalls(benchmark, key, seed, indexes, adopted)
        if sentences:
            lacking[key] = tuple(sentences)
    return lacking


def _shortfalls(
    benchmark: Benchmark, key: str, seed: int, indexes: Mapping[str, SourceIndex], adopted: Mapping[str, Adopted]
) -> list[str]:
    _, split = benchmark.by_key()[key]
    if key not in adopted:
        drawn = split_classes(split, seed=seed)
    elif adopted[key].source_ids is None:
        drawn = list(adopted[key].class_ids)
    else:
        return []  # the copy names its images, and each of them was found
    return shortfalls(indexes[split.source.key], split.partitions, drawn)


def _refuse_full_disk_for_packs(layout: Layout, prepared: Prepared) -> None:
    # Images from containers lie on the disk twice during a build; until they are unpacked their bytes are an estimate.
    if (layout.state / STAGING).exists():
        return
    needed = 0
    for split in prepared.planned:
        index = prepared.indexes[split.split.source.key]
        pieces = [piece for piece in index.pieces if piece.partition in split.split.partitions]
        if any(piece.how not in IN_PLACE for piece in pieces):
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
