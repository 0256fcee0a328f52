"""Opens a person's own copies of a benchmark's sources, checks that they are complete, and plans the splits.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from builders.adopt.copies import adopt, adoption_digest
from builders.cli.build_options import BuildRequest
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import Half, Listed
from builders.errors import BuildError
from builders.executors.base import Meter
from builders.pipeline.build_plan import BuildPlan
from builders.plan.candidates import Draws, missing_originals, shared_originals
from builders.plan.completeness import agreement, count_shortfalls, missing_listed
from builders.plan.planner import PlannedSplit, plan
from builders.sources.base import SourceIndex, is_demo
from builders.sources.opening import open_source
from builders.sources.sizes import refuse_resized


def prepare(benchmark: Benchmark, request: BuildRequest, roots: Mapping[str, Path], meter: Meter) -> BuildPlan:
    """Open and check the sources that the chosen splits need, and plan the splits; `roots` has folders by key."""
    note = meter.note
    own_parts = benchmark.parts_of(request.splits)
    parts = benchmark.parts_of(benchmark.compared_with(request.splits)) if request.without_duplicates else own_parts
    indexes: dict[str, SourceIndex] = {}
    for source, partitions in benchmark.partitions(parts).items():
        root = roots.get(source.key, Path())
        note(f"{source.title}: indexing {', '.join(partitions)}{f' in {root}' if source.on_disk else ''}")
        index = indexes[source.key] = open_source(source, root, partitions)
        layouts = ", ".join(f"{partition} as {layout}" for partition, layout in index.layouts.items())
        note(f"{source.title}: {index.num_rows:,} images ({layouts})")
    adopted = {}
    if request.adopt is not None:
        adopted = adopt(benchmark, parts, request.adopt, indexes, note, seed=request.seed)
    draws = Draws(benchmark, request.seed, adopted)
    lacking: dict[str, tuple[str, ...]] = {}
    for key in parts:
        shortfalls = _shortfalls(key, draws, indexes)
        for sentence, root in shortfalls if not request.allow_partial else ():
            raise BuildError(
                f"{sentence}, in {root}. Complete that source, or build what there is with --allow-partial (the "
                "manifest will say so)."
            )
        if shortfalls:
            lacking[key] = tuple(sentence for sentence, _ in shortfalls)
    for index in indexes.values():
        if not request.demo and not is_demo(index.root):  # those of a demo are small on purpose
            refuse_resized(index)
    for key in parts:
        originals = benchmark.parts[key].originals
        if originals is not None and len(originals.partitions) > 1:
            note(f"{key}: of {originals.source.title}, {shared_originals(originals, indexes[originals.source.key])}")
    planned = plan(
        draws,
        indexes,
        splits=own_parts,
        limit_per_class=request.limit_per_class,
        withdrawn=request.withdrawn,
        counts_only=request.dry_run,
    )
    for split in planned:
        if split.split.authors is not None:
            note(agreement(draws, split, indexes[split.split.source.key]))
    _refuse_empty(planned, draws, indexes)
    version = benchmark.version
    if request.without_duplicates:
        # Other rows, which build metadata say (semver.org 2.0.0, item 10). With `decode`, equal pixels of other bytes
        # go, too.
        version += f"{'.' if '+' in version else '+'}without-duplicates{'.decoded' * request.decode}"
    return BuildPlan(
        request=request,
        version=version,
        indexes=indexes,
        draws=draws,
        planned=tuple(planned),
        labels={config.name: draws.label_names(config) for config in benchmark.configs},
        adopted={
            key: adoption_digest(adopted[key]) if key in adopted else ""
            for part in own_parts
            for key in (part, *benchmark.drawn_before(part))
        },
        lacking=lacking,
    )


def _shortfalls(key: str, draws: Draws, indexes: Mapping[str, SourceIndex]) -> list[tuple[str, Path]]:
    """Return sentences on what the sources lack of a part's images, each with the source's folder."""
    split = draws.benchmark.parts[key]
    index, quota, class_ids = indexes[split.source.key], split.quota, draws.classes(key)
    if key in draws.adopted and draws.adopted[key].source_ids is not None:
        return []  # the copy names its images, and each of them was found
    if (originals := split.originals) is not None:
        derived = indexes[originals.source.key]
        sentences = count_shortfalls(derived, originals.partitions, list(derived.source.classes()))
        # Other validation images than the originals may be missing.
        missing = missing_originals(originals, derived, index)
        return [(sentence, derived.root) for sentence in sentences] + [(missing, index.root)] * bool(missing)
    if isinstance(quota, Listed):
        sentences = missing_listed(quota, index, split.partitions, class_ids)
    else:
        sentences = count_shortfalls(index, split.partitions, class_ids)
    return [(sentence, index.root) for sentence in sentences]


def _refuse_empty(planned: Sequence[PlannedSplit], draws: Draws, indexes: Mapping[str, SourceIndex]) -> None:
    """Refuse a split without rows, also of a copy that is known to be partial: nothing was built of it."""
    rows: Counter[str] = Counter()
    for split in planned:
        rows[split.split_key] += split.size
    for split in planned:
        if rows[split.split_key]:
            continue
        index, class_ids = indexes[split.split.source.key], draws.classes(split.key)
        left_out: Counter[tuple[str, str]] = Counter()
        for exclusion in split.excluded:
            if exclusion.class_id in class_ids:
                left_out[exclusion.rule, exclusion.evidence] += exclusion.images
        why = "has no image of its classes"
        for (rule, evidence), images in left_out.most_common(1):
            halved = isinstance(split.split.quota, Half) or getattr(split.split.quota, "half", False)
            evidence += "; half of one image is none" * halved
            why = f"has {left_out.total():,} images of its classes, and all are left out, {images:,} of them by the "
            why += f"rule {rule} ({evidence})"
        raise BuildError(
            f"{split.split_key} would have no rows: {index.source.title}"
            f"{f' in {index.root}' if index.source.on_disk else ''} {why}. Complete that source, or leave the split "
            "out with --splits."
        )
