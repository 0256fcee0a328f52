"""Builds a benchmark from a person's own copies of its sources: opens and checks them, and plans its splits.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from builders.adopt.copies import adopt, adoption_digest
from builders.adopt.text_lists import adopt_indexes
from builders.declare.quotas import Half, Listed
from builders.errors import NAMED, BuildError, more
from builders.pipeline.build_plan import (
    BuildPlan,
    Run,
    compared_with,
    keys_of_parts,
    locate_splits,
    needed_partitions,
    with_parents,
)
from builders.pipeline.without_duplicates import Survey, find_duplicates, short_classes
from builders.plan.candidates import Adopted, Draws
from builders.plan.completeness import agreement, count_shortfalls, missing_listed
from builders.plan.originals import missing_originals, shared_originals
from builders.plan.planner import PlannedSplit, plan
from builders.sources.base import SourceIndex, open_source
from builders.sources.editions import refuse_resized


def leave_duplicates_out(first: BuildPlan) -> BuildPlan:
    """Plan again without duplicates, of all splits that are compared with those that are built.

    The images are read for it, so the folder must be held.

    Raises:
        BuildError: an image is missing or unreadable.
    """
    run, benchmark, request = first.run, first.run.benchmark, first.run.request
    replan = functools.partial(
        plan,
        first.draws,
        first.indexes,
        limit_per_class=request.limit_per_class,
        withdrawn=request.withdrawn,
    )
    every = keys_of_parts(benchmark, compared_with(benchmark, request.splits))
    survey = Survey(run, first.indexes, lambda splits: locate_splits(first, splits))
    gone = find_duplicates(benchmark, lambda found: replan(splits=every, duplicates=found), survey, run.meter.note)
    planned = replan(splits=keys_of_parts(benchmark, request.splits), duplicates=gone)
    short = short_classes(first.planned, planned)
    for key, sentence in short.items():
        run.meter.note(f"{key}: {sentence}")
    lacking = {
        split.key: (*first.lacking.get(split.key, ()), *((short[split.key],) if split.key in short else ()))
        for split in planned
    }
    return dataclasses.replace(first, planned=tuple(planned), lacking=lacking)


def prepare(run: Run) -> BuildPlan:
    """Open the sources that the chosen splits need, check that they are whole, and plan.

    Raises:
        BuildError: a source is missing, of another edition, resized, or short without `allow_partial`.
    """
    benchmark, request = run.benchmark, run.request
    asked = compared_with(benchmark, request.splits) if request.without_duplicates else request.splits
    indexes = _open_sources(run, asked)
    needed = keys_of_parts(benchmark, asked)
    adopted = _adopted(run, request.adopt, needed, indexes) if request.adopt is not None else {}
    draws = Draws(benchmark, request.seed, adopted)
    found = _lacking(draws, needed, indexes)
    lacking = {key: tuple(sentence for sentence, _ in sentences) for key, sentences in found.items()}
    if found and not request.allow_partial:
        sentence, root = next(iter(found.values()))[0]
        raise BuildError(
            f"{sentence}, in {root}. Complete that source, or build what there is with --allow-partial (the "
            "manifest will say so)."
        )
    from builders.demo.write import is_demo  # which draws images, and only this asks it

    for index in indexes.values():
        if not request.demo and not is_demo(index.root):  # those of a demo are small on purpose
            refuse_resized(index)
    _note_originals(run, needed, indexes)
    planned = plan(
        draws,
        indexes,
        splits=keys_of_parts(benchmark, request.splits),
        limit_per_class=request.limit_per_class,
        withdrawn=request.withdrawn,
    )
    if request.withdrawn:
        _note_strangers(run, planned)
    for split in planned:
        if split.split.authors is not None:
            index = indexes[split.split.source.key]
            run.meter.note(agreement(draws, split, split.split.authors, index))
    _refuse_empty(planned, draws, indexes)
    digests = {key: adoption_digest(adopted[key]) for key in adopted}
    return BuildPlan(
        run=run,
        indexes=indexes,
        draws=draws,
        planned=tuple(planned),
        labels={config.name: draws.label_names(config) for config in benchmark.configs},
        adopted={key: digests.get(key, "") for key in with_parents(benchmark, request.splits)},
        lacking=lacking,
    )


def _open_sources(run: Run, splits: Sequence[str]) -> dict[str, SourceIndex]:
    indexes = {}
    for source, partitions in needed_partitions(run.benchmark, splits).items():
        root = run.request.roots.get(source.key, Path())
        where = f" in {root}" if source.on_disk else ""
        run.meter.note(f"{source.title}: indexing {', '.join(partitions)}{where}")
        index = indexes[source.key] = open_source(source, root, partitions)
        found = ", ".join(f"{partition} as {layout}" for partition, layout in index.layouts.items())
        run.meter.note(f"{source.title}: {index.num_rows:,} images ({found})")
    return indexes


def _adopted(run: Run, copy: Path, parts: Sequence[str], indexes: Mapping[str, SourceIndex]) -> dict[str, Adopted]:
    benchmark, log = run.benchmark, run.meter.note
    if benchmark.index_words:
        return adopt_indexes(benchmark, parts, copy, indexes, log)
    return adopt(benchmark, parts, copy, indexes, log, seed=run.request.seed)


def _lacking(
    draws: Draws, parts: Sequence[str], indexes: Mapping[str, SourceIndex]
) -> dict[str, list[tuple[str, Path]]]:
    """What the sources lack of what each part draws from, by its key: sentences, each with the source's folder."""
    declared = draws.benchmark.by_key()
    lacking = {}
    for key in parts:
        _, split = declared[key]
        if key in draws.adopted and draws.adopted[key].source_ids is not None:
            continue  # the copy names its images, and each of them was found
        index = indexes[split.source.key]
        needed = draws.classes(key)
        if isinstance(split.quota, Listed):
            sentences = missing_listed(split.quota, index, split.partitions, needed)
        else:
            sentences = count_shortfalls(index, split.partitions, needed)
        short = [(sentence, index.root) for sentence in sentences]
        if (originals := split.originals) is not None:
            made = indexes[originals.of.key]
            # Other validation images than the originals may be missing.
            sentences = count_shortfalls(made, originals.partitions, list(made.source.classes()))
            short = [(sentence, made.root) for sentence in sentences]
            if sentence := missing_originals(originals, made, index):
                short.append((sentence, index.root))
        if short:
            lacking[key] = short
    return lacking


