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
from builders.card.samples import with_samples
from builders.declare.benchmark import Config, Part
from builders.duplicates.comparisons import PixelComparisons
from builders.duplicates.table import Origin, carried, complete, origin, write_table
from builders.errors import BuildError
from builders.generate.contract import Generator
from builders.pipeline.request import Run
from builders.plan.planner import PlannedSplit
from builders.plan.tables import remarks_on_classes
from builders.release.columns import ID_OVERLAP
from builders.release.digests import file_sha256, rows_digest
from builders.release.duplicates import read_pairs, summary
from builders.release.entries import BenchmarkEntry, ConfigEntry, LicenceEntry, Manifest, SourceEntry, column_entry
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.schema import arrow_schema
from builders.release.split_entries import FileEntry, PartEntry, SplitEntry, WithdrawnRow, is_training, pieces_by_key
from builders.release.tables import Exclusion, write_excluded, write_index
from builders.sources import broken
from builders.sources.base import Source
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

    def split(self, key: str) -> SplitEntry:
        """The entry of one split, by `config/split`."""
        config, _, name = key.partition("/")
        return self.configs[config].splits[name]


@dataclass(frozen=True)
class Finished:
    """One split of the release: its entry in the manifest, and what it leaves out."""

    plan: ReadPlan
    entry: SplitEntry
    exclusions: tuple[Exclusion, ...]


def finish_split(
    layout: Layout,
    plan: ReadPlan,
    lacking: Mapping[str, Sequence[str]],
    adopted: Mapping[str, str],
    *,
    demo: bool,
) -> Finished:
    """Write the index of a split whose shards are done and describe it.

    Args:
        layout: the release folder.
        plan: of the split.
        lacking: where its sources are short, by the keys of its parts.
        adopted: a digest of the lists that each was adopted from, or an empty text, by the same keys.
        demo: whether the rows are of demo sources.
    """
    config = plan.config
    parts = [layout.part(config.name, plan.name, i, plan.shards) for i in range(plan.shards)]
    records = [read_record(part) for part in parts]
    columns = arrow_schema((), config.columns, image=False).names
    rows = pa.concat_tables([read_parquet(part, columns) for part in parts]).replace_schema_metadata(None)
    dropped = dict(image for record in records for image in record.dropped)
    described = [_part(planned, dropped, lacking.get(planned.key, ()), adopted[planned.key]) for planned in plan.parts]
    if not rows.num_rows:
        raise _no_rows(plan, dropped)
    if sum(part.entry.rows for part in described) != rows.num_rows:
        raise AssertionError(f"{plan.key}: {rows.num_rows} rows, and not those of its parts")
    index = layout.index(config.name, plan.name)
    write_index(index, rows, plan.labels, config.columns, demo=demo)
    entry = _joined(
        described,
        digest=rows_digest(rows),
        data=data_entries(layout, plan),
        sealed=_sealed_entries(layout, plan),
        index=file_entry(layout, index),
        generator=plan.image_generator,
    )
    if ID_OVERLAP in config.columns:
        overlapping = rows.num_rows - rows[ID_OVERLAP.name].null_count
        compared = remarks_on_classes(config, plan.parts[0].split)
        entry = msgspec.structs.replace(entry, overlaps=overlapping, compared=compared)
    if not isinstance(plan.parts[0].split, Part):
        entry = _whole(entry, described[0].entry)
    exclusions = tuple(exclusion for part in described for exclusion in part.exclusions)
    return Finished(plan, entry, exclusions)


def _no_rows(plan: ReadPlan, dropped: Mapping[str, str]) -> BuildError:
    """The error for a split whose every image was left out; `dropped` has the reasons by id."""
    # What a reason says in brackets, such as digests, is of a single image.
    reason, images = Counter(reason.partition(" (")[0] for reason in dropped.values()).most_common(1)[0]
    return BuildError(
        f"{plan.key} would have no rows: all {len(dropped):,} of its images were left out, {images:,} of them "
        f"because: {reason}. Mend them and give another --out, or leave the split out with --splits."
    )


@dataclass(frozen=True)
class _Part:
    """A part of a split, or a split that has none: its entry, and what goes into that of the split."""

    entry: PartEntry
    withdrawn: tuple[WithdrawnRow, ...]
    shortfalls: tuple[str, ...]
    exclusions: tuple[Exclusion, ...]


