"""Turns finished shards into a release: index, exclusions, manifest and card.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from builders.card import card
from builders.card.pictures import with_samples
from builders.declare.benchmark import Config, Part
from builders.duplicates.comparisons import compare_pixels
from builders.duplicates.table import Origin, carried, complete, origin, write_duplicates
from builders.errors import BuildError
from builders.pipeline.build_plan import Run
from builders.plan.planner import PlannedSplit
from builders.plan.tables import remarks_on_classes
from builders.release.digests import file_sha256, rows_digest
from builders.release.duplicates import pairs_summary, read_pairs
from builders.release.entries import BenchmarkEntry, ConfigEntry, LicenceEntry, Manifest, SourceEntry
from builders.release.layout import PARTS, Layout
from builders.release.manifest import file_entry
from builders.release.schema import ID_OVERLAP, arrow_schema
from builders.release.split_entries import (
    SUMS,
    FileEntry,
    PartEntry,
    SplitEntry,
    WithdrawnRow,
    is_labelled,
    is_training,
    pieces_by_key,
)
from builders.release.tables import Exclusion, write_excluded, write_index
from builders.sources import broken
from builders.storage.parquet import read_parquet
from builders.writing.read_plan import ReadPlan
from builders.writing.shards import read_record


@dataclass(frozen=True)
class Contents:
    """What a run adds to a release: entries of the manifest, and tables of duplicates whose pairs are among its rows.

    `configs` and `sources` go by name and key, and a config has its splits of earlier runs, too.
    """

    benchmark: BenchmarkEntry
    configs: Mapping[str, ConfigEntry]
    sources: Mapping[str, SourceEntry]
    duplicates: tuple[Origin, ...] = ()


@dataclass(frozen=True)
class Finished:
    """One split of the release: its entry in the manifest, and what it leaves out."""

    plan: ReadPlan
    entry: SplitEntry
    exclusions: tuple[Exclusion, ...]


def finish_split(
    run: Run, plan: ReadPlan, lacking: Mapping[str, Sequence[str]], adopted: Mapping[str, str]
) -> Finished:
    """Write the index of a split whose shards are done and describe it.

    Args:
        run: the run that built it.
        plan: of the split.
        lacking: where its sources are short, by the keys of its parts.
        adopted: a digest of the lists that each was adopted from, or an empty text, by the same keys.
    """
    config, layout = plan.config, run.layout
    shards = [layout.shard(PARTS, plan.key, number, plan.shards) for number in range(plan.shards)]
    dropped = dict(image for shard in shards for image in read_record(shard).dropped)
    columns = arrow_schema((), config.columns, image=False).names
    rows = pa.concat_tables([read_parquet(shard, columns) for shard in shards]).replace_schema_metadata(None)
    if not rows.num_rows:
        raise _no_rows(plan, dropped)
    parts: list[PartEntry] = []
    exclusions: list[Exclusion] = []
    shortfalls: dict[str, None] = {}
    for planned in plan.parts:
        unreadable = _unreadable(planned, dropped)
        excluded = [*planned.excluded, *unreadable]
        parts.append(_part_entry(planned, excluded, planned.size - len(unreadable), adopted[planned.key]))
        exclusions += excluded
        shortfalls |= dict.fromkeys(lacking.get(planned.key, ()))
        left_out = [exclusion for exclusion in unreadable if exclusion.rule != broken.RULE]
        shortfalls |= dict.fromkeys(f"{e.image} left out as unreadable ({e.evidence})" for e in left_out)
    if sum(part.rows for part in parts) != rows.num_rows:
        raise AssertionError(f"{plan.key}: {rows.num_rows} rows, and not those of its parts")
    index = layout.index(plan.key)
    write_index(index, rows, plan.parts[0].labels, config.columns, demo=run.request.demo)
    split, generator = plan.parts[0].split, plan.image_generator
    sealed = range(plan.shards if generator is not None and generator.sealed is not None else 0)
    by_key = {planned.key: planned.split for planned in plan.parts}
    entry = SplitEntry(
        **{name: sum(getattr(part, name) for part in parts) for name in SUMS},
        why="; ".join(dict.fromkeys(part.why for part in parts if part.why)),
        excluded_by_rule=_by_rule(exclusions),
        withdrawn=tuple(
            WithdrawnRow(by_key[e.split].row_id(e.image), e.evidence) for e in exclusions if e.rule == "withdrawn"
        ),
        shortfalls=tuple(shortfalls),
        digest=rows_digest(rows),
        data=data_entries(layout, plan),
        index=file_entry(layout, index),
        sealed=tuple(file_entry(layout, layout.shard("sealed", plan.key, n, plan.shards)) for n in sealed),
        made=None if generator is None else generator.description,
        generator=None if generator is None else generator.entry(),
        overlaps=rows.num_rows - rows[ID_OVERLAP.name].null_count if ID_OVERLAP in config.columns else None,
        compared=remarks_on_classes(config, split) if ID_OVERLAP in config.columns else None,
        **({"parts": tuple(parts)} if isinstance(split, Part) else _own(parts[0])),
    )
    run.meter.advance(plan.table.num_rows)
    return Finished(plan, entry, tuple(exclusions))


def _no_rows(plan: ReadPlan, dropped: Mapping[str, str]) -> BuildError:
    """Return the error for a split whose every image was left out; `dropped` has the reasons by id."""
    # What a reason says in brackets, such as digests, is of a single image.
    reason, images = Counter(reason.partition(" (")[0] for reason in dropped.values()).most_common(1)[0]
    return BuildError(
        f"{plan.key} would have no rows: all {len(dropped):,} of its images were left out, {images:,} of them "
        f"because: {reason}. Mend them and give another --out, or leave the split out with --splits."
    )


def _part_entry(planned: PlannedSplit, excluded: Sequence[Exclusion], rows: int, adopted: str) -> PartEntry:
    """Describe a part of a split, or a split that has none."""
    split = planned.split
    images = sum(exclusion.images for exclusion in excluded)
    if rows + images != planned.available:
        raise AssertionError(f"{planned.key}: {rows} kept and {images} excluded of {planned.available}")
    return PartEntry(
        role=split.role,
        source=split.source.key,
        partitions=tuple(split.partitions),
        rows=rows,
        expected=planned.count.rows,
        paper=planned.count.paper,
        why=planned.count.why,
        available=planned.available,
        excluded=images,
        excluded_by_rule=_by_rule(excluded),
        adopted=adopted,
        name=split.name if isinstance(split, Part) else "",
        labelled=planned.config.has_labels(split),
        classes=planned.classes,
        paper_classes=planned.count.classes,
    )


def _own(part: PartEntry) -> dict[str, Any]:
    """Return what a split without parts says of itself; of its labels only what its role does not say."""
    fields = {name: getattr(part, name) for name in ("role", "source", "partitions", "adopted")}
    return fields if part.labelled == is_labelled(part.role) else {**fields, "labelled": part.labelled}


def data_entries(layout: Layout, plan: ReadPlan) -> tuple[FileEntry, ...]:
    """Return the finished shards of a split that have pixels, as the manifest lists them."""
    entries = []
    for number in range(plan.shards):
        path = layout.shard("data", plan.key, number, plan.shards)
        if path.exists():
            record = read_record(layout.shard(PARTS, plan.key, number, plan.shards))
            entries.append(FileEntry(layout.relative(path), record.bytes, record.sha256))
    return tuple(entries)


def contents_of(run: Run, finished: Sequence[Finished], before: Manifest) -> Contents:
    """Write the tables of exclusions of splits that were built from sources, and describe them.

    Args:
        run: the run that built them.
        finished: the splits.
        before: the manifest of earlier runs, whose other splits stay.
    """
    configs = {
        config.name: _config_entry(run, config, config_splits, before.configs.get(config.name))
        for config in run.benchmark.configs
        if (config_splits := [split for split in finished if split.plan.config.name == config.name])
    }
    used_keys = {source for split in finished for source in split.entry.sources}
    sources = {
        source.key: SourceEntry(
            title=source.title,
            edition=source.edition,
            licence=LicenceEntry(
                source.licence.name, source.licence.url, source.licence.publish, source.licence.statement
            ),
            citation=source.citation,
        )
        for source in run.benchmark.sources()
        if source.key in used_keys
    }
    benchmark = BenchmarkEntry(
        title=run.benchmark.title,
        paper=run.benchmark.paper,
        citation=run.benchmark.citation,
        version=run.version,
        seed=run.request.seed,
        limit_per_class=run.request.limit_per_class,
        demo=run.request.demo,
        roles_by_config=run.benchmark.roles_by_config,
    )
    return Contents(benchmark, configs, sources)


def finish_release(run: Run, before: Manifest, contents: Contents) -> Manifest:
    """Write the table of duplicates, manifest and card; what other runs put into the folder stays.

    Args:
        run: the run that ends.
        before: the folder's manifest from earlier runs.
        contents: what this run adds.

    Returns:
        The manifest.
    """
    layout = run.layout
    manifest = msgspec.structs.replace(
        before,
        benchmarks={**before.benchmarks, run.benchmark.name: contents.benchmark},
        configs={**before.configs, **contents.configs},
        sources={**before.sources, **contents.sources},
    )
    origins, earlier_table = list(contents.duplicates), before.duplicates
    # Another table was written by a run that was killed before its manifest was; all is looked for again.
    if earlier_table and layout.duplicates.is_file() and file_sha256(layout.duplicates) == earlier_table.sha256:
        origins.insert(0, origin(before, layout.duplicates))
    pixel_pairs = compare_pixels(layout, manifest, run.benchmark, run.meter, carried(origins, manifest))
    splits = manifest.by_key()
    table = complete(manifest, lambda key: layout.root / splits[key].index.path, origins, pixel_pairs)
    duplicates = write_duplicates(layout, table)
    training = {key for key, entry in splits.items() if is_training(key, entry)}
    run.meter.note(pairs_summary(read_pairs(layout.duplicates), training))
    manifest = with_samples(layout, msgspec.structs.replace(manifest, duplicates=duplicates), before)
    return card.write_card_and_manifest(layout, manifest, before)


def _config_entry(run: Run, config: Config, finished: Sequence[Finished], before: ConfigEntry | None) -> ConfigEntry:
    """Describe a config with the splits of this run and those of `before`, and write its exclusions."""
    path = run.layout.excluded(config.name)
    keys = [key for split in finished for key in pieces_by_key(split.plan.key, split.entry)]
    write_excluded(path, [e for split in finished for e in split.exclusions], keys)
    entries = {split.plan.key.partition("/")[2]: split.entry for split in finished}
    return ConfigEntry(
        benchmark=run.benchmark.name,
        description=config.description,
        label_names=finished[0].plan.parts[0].labels,
        columns=config.columns,
        splits={**before.splits, **entries} if before else entries,
        excluded=file_entry(run.layout, path),
    )


def _by_rule(exclusions: Sequence[Exclusion]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for exclusion in exclusions:
        counts[exclusion.rule] += exclusion.images
    return dict(sorted((+counts).items()))


def _unreadable(planned: PlannedSplit, dropped: Mapping[str, str]) -> list[Exclusion]:
    if not dropped:
        return []
    rows = planned.table.filter(pc.is_in(planned.table["id"], value_set=pa.array(dropped, pa.string())))
    exclusions = []
    for row in rows.to_pylist():
        rule, evidence = "unreadable", dropped[row["id"]]
        if owner_evidence := broken.broken().get(f"{row['source']}/{row['source_id']}"):
            rule, evidence = broken.RULE, f"{evidence}; {owner_evidence}"
        place = (planned.key, row["source"], "", row["class_id"], row["class_name"], row["source_id"])
        exclusions.append(Exclusion(*place, 1, rule, evidence))
    return exclusions
