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
from builders.plan.candidates import Draws
from builders.plan.completeness import agreement, count_shortfalls, missing_listed
from builders.plan.originals import missing_originals, shared_originals
from builders.plan.planner import PlannedSplit, plan
from builders.sources.base import SourceIndex, open_source
from builders.sources.editions import refuse_resized


def leave_duplicates_out(build_plan: BuildPlan) -> BuildPlan:
    """Plan a run's splits again without images that have duplicates in the splits that they are compared with.

    The images are read for it, so the folder must be held.

    Raises:
        BuildError: an image is missing or unreadable.
    """
    run, benchmark, request = build_plan.run, build_plan.run.benchmark, build_plan.run.request
    replan = functools.partial(
        plan,
        build_plan.draws,
        build_plan.indexes,
        limit_per_class=request.limit_per_class,
        withdrawn=request.withdrawn,
    )
    compared = keys_of_parts(benchmark, compared_with(benchmark, request.splits))
    survey = Survey(run, build_plan.indexes, lambda splits: locate_splits(build_plan, splits))
    removed = find_duplicates(benchmark, lambda ids: replan(splits=compared, duplicates=ids), survey, run.meter.note)
    planned = replan(splits=keys_of_parts(benchmark, request.splits), duplicates=removed)
    lacking = dict(build_plan.lacking)
    for key, sentence in short_classes(build_plan.planned, planned).items():
        run.meter.note(f"{key}: {sentence}")
        lacking[key] = (*lacking.get(key, ()), sentence)
    return dataclasses.replace(build_plan, planned=tuple(planned), lacking=lacking)


def prepare(run: Run) -> BuildPlan:
    """Open the sources that the chosen splits need, check that they are whole, and plan.

    Raises:
        BuildError: a source is missing, of another edition, resized, or short without `allow_partial`.
    """
    benchmark, request = run.benchmark, run.request
    splits = compared_with(benchmark, request.splits) if request.without_duplicates else request.splits
    indexes = _open_sources(run, splits)
    parts = keys_of_parts(benchmark, splits)
    adopted = {}
    if request.adopt is not None:
        adopted = adopt(benchmark, parts, request.adopt, indexes, run.meter.note, seed=request.seed)
    draws = Draws(benchmark, request.seed, adopted)
    shortfalls = _lacking(draws, parts, indexes)
    lacking = {key: tuple(sentence for sentence, _ in sentences) for key, sentences in shortfalls.items()}
    if shortfalls and not request.allow_partial:
        sentence, root = next(iter(shortfalls.values()))[0]
        raise BuildError(
            f"{sentence}, in {root}. Complete that source, or build what there is with --allow-partial (the "
            "manifest will say so)."
        )
    from builders.demo.write import is_demo  # which draws images, and only this asks it

    for index in indexes.values():
        if not request.demo and not is_demo(index.root):  # those of a demo are small on purpose
            refuse_resized(index)
    _note_originals(run, parts, indexes)
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
        layouts = ", ".join(f"{partition} as {layout}" for partition, layout in index.layouts.items())
        run.meter.note(f"{source.title}: {index.num_rows:,} images ({layouts})")
    return indexes


def _lacking(
    draws: Draws, parts: Sequence[str], indexes: Mapping[str, SourceIndex]
) -> dict[str, list[tuple[str, Path]]]:
    """Return sentences on what the sources lack of each part's images, with the source's folder, by its key."""
    declared = draws.benchmark.by_key()
    lacking = {}
    for key in parts:
        _, split = declared[key]
        if key in draws.adopted and draws.adopted[key].source_ids is not None:
            continue  # the copy names its images, and each of them was found
        index = indexes[split.source.key]
        if (originals := split.originals) is not None:
            derived = indexes[originals.of.key]
            sentences = count_shortfalls(derived, originals.partitions, list(derived.source.classes()))
            shortfalls = [(sentence, derived.root) for sentence in sentences]
            # Other validation images than the originals may be missing.
            if sentence := missing_originals(originals, derived, index):
                shortfalls.append((sentence, index.root))
        elif isinstance(split.quota, Listed):
            sentences = missing_listed(split.quota, index, split.partitions, draws.classes(key))
            shortfalls = [(sentence, index.root) for sentence in sentences]
        else:
            sentences = count_shortfalls(index, split.partitions, draws.classes(key))
            shortfalls = [(sentence, index.root) for sentence in sentences]
        if shortfalls:
            lacking[key] = shortfalls
    return lacking


def _note_originals(run: Run, parts: Sequence[str], indexes: Mapping[str, SourceIndex]) -> None:
    """Say of a split that takes the originals of several partitions whether these share them."""
    declared = run.benchmark.by_key()
    for key in parts:
        quota = declared[key][1].originals
        if quota is not None and len(quota.partitions) > 1:
            run.meter.note(f"{key}: of {quota.of.title}, {shared_originals(quota, indexes[quota.of.key])}")


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
    withdrawn = {split.split.row_id(e.image) for split in planned for e in split.excluded if e.rule == "withdrawn"}
    unmatched = sorted(run.request.withdrawn.keys() - withdrawn)
    if unmatched:
        names = ", ".join(unmatched[:NAMED]) + more(unmatched)
        run.meter.note(f"--withdraw: no row of these splits has the id {names}; look at the spelling")