def _part(planned: PlannedSplit, dropped: Mapping[str, str], lacking: Sequence[str], adopted: str) -> _Part:
    """Describe a part of a split, or a split that has none; `dropped` has reasons by the ids of unreadable rows."""
    split = planned.split
    unreadable = _unreadable(planned, dropped)
    exclusions = (*planned.excluded, *unreadable)
    excluded = sum(exclusion.images for exclusion in exclusions)
    rows = planned.table.num_rows - len(unreadable)
    if rows + excluded != planned.available:
        raise AssertionError(f"{planned.key}: {rows} kept and {excluded} excluded of {planned.available}")
    entry = PartEntry(
        role=split.role,
        source=split.source.key,
        partitions=tuple(split.partitions),
        rows=rows,
        expected=planned.count.rows,
        paper=planned.count.paper,
        why=planned.count.why,
        available=planned.available,
        excluded=excluded,
        excluded_by_rule=_by_rule(exclusions),
        adopted=adopted,
        name=split.name if isinstance(split, Part) else "",
        labelled=planned.config.has_labels(split),
        classes=planned.classes,
        paper_classes=planned.count.classes,
    )
    withdrawn = [WithdrawnRow(split.row_id(e.image), e.evidence) for e in exclusions if e.rule == "withdrawn"]
    left_out = [f"{e.image} left out as unreadable ({e.evidence})" for e in unreadable if e.rule != broken.RULE]
    return _Part(entry, tuple(withdrawn), (*lacking, *left_out), exclusions)


def _joined(
    parts: Sequence[_Part],
    *,
    digest: str,
    data: tuple[FileEntry, ...],
    sealed: tuple[FileEntry, ...],
    index: FileEntry,
    generator: Generator | None,
) -> SplitEntry:
    """Describe a split by its parts, and by what they come to together."""
    entries = tuple(part.entry for part in parts)
    by_rule: Counter[str] = Counter()
    for entry in entries:
        by_rule.update(entry.excluded_by_rule)
    return SplitEntry(
        rows=sum(entry.rows for entry in entries),
        expected=sum(entry.expected for entry in entries),
        paper=sum(entry.paper for entry in entries),
        why="; ".join(dict.fromkeys(entry.why for entry in entries if entry.why)),
        available=sum(entry.available for entry in entries),
        excluded=sum(entry.excluded for entry in entries),
        excluded_by_rule=dict(sorted(by_rule.items())),
        withdrawn=tuple(row for part in parts for row in part.withdrawn),
        shortfalls=tuple(dict.fromkeys(sentence for part in parts for sentence in part.shortfalls)),
        digest=digest,
        data=data,
        index=index,
        made=None if generator is None else generator.description,
        generator=None if generator is None else generator.entry(),
        sealed=sealed,
        parts=entries,
    )


def _whole(split: SplitEntry, part: PartEntry) -> SplitEntry:
    """Describe a split that is not joined by its only part."""
    described = msgspec.structs.replace(
        split, parts=None, role=part.role, source=part.source, partitions=part.partitions, adopted=part.adopted
    )
    (whole,) = described.pieces()
    if whole.labelled == part.labelled:
        return described  # as the role says
    return msgspec.structs.replace(described, labelled=part.labelled)


def data_entries(layout: Layout, plan: ReadPlan) -> tuple[FileEntry, ...]:
    """The finished shards of a split that have pixels, as the manifest lists them."""
    names = (plan.config.name, plan.name)
    entries = []
    for shard in range(plan.shards):
        path = layout.data(*names, shard, plan.shards)
        if path.exists():
            record = read_record(layout.part(*names, shard, plan.shards))
            entries.append(FileEntry(layout.relative(path), record.bytes, record.sha256))
    return tuple(entries)


def _sealed_entries(layout: Layout, plan: ReadPlan) -> tuple[FileEntry, ...]:
    """The files of sealed residuals of a split; none if its images are not sealed."""
    if plan.image_generator is None or plan.image_generator.sealed is None:
        return ()
    names = (plan.config.name, plan.name)
    return tuple(file_entry(layout, layout.sealed(*names, shard, plan.shards)) for shard in range(plan.shards))


