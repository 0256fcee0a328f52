"""Building exactly the rows of a published index from a person's own sources, with every image's digest checked."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.benchmark import Benchmark, Part, Split
from builders.duplicates.table import Origin, origin
from builders.errors import BuildError, os_errors_as_build_errors
from builders.executors.base import Executor, Meter
from builders.pipeline.finish import data_entries, earlier_tables, finish_duplicates
from builders.pipeline.generated import Making
from builders.pipeline.recorded import copy_pixels, recorded_splits
from builders.pipeline.request import Choices, generators_of
from builders.pipeline.state import check_choices, check_generators, identity_of, locked, record_plans
from builders.plan.planner import PLAN_SCHEMA, PlannedSplit
from builders.plan.quotas import Rows
from builders.registry import BENCHMARKS
from builders.release import card
from builders.release.digests import rows_digest
from builders.release.entries import ConfigEntry, Manifest, SplitEntry, pieces_by_key
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest, read_or_empty
from builders.release.reader import config_of
from builders.release.schema import ROLES
from builders.release.tables import read_excluded, write_excluded, write_index
from builders.sources.base import Source, SourceIndex, open_source
from builders.writing.packs import remove_packs, unpack
from builders.writing.read_plan import STAGING, ReadPlan, join, locate, packed_rows


@dataclass(frozen=True)
class Published:
    """One config of a release, without pixels: the folder that has its files, and the manifest they are listed in.

    `name` is what messages call a release that was fetched into a folder of no interest.
    """

    root: Path
    config: str
    name: str = ""

    @functools.cached_property
    def manifest(self) -> Manifest:
        """The manifest of the whole release."""
        return read_manifest(self.root, self.name)

    def entry(self) -> ConfigEntry:
        """The config in the manifest.

        Raises:
            BuildError: the release has no such config.
        """
        return config_of(self.manifest, self.config)

    def splits(self) -> dict[str, SplitEntry]:
        """The entries of its splits in the manifest, by `config/split`."""
        return {f"{self.config}/{name}": split for name, split in sorted(self.entry().splits.items())}

    def duplicates(self) -> Origin:
        """The release's table of duplicates.

        Raises:
            BuildError: the file is no such table.
        """
        return origin(self.manifest, Layout(self.root).duplicates)

    def rows(self, split: str) -> pa.Table:
        """The rows of one split, as published.

        Raises:
            BuildError: the index is not there or is not the one that the manifest lists.
        """
        listed = self.entry().splits[split]
        path = self.root / listed.index.path
        if not path.is_file():
            raise BuildError(f"expected the published index {listed.index.path}, found none; fetch it again.")
        rows = pq.read_table(path)
        if rows_digest(rows) != listed.digest:
            raise BuildError(
                f"expected rows with the digest {listed.digest} in {listed.index.path}, found others; fetch the "
                "release again."
            )
        return rows.replace_schema_metadata(None)


def benchmark_of(published: Published) -> Benchmark:
    """The declaration that a published config was built from.

    Raises:
        BuildError: this version of the tools has no such benchmark, or another version of it.
    """
    name = published.entry().benchmark
    version = published.manifest.benchmarks[name].version
    if name not in BENCHMARKS:
        known = ", ".join(sorted(BENCHMARKS))
        raise BuildError(f"expected a benchmark that these tools build ({known}), found {name}; update the tools.")
    # A variant (after the plus) has the declaration of its benchmark.
    if BENCHMARKS[name].version != version.partition("+")[0]:
        raise BuildError(
            f"expected version {BENCHMARKS[name].version} of the benchmark {name}, which these tools build, found "
            f"{version}; use the tools that published it."
        )
    return BENCHMARKS[name]


def needed_sources(published: Published) -> dict[Source, tuple[str, ...]]:
    """The sources that a published config takes, each with its partitions."""
    benchmark = benchmark_of(published)
    wanted: dict[str, dict[str, None]] = {}
    entries = published.splits()
    for key in sorted(entries.keys() - recorded_splits(benchmark, entries)):
        for part in entries[key].pieces():
            wanted.setdefault(part.source, {}).update(dict.fromkeys(part.partitions))
    return {source: tuple(wanted[source.key]) for source in benchmark.sources() if source.key in wanted}


def rebuild(published: Published, roots: Mapping[str, Path], out: Path, meter: Meter, executor: Executor) -> Manifest:
    """Write the rows of a published config, with pixels from the given sources, into a release folder.

    Args:
        published: the config.
        roots: folders by source key.
        out: an empty folder, or one into which other configs of the same release were built.
        meter: shows progress.
        executor: runs the tasks; the result does not depend on it.

    Returns:
        The manifest, whose split digests are the publisher's.

    Raises:
        BuildError: an image is missing in a source or has other content than the publisher's.
    """
    benchmark = benchmark_of(published)
    layout = Layout(out)
    identity = identity_of(benchmark.name, published.manifest.benchmarks[benchmark.name])
    splits = published.splits()
    recorded = recorded_splits(benchmark, splits)
    generators = generators_of(benchmark, list(splits))
    keys = {
        part: listed.adopted for key, split in splits.items() for part, listed in pieces_by_key(key, split).items()
    }
    choices = Choices(out=out, splits=tuple(splits), roots=roots, seed=identity.seed, demo=identity.demo)
    with os_errors_as_build_errors("write the release"), locked(layout):
        check_choices(layout, identity, keys, allow_partial=False)
        check_generators(layout, identity, generators)
        for key in recorded:
            copy_pixels(key, splits[key], published.root, layout)
        indexes = {
            source.key: open_source(source, roots.get(source.key, Path()), partitions)
            for source, partitions in needed_sources(published).items()
        }
        located = _located(published, benchmark, indexes, layout, meter, without=recorded)
        digests = {split.key: split.digest for split in located}
        record_plans(layout, identity, keys, digests, generators, allow_partial=False)
        making = Making(layout, choices, indexes, executor, meter)
        ready = {key: _expecting(published, split) for key, split in making.make(located).items()}
        todo = {key: making.unfinished(split) for key, split in ready.items()}
        making.restore([(ready[key], shards) for key, shards in todo.items() if shards])
        tasks = [task for key, shards in todo.items() if shards for task in making.tasks(ready[key], shards)]
        meter.step("writing", sum(task.stop - task.start for task in tasks))
        tasks.sort(key=lambda task: -task.size)
        executor.run(tasks, meter.advance)
        manifest = _finish(published, benchmark, layout, ready, meter)
        remove_packs(layout.state / STAGING)
    return manifest


def _located(
    published: Published,
    benchmark: Benchmark,
    indexes: Mapping[str, SourceIndex],
    layout: Layout,
    meter: Meter,
    *,
    without: Collection[str],
) -> list[ReadPlan]:
    names = [key.partition("/")[2] for key in published.splits() if key not in without]
    planned = {name: _planned(published, benchmark, name, indexes) for name in names}
    pieces = [piece for split in planned.values() for piece in split]
    meter.step("finding", sum(len(piece.rows) for piece in pieces))
    unpacked = {
        key: unpack(index, rows, layout.state / STAGING, meter.advance)
        for key, index in indexes.items()
        if len(rows := packed_rows(index, [piece for piece in pieces if piece.split.source.key == key]))
    }
    found = []
    for name, split in planned.items():
        located = [
            locate(piece, indexes[key], unpacked.get(key), advance=meter.advance)
            for piece in split
            for key in [piece.split.source.key]
        ]
        found.append(join(located, _as_published(published.rows(name)["id"])))
    return found


def _as_published(ids: pa.ChunkedArray) -> Callable[[pa.Table], Rows]:
    """The order that a joined split's rows were published in."""

    def order(table: pa.Table) -> Rows:
        places = pc.index_in(ids, value_set=table["id"].combine_chunks())
        found: Rows = places.to_numpy().astype(np.int64)
        return found

    return order


