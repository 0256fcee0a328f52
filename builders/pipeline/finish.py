"""Turns finished shards into a release: writes indexes, exclusions, manifest and card.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from builders.card import card
from builders.card.pictures import with_samples
from builders.duplicates.by_pixels import compare_pixels
from builders.duplicates.table import complete, read_earlier, write_duplicates
from builders.errors import BuildError
from builders.executors.base import Advance, Executor, Meter
from builders.pipeline.build_plan import BuildPlan
from builders.pipeline.read_plan import ReadPlan
from builders.pipeline.shards import record_of
from builders.plan.planner import PlannedSplit, remarks_on_classes
from builders.release.digests import file_sha256, rows_digest
from builders.release.duplicates import pairs_summary, read_pairs
from builders.release.entries import (
    BenchmarkEntry,
    ConfigEntry,
    Manifest,
    PartEntry,
    SourceEntry,
    SplitEntry,
    WithdrawnRow,
)
from builders.release.manifest import file_entry
from builders.release.schema import ID_OVERLAP, arrow_schema
from builders.release.tables import Exclusion, parts_beside, write_excluded, write_index
from builders.sources.broken import RULE as BROKEN_RULE
from taxonomy import tables


def with_written_splits(plan: BuildPlan, chosen: Sequence[ReadPlan], before: Manifest, advance: Advance) -> Manifest:
    """Write the indexes and exclusions of splits built from sources, and add the splits to a manifest."""
    request, benchmark = plan.request, plan.draws.benchmark
    configs: dict[str, ConfigEntry] = {}
    used_keys: set[str] = set()
    for config in benchmark.configs:
        entries: dict[str, SplitEntry] = {}
        keys: list[str] = []
        exclusions: list[Exclusion] = []
        planned = (split for split in chosen if split.key not in plan.repeated.rows)
        for split in (split for split in planned if split.config.name == config.name):
            entry, excluded = _finish_split(plan, split)
            advance(split.table.num_rows)
            entries[split.key.partition("/")[2]] = entry
            keys += [part.key for part in entry.parts]
            exclusions += excluded
            used_keys.update(entry.sources)
        if entries:
            path, group = request.layout.excluded(config.name), benchmark.group(config.name)
            write_excluded(path, exclusions, keys, parts_beside(config.parts, before.configs.get(config.name)))
            configs[config.name] = ConfigEntry(
                benchmark=benchmark.name,
                description=config.description,
                label_names=tuple(plan.labels[config.name]),
                columns=config.columns,
                splits={**(before.configs[config.name].splits if config.name in before.configs else {}), **entries},
                excluded=file_entry(request.layout, path),
                group=group if group != config.name else "",
            )
    sources = {
        source.key: SourceEntry(source.title, source.edition, source.licence, source.citation)
        for source in (index.source for index in plan.indexes.values())
        if source.key in used_keys
    }
    described = BenchmarkEntry(
        title=benchmark.title,
        paper=benchmark.paper,
        citation=benchmark.citation,
        version=plan.version,
        seed=request.seed,
        limit_per_class=request.limit_per_class,
        demo=request.demo,
        roles_by_config=benchmark.roles_by_config,
        near_distance=benchmark.near_distance,
    )
    return msgspec.structs.replace(
        before,
        benchmarks={**before.benchmarks, benchmark.name: described},
        configs={**before.configs, **configs},
        sources={**before.sources, **sources},
    )


def _finish_split(plan: BuildPlan, located: ReadPlan) -> tuple[SplitEntry, list[Exclusion]]:
    """Write the index of a split whose shards are done; returns its entry, and what it leaves out."""
    layout, config, key = plan.request.layout, located.config, located.key
    shards = located.records(layout)
    dropped = dict(image for shard in shards for image in record_of(shard).dropped)
    columns = arrow_schema((), config.columns, image=False).names
    rows = pa.concat_tables([shard.select(columns).replace_schema_metadata(None) for shard in shards])
    if not rows.num_rows:
        # What a reason says in brackets, such as digests, is of a single image.
        reason, images = Counter(reason.partition(" (")[0] for reason in dropped.values()).most_common(1)[0]
        raise BuildError(
            f"{key} would have no rows: all {len(dropped):,} of its images were left out, {images:,} of them because: "
            f"{reason}. Mend them and give another --out, or leave the split out with --splits."
        )
    parts: list[PartEntry] = []
    exclusions: list[Exclusion] = []
    shortfalls: dict[str, None] = {}
    withdrawn: list[WithdrawnRow] = []
    for planned in located.parts:
        unreadable = _unreadable(planned, dropped)
        excluded = [*planned.excluded, *unreadable]
        parts.append(_part_entry(plan, planned, excluded, planned.size - len(unreadable)))
        exclusions += excluded
        shortfalls |= dict.fromkeys(plan.lacking.get(planned.key, ()))
        left_out = [exclusion for exclusion in unreadable if exclusion.rule != BROKEN_RULE]
        shortfalls |= dict.fromkeys(f"{e.image} left out as unreadable ({e.evidence})" for e in left_out)
        row_id = planned.split.row_id
        withdrawn += [WithdrawnRow(row_id(e.image), e.evidence) for e in excluded if e.rule == "withdrawn"]
    if sum(part.rows for part in parts) != rows.num_rows:
        raise AssertionError(f"{key}: {rows.num_rows} rows, and not those of its parts")
    write_index(layout.index(key), rows, plan.labels[config.name], config.columns, demo=plan.request.demo)
    generator = located.image_generator
    sealed = range(located.shards if located.is_sealed else 0)
    entry = SplitEntry(
        parts=tuple(parts),
        withdrawn=tuple(withdrawn),
        shortfalls=tuple(shortfalls),
        digest=rows_digest(rows),
        data=located.data_entries(layout, shards),
        index=file_entry(layout, layout.index(key)),
        sealed=tuple(file_entry(layout, layout.shard("sealed", key, n, located.shards)) for n in sealed),
        made=None if generator is None else generator.description,
        generator=None if generator is None else generator.entry(),
        overlaps=rows.num_rows - rows[ID_OVERLAP.name].null_count if ID_OVERLAP in config.columns else None,
        compared=remarks_on_classes(config, located.parts[0].split) if ID_OVERLAP in config.columns else None,
    )
    return entry, exclusions


def _part_entry(plan: BuildPlan, planned: PlannedSplit, excluded: Sequence[Exclusion], rows: int) -> PartEntry:
    """Describe a part of a split."""
    split, count, by_rule = planned.split, plan.draws.benchmark.count(planned.key), Counter[str]()
    for exclusion in excluded:
        by_rule[exclusion.rule] += exclusion.images
    if rows + by_rule.total() != planned.available:
        raise AssertionError(f"{planned.key}: {rows} kept and {by_rule.total()} excluded of {planned.available}")
    return PartEntry(
        key=planned.key,
        role=split.role,
        source=split.source.key,
        partitions=tuple(split.partitions),
        rows=rows,
        expected=count.rows,
        paper=count.paper,
        why=count.why,
        available=planned.available,
        excluded_by_rule=dict(sorted((+by_rule).items())),
        adopted=plan.adopted[planned.key],
        labelled=planned.config.has_labels(split),
        classes=planned.classes,
        paper_classes=count.classes,
    )


def _unreadable(planned: PlannedSplit, dropped: Mapping[str, str]) -> list[Exclusion]:
    if not dropped:
        return []
    rows = planned.table.filter(pc.is_in(planned.table["id"], value_set=pa.array(dropped, pa.string())))
    exclusions = []
    for row in rows.to_pylist():
        rule, evidence = "unreadable", dropped[row["id"]]
        if owner_evidence := tables.broken_images().get(f"{row['source']}/{row['source_id']}"):
            rule, evidence = BROKEN_RULE, f"{evidence}; {owner_evidence}"
        place = (planned.key, row["source"], "", row["class_id"], row["class_name"], row["source_id"])
        exclusions.append(Exclusion(*place, 1, rule, evidence))
    return exclusions


def finish_release(
    plan: BuildPlan, before: Manifest, manifest: Manifest, executor: Executor, meter: Meter
) -> Manifest:
    """Write the table of duplicates, the manifest with this run's splits, and the card."""
    layout, earlier_table = plan.request.layout, before.duplicates
    # A published table's pairs are among the rows.
    earlier_tables = [read_earlier(plan.repeated.manifest, path) for path in plan.repeated.duplicates]
    # Another table was written by a run that was killed before its manifest was; all is looked for again.
    if earlier_table and layout.duplicates.is_file() and file_sha256(layout.duplicates) == earlier_table.sha256:
        earlier_tables.insert(0, read_earlier(before, layout.duplicates))
    pixel_pairs = compare_pixels(layout, manifest, plan.draws.benchmark, executor, meter, earlier_tables)
    splits = manifest.by_key()
    table = complete(manifest, lambda key: layout.root / splits[key].index.path, earlier_tables, pixel_pairs)
    duplicates = write_duplicates(layout, manifest, table)
    meter.note(pairs_summary(read_pairs(layout.duplicates), manifest))
    manifest = with_samples(layout, msgspec.structs.replace(manifest, duplicates=duplicates), before)
    return card.write_card_and_manifest(layout, manifest, before)