def contents_of(run: Run, finished: Sequence[Finished], before: Manifest) -> Contents:
    """Write the tables of exclusions of splits that were built from sources, and describe them.

    Args:
        run: the run that built them.
        finished: the splits.
        before: the manifest of earlier runs, whose other splits stay.
    """
    configs = {
        config.name: _config_entry(run, config, mine, before.configs.get(config.name))
        for config in run.benchmark.configs
        if (mine := [split for split in finished if split.plan.config.name == config.name])
    }
    used = {source for split in finished for source in split.entry.sources}
    sources = {source.key: _source_entry(source) for source in run.benchmark.sources() if source.key in used}
    return Contents(_benchmark_entry(run), configs, sources)


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
    origins = [*_earlier_tables(layout, before), *contents.duplicates]
    found = PixelComparisons(layout, manifest, run.benchmark, run.meter).table(carried(origins, manifest))
    known = manifest.by_key()
    table = complete(manifest, lambda key: layout.root / known[key].index.path, origins, found)
    listed = write_table(layout, table)
    training = {key for key, entry in known.items() if is_training(key, entry)}
    run.meter.note(summary(read_pairs(layout.duplicates), training))
    manifest = with_samples(layout, msgspec.structs.replace(manifest, duplicates=listed), before)
    return card.write_card_and_manifest(layout, manifest, before)


def _config_entry(run: Run, config: Config, finished: Sequence[Finished], before: ConfigEntry | None) -> ConfigEntry:
    """Describe a config with the splits of this run and those of `before`, and write its exclusions."""
    path = run.layout.excluded(config.name)
    keys = [key for split in finished for key in pieces_by_key(split.plan.key, split.entry)]
    write_excluded(path, [e for split in finished for e in split.exclusions], keys)
    mine = {split.plan.name: split.entry for split in finished}
    return ConfigEntry(
        benchmark=run.benchmark.name,
        description=config.description,
        label_names=finished[0].plan.labels,
        columns=tuple(column_entry(column) for column in config.columns),
        splits={**before.splits, **mine} if before else mine,
        excluded=file_entry(run.layout, path),
    )


def _benchmark_entry(run: Run) -> BenchmarkEntry:
    benchmark, identity = run.benchmark, run.identity
    return BenchmarkEntry(
        title=benchmark.title,
        paper=benchmark.paper,
        citation=benchmark.citation,
        version=identity.version,
        seed=identity.seed,
        limit_per_class=identity.limit_per_class,
        demo=identity.demo,
        roles_by_config=benchmark.roles_by_config,
    )


def _source_entry(source: Source) -> SourceEntry:
    licence = source.licence
    return SourceEntry(
        title=source.title,
        edition=source.edition,
        licence=LicenceEntry(licence.name, licence.url, licence.publish, licence.statement),
        citation=source.citation,
    )


def _earlier_tables(layout: Layout, manifest: Manifest) -> list[Origin]:
    """The table of duplicates that a release folder has from earlier runs, where it is as its manifest lists it."""
    if manifest.duplicates is None or not layout.duplicates.is_file():
        return []
    if file_sha256(layout.duplicates) != manifest.duplicates.sha256:
        return []  # written by a run that was killed before its manifest was; all is looked for again
    return [origin(manifest, layout.duplicates)]


def _by_rule(exclusions: Sequence[Exclusion]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for exclusion in exclusions:
        if exclusion.images:
            counts[exclusion.rule] = counts.get(exclusion.rule, 0) + exclusion.images
    return dict(sorted(counts.items()))


def _unreadable(planned: PlannedSplit, dropped: Mapping[str, str]) -> list[Exclusion]:
    if not dropped:
        return []
    rows = planned.table.filter(pc.is_in(planned.table["id"], value_set=pa.array(dropped, pa.string())))
    return [_unreadable_image(planned.key, row, dropped[row["id"]]) for row in rows.to_pylist()]


def _unreadable_image(key: str, row: Mapping[str, Any], reason: str) -> Exclusion:
    known = broken.broken().get(f"{row['source']}/{row['source_id']}")
    rule, evidence = ("unreadable", reason) if known is None else (broken.RULE, f"{reason}; {known}")
    return Exclusion(key, row["source"], "", row["class_id"], row["class_name"], row["source_id"], 1, rule, evidence)