def _planned(
    published: Published, benchmark: Benchmark, name: str, indexes: Mapping[str, SourceIndex]
) -> list[PlannedSplit]:
    """The plans that the published rows are, of a split or of each of its parts."""
    key = f"{published.config}/{name}"
    entry = published.entry()
    rows = published.rows(name)
    planned = []
    for part, listed in pieces_by_key(key, entry.splits[name]).items():
        config, split = benchmark.by_key()[part]
        index = indexes[split.source.key]
        mine = rows
        if isinstance(split, Part):
            of_role = pc.equal(rows["role"], ROLES.index(split.role))
            mine = rows.filter(pc.and_(of_role, pc.equal(rows["source"], split.source.key)))
        places = _places(key, split, mine, index)
        if isinstance(split, Part):
            # A role may have several partitions of one source, each a part of its own.
            inside = pc.is_in(index.table["partition"].take(places).cast(pa.string()), pa.array(split.partitions))
            mine, places = mine.filter(inside), places.filter(inside.combine_chunks())
        planned.append(
            PlannedSplit(
                key=part,
                config=config,
                split=split,
                count=benchmark.count(part),
                labels=entry.label_names,
                table=mine.select(PLAN_SCHEMA.names),
                rows=places.to_numpy().astype(np.int64),
                available=listed.available,
                excluded=(),
            )
        )
    return planned