def _note_originals(run: Run, parts: Sequence[str], indexes: Mapping[str, SourceIndex]) -> None:
    """Say of a split that takes the originals of several partitions whether these share them."""
    declared = run.benchmark.by_key()
    for key in parts:
        made = declared[key][1].originals
        if made is not None and len(made.partitions) > 1:
            run.meter.note(f"{key}: of {made.of.title}, {shared_originals(made, indexes[made.of.key])}")


def _refuse_empty(planned: Sequence[PlannedSplit], draws: Draws, indexes: Mapping[str, SourceIndex]) -> None:
    """Refuse a split without rows, also of a copy that is known to be partial: nothing was built of it."""
    rows: dict[str, int] = {}
    for split in planned:
        rows[split.split_key] = rows.get(split.split_key, 0) + split.size
    for split in planned:
        if not rows[split.split_key]:
            index = indexes[split.split.source.key]
            where = f" in {index.root}" if index.source.on_disk else ""
            raise BuildError(
                f"{split.split_key} would have no rows: {index.source.title}{where} "
                f"{_why_none(split, draws.classes(split.key))}. Complete that source, or leave the split out with "
                "--splits."
            )


def _why_none(split: PlannedSplit, drawn: Collection[str]) -> str:
    """Say why a split without rows has none: the rule that leaves out most images of the classes it draws from."""
    left_out: Counter[tuple[str, str]] = Counter()
    for exclusion in split.excluded:
        if exclusion.class_id in drawn:
            left_out[exclusion.rule, exclusion.evidence] += exclusion.images
    if not left_out:
        return "has no image of its classes"
    (rule, evidence), images = left_out.most_common(1)[0]
    halved = isinstance(split.split.quota, Half) or getattr(split.split.quota, "half", False)
    why = f"{evidence}; half of one image is none" if halved else evidence
    return (
        f"has {left_out.total():,} images of its classes, and all are left out, {images:,} of them by the rule {rule} "
        f"({why})"
    )


def _note_strangers(run: Run, planned: Sequence[PlannedSplit]) -> None:
    """Say which ids of a withdrawal list no chosen split has: they may be misspelt, or of splits built elsewhere."""
    met = {split.split.row_id(e.image) for split in planned for e in split.excluded if e.rule == "withdrawn"}
    strangers = sorted(run.request.withdrawn.keys() - met)
    if strangers:
        names = ", ".join(strangers[:NAMED]) + more(strangers)
        run.meter.note(f"--withdraw: no row of these splits has the id {names}; look at the spelling")