def _places(key: str, split: Split, rows: pa.Table, index: SourceIndex) -> pa.Array:
    """Where some published rows are in a person's source, as row numbers of its index."""
    places = pc.index_in(rows["source_id"], value_set=index.table["source_id"].combine_chunks()).combine_chunks()
    absent = rows["source_id"].filter(pc.is_null(places))
    if len(absent):
        raise BuildError(
            f"{split.source.title}: expected the {rows.num_rows:,} images of {key} in {index.root}, found "
            f"{len(absent):,} missing, for instance {absent[0]}; give the whole edition ({split.source.edition})."
        )
    found = index.table["class_id"].cast(pa.string()).take(places)
    other = np.flatnonzero(pc.not_equal(found, rows["class_id"]).to_numpy())
    if len(other):
        at = int(other[0])
        raise BuildError(
            f"{split.source.title}: expected {rows['source_id'][at]} to be of class {rows['class_id'][at]} as "
            "published, "
            f"found {found[at]} in {index.root}; give the edition that the publisher used ({split.source.edition})."
        )
    return places


def _expecting(published: Published, split: ReadPlan) -> ReadPlan:
    """Add what the publisher has of each row: the config's own columns, and the digest to compare with."""
    rows = published.rows(split.name)
    table = split.table.append_column("expected_sha256", rows["content_sha256"])
    for name in (column.name for column in split.config.columns):
        if name not in table.column_names:
            table = table.append_column(name, rows[name])
        else:
            _refuse_other_values(table, rows, name)
    return dataclasses.replace(split, table=table)


def _refuse_other_values(table: pa.Table, rows: pa.Table, name: str) -> None:
    """Refuse values of a generator that are not those that were published with the same image."""
    ours, theirs = (values[name].cast(pa.string()) for values in (table, rows))  # as text, in which NaN equals NaN
    same_image = pc.equal(table["content_sha256"], rows["content_sha256"])
    other = np.flatnonzero(pc.and_(same_image, pc.not_equal(ours, theirs)).to_numpy())
    if len(other):
        at = int(other[0])
        raise BuildError(
            f"{rows['id'][at]} has {name} {ours[at]} when it is made here, and {theirs[at]} as published. Use the "
            "tools that published it."
        )


def _finish(
    published: Published, benchmark: Benchmark, layout: Layout, ready: Mapping[str, ReadPlan], meter: Meter
) -> Manifest:
    theirs, entry = published.manifest, published.entry()
    splits = {}
    for key, listed in published.splits().items():
        name = key.partition("/")[2]
        path = layout.index(published.config, name)
        write_index(path, published.rows(name), entry.label_names, entry.own_columns())
        data = data_entries(layout, ready[key]) if key in ready else listed.data
        splits[name] = msgspec.structs.replace(listed, data=data, index=file_entry(layout, path))
    before = read_or_empty(layout.root)
    origins = earlier_tables(layout)
    keys = [part for name, listed in splits.items() for part in pieces_by_key(f"{published.config}/{name}", listed)]
    excluded = layout.excluded(published.config)
    write_excluded(excluded, read_excluded(published.root / entry.excluded.path), keys)
    ours = msgspec.structs.replace(entry, splits=splits, excluded=file_entry(layout, excluded))
    used = sorted({key for listed in splits.values() for key in listed.sources})
    manifest = msgspec.structs.replace(
        before,
        benchmarks={**before.benchmarks, benchmark.name: theirs.benchmarks[benchmark.name]},
        configs={**before.configs, published.config: ours},
        sources={**before.sources, **{key: theirs.sources[key] for key in used}},
    )
    manifest = finish_duplicates(layout, benchmark, manifest, [*origins, published.duplicates()], meter)
    return card.write_card_and_manifest(layout, manifest)
