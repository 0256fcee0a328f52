"""Builds exactly the rows of a published index from a person's own sources, and checks every image's digest."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.benchmark import Benchmark, Part, Split
from builders.duplicates.table import Origin, origin
from builders.errors import BuildError, one_line, os_errors_as_build_errors
from builders.executors.base import Executor, Meter
from builders.pipeline.finish import Contents, data_entries
from builders.pipeline.recorded import (
    Bring,
    copy_files,
    copy_pixels,
    opened_splits,
    recorded_splits,
    with_residuals,
    with_sealed,
)
from builders.pipeline.request import BuildRequest, Identity, Run
from builders.pipeline.run import PlannedRelease, write_release
from builders.plan.drawn import Listed
from builders.plan.planner import PlannedSplit
from builders.plan.quotas import Rows
from builders.plan.tables import PLAN_SCHEMA
from builders.registry import BENCHMARKS
from builders.release.columns import ID_OVERLAP
from builders.release.digests import rows_digest
from builders.release.entries import ConfigEntry, Manifest
from builders.release.images import LEAVE_OUT
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest
from builders.release.schema import ROLES, arrow_schema, without_values
from builders.release.split_entries import FileEntry, SplitEntry, pieces_by_key
from builders.release.tables import read_excluded, write_excluded, write_index
from builders.sources.base import Source, SourceIndex, open_source
from builders.storage.parquet import read_parquet
from builders.storage.paths import copy_here
from builders.writing.read_plan import ReadPlan


@dataclass(frozen=True)
class Published:
    """One config of a release, without pixels: the folder that has its files, and the manifest they are listed in.

    `name` is what messages call a release that was fetched into a folder of no interest, and `fetch` brings a file of
    it to a path that was not fetched before. `only` has the names of the splits that are wanted; all if it is empty.
    """

    root: Path
    config: str
    name: str = ""
    fetch: Bring | None = None
    only: frozenset[str] = frozenset()

    @functools.cached_property
    def manifest(self) -> Manifest:
        """The manifest of the whole release."""
        return read_manifest(self.root, self.name)

    def entry(self) -> ConfigEntry:
        """The config in the manifest.

        Raises:
            BuildError: the release has no such config.
        """
        configs = self.manifest.configs
        if self.config not in configs:
            named = one_line(self.config) or "without a name"
            raise BuildError(f"The release has no config {named}. Name one of {', '.join(sorted(configs))}.")
        return configs[self.config]

    def splits(self) -> dict[str, SplitEntry]:
        """The entries of its wanted splits in the manifest, by `config/split`."""
        return {
            f"{self.config}/{name}": split
            for name, split in sorted(self.entry().splits.items())
            if not self.only or name in self.only
        }

    def bring(self, file: FileEntry, target: Path) -> None:
        """Copy or fetch a file of the release to a path.

        Raises:
            BuildError: the release does not have it.
        """
        if self.fetch is not None:
            self.fetch(file, target)
            return
        path = self.root / file.path
        if not path.is_file():
            raise BuildError(f"The published file {file.path} is not in {self.root}. Fetch it again.")
        copy_here(path, target)

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
            raise BuildError(f"The published index {listed.index.path} is not in {self.root}. Fetch it again.")
        try:
            rows = read_parquet(path)
            rows.validate(full=True)  # which finds text that is not UTF-8
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise BuildError(f"Cannot read the published index {path} ({reason}). Fetch the release again.") from error
        entry = self.entry()
        expected = arrow_schema(entry.label_names, entry.own_columns(), image=False)
        if not rows.schema.equals(expected) or without_values(rows, entry.own_columns()):
            raise BuildError(
                f"The published index {listed.index.path} has other columns than its manifest says, or cells without "
                "a value. Fetch the release again."
            )
        if rows_digest(rows) != listed.digest:
            raise BuildError(
                f"The published index {listed.index.path} has other rows than its manifest says (digest "
                f"{listed.digest}). Fetch the release again."
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
        raise BuildError(f"These tools do not build the benchmark {name}, only {known}. Update the tools.")
    # What is asked for with flags stands after the plus; a variant without duplicates has the benchmark's declaration.
    plain, _, variants = version.partition("+")
    read = BENCHMARKS[name].at_version(plain).with_variants(variants.split("."))
    benchmark = with_sealed(read, published.config, published.splits())
    _refuse_undeclared(published, benchmark)
    return benchmark


def _refuse_undeclared(published: Published, benchmark: Benchmark) -> None:
    """Refuse splits or parts that the benchmark does not declare, or of other sources or partitions."""
    declared = {part: (split.source.key, tuple(split.partitions)) for part, (_, split) in benchmark.by_key().items()}
    for key, entry in published.splits().items():
        for part, listed in pieces_by_key(key, entry).items():
            if declared.get(part) != (listed.source, listed.partitions):
                raise BuildError(
                    f"{part} in {published.name or published.root} has other sources or partitions than version "
                    f"{benchmark.version} of the benchmark {benchmark.name} declares, or is not in it. Fetch the "
                    "release again, or use the tools that published it."
                )


def needed_sources(published: Published) -> dict[Source, tuple[str, ...]]:
    """The sources that a published config takes, each with its partitions."""
    benchmark = benchmark_of(published)
    wanted: dict[str, dict[str, None]] = {}
    entries = published.splits()
    for key in sorted(entries.keys() - recorded_splits(benchmark, entries, published.root)):
        for part in entries[key].pieces():
            wanted.setdefault(part.source, {}).update(dict.fromkeys(part.partitions))
        companions = benchmark.by_key()[key][1].companions if key in benchmark.by_key() else None
        if companions is not None:
            wanted.setdefault(companions.of.key, {}).update(dict.fromkeys(companions.partitions))
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
    return write_release(find(published, roots, out, meter, executor))


def find(
    published: Published, roots: Mapping[str, Path], out: Path, meter: Meter, executor: Executor
) -> PlannedFromIndex:
    """Find the rows of a published config in the given sources, and write nothing; the arguments are `rebuild`'s.

    Raises:
        BuildError: a source is missing, or lacks a published image.
    """
    benchmark = benchmark_of(published)
    identity = Identity.released(benchmark.name, published.manifest.benchmarks[benchmark.name])
    request = BuildRequest(
        out=out,
        splits=tuple(published.splits()),
        roots=roots,
        seed=identity.seed,
        limit_per_class=identity.limit_per_class,
        demo=identity.demo,
    )
    with _nothing_left_out():
        return prepare(published, Run(benchmark, request, identity, executor, meter))


@contextlib.contextmanager
def _nothing_left_out() -> Iterator[None]:
    """Take from errors about single images the advice to leave them out: a published index has all its rows."""
    try:
        yield
    except BuildError as error:
        if LEAVE_OUT not in str(error):
            raise
        raise BuildError(str(error).replace(LEAVE_OUT, "")) from error


def prepare(published: Published, run: Run) -> PlannedFromIndex:
    """Open the sources that a published config takes, and find its rows in them.

    Raises:
        BuildError: a source is missing, or lacks a published image.
    """
    with os_errors_as_build_errors("read the sources"):
        indexes = {
            source.key: open_source(source, run.request.roots.get(source.key, Path()), partitions)
            for source, partitions in needed_sources(published).items()
        }
        recorded = recorded_splits(run.benchmark, published.splits(), published.root)
        names = [key.partition("/")[2] for key in published.splits() if key not in recorded]
        planned = [part for name in names for part in _planned(published, run.benchmark, name, indexes)]
    return PlannedFromIndex(run, indexes, published, tuple(planned))


@dataclass(frozen=True)
class PlannedFromIndex(PlannedRelease):
    """The rows of a published config, found in a person's sources.

    Splits whose images cannot be generated again are not among `planned`, unless they are sealed; their pixels are
    copied.
    """

    run: Run
    indexes: Mapping[str, SourceIndex]
    published: Published
    planned: tuple[PlannedSplit, ...]

    @property
    def adopted_digests(self) -> Mapping[str, str]:
        """The publisher's digests of what each split or part was adopted from."""
        return {
            part: listed.adopted
            for key, split in self.published.splits().items()
            for part, listed in pieces_by_key(key, split).items()
        }

    def labels(self) -> Mapping[str, Sequence[str]]:
        """The published config's in-distribution classes."""
        return {self.published.config: self.published.entry().label_names}

    def final(self) -> PlannedFromIndex:
        """Copy the pixels that cannot be generated again, and the sealed residuals of those that are opened."""
        published, layout, splits = self.published, self.run.layout, self.published.splits()
        for key in recorded_splits(self.run.benchmark, splits, published.root):
            copy_pixels(key, splits[key], published.root, published.bring, layout)
        for key, entry in splits.items():
            copy_files(key, entry.sealed, layout.sealed, published.bring, layout)
        return self

    def beside(self, plan: ReadPlan) -> ReadPlan:
        """Add the sealed residuals of images that are opened."""
        splits = self.published.splits()
        if plan.key not in opened_splits(splits, self.published.root):
            return plan
        return with_residuals(plan, splits[plan.key], self.published.rows(plan.name), self.run.layout)

    def order(self, key: str) -> Callable[[pa.Table], Rows]:
        """The order that a joined split's rows were published in."""
        return _as_published(self.published.rows(key.partition("/")[2])["id"])

    def expecting(self, plan: ReadPlan) -> ReadPlan:
        """Add what the publisher has of each row: the config's own columns, and the digest to compare with."""
        rows = self.published.rows(plan.name)
        table = plan.table.append_column("expected_sha256", rows["content_sha256"])
        for name in (column.name for column in plan.config.columns):
            if name not in table.column_names:
                table = table.append_column(name, rows[name])
            elif plan.image_generator is not None:
                _refuse_other_values(table, rows, name)
        return dataclasses.replace(plan, table=table)

    def describe(self, written: Sequence[ReadPlan], before: Manifest) -> Contents:
        """Write the published index and exclusions, and describe the config as its publisher did."""
        layout, published, entry = self.run.layout, self.published, self.published.entry()
        ready = {plan.key: plan for plan in written}
        splits = {}
        for key, listed in published.splits().items():
            name = key.partition("/")[2]
            path = layout.index(published.config, name)
            rows = published.rows(name)
            write_index(path, rows, entry.label_names, entry.own_columns(), demo=self.run.identity.demo)
            data = data_entries(layout, ready[key]) if key in ready else listed.data
            splits[name] = msgspec.structs.replace(listed, data=data, index=file_entry(layout, path))
            self.run.meter.advance(rows.num_rows)
        excluded, parts = layout.excluded(published.config), self.adopted_digests
        lines = [line for line in read_excluded(published.root / entry.excluded.path) if line.split in parts]
        write_excluded(excluded, lines, list(parts))
        earlier = before.configs[published.config].splits if published.config in before.configs else {}
        config = msgspec.structs.replace(entry, splits={**earlier, **splits}, excluded=file_entry(layout, excluded))
        theirs = published.manifest
        used = sorted({key for listed in splits.values() for key in listed.sources})
        return Contents(
            benchmark=theirs.benchmarks[self.run.benchmark.name],
            configs={published.config: config},
            sources={key: theirs.sources[key] for key in used},
            duplicates=(published.duplicates(),),
        )


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
        own = [*(column.name for column in config.source_columns), *(ID_OVERLAP.name,) * bool(config.overlaps)]
        index = indexes[split.source.key]
        mine = rows
        if isinstance(split, Part):
            of_role = pc.equal(rows["role"], ROLES.index(split.role))
            mine = rows.filter(pc.and_(of_role, pc.equal(rows["source"], split.source.key)))
        places = _places(key, split, mine, index)
        if isinstance(split, Part):
            # A role may have several partitions of one source, each a part of its own.
            of_part = np.isin([piece.partition for piece in index.pieces], split.partitions)
            inside = pa.array(of_part[index.piece_of(places.to_numpy())])
            mine, places = mine.filter(inside), places.filter(inside)
        planned.append(
            PlannedSplit(
                key=part,
                config=config,
                split=split,
                count=benchmark.count(part),
                labels=entry.label_names,
                images=Listed(places.to_numpy().astype(np.int64), mine.select([*PLAN_SCHEMA.names, *own])),
                available=listed.available,
                excluded=(),
            )
        )
    return planned


def _places(key: str, split: Split, rows: pa.Table, index: SourceIndex) -> pa.Array:
    """Where some published rows are in a person's source, as row numbers of its index."""
    places = index.find(rows["source_id"])
    absent = rows["source_id"].filter(pc.is_null(places))
    if len(absent):
        raise BuildError(
            f"{split.source.title} in {index.root} lacks {len(absent):,} of the {rows.num_rows:,} images of {key}, "
            f"such as {absent[0]}. Give the whole edition ({split.source.edition})."
        )
    found = index.take(["class_id"], places.to_numpy())["class_id"].cast(pa.string())
    other = np.flatnonzero(pc.not_equal(found, rows["class_id"]).to_numpy())
    if len(other):
        at = int(other[0])
        raise BuildError(
            f"{split.source.title} in {index.root} has {rows['source_id'][at]} in the class {found[at]}, and the "
            f"publisher had it in {rows['class_id'][at]}. Give the edition that the publisher used "
            f"({split.source.edition})."
        )
    return places


def _refuse_other_values(table: pa.Table, rows: pa.Table, name: str) -> None:
    """Refuse values of a generator that are not those that were published with the same image."""
    ours, theirs = (values[name].cast(pa.string()) for values in (table, rows))  # as text, in which NaN equals NaN
    same_image = pc.equal(table["content_sha256"], rows["content_sha256"])
    other = np.flatnonzero(pc.and_(same_image, pc.not_equal(ours, theirs)).to_numpy())
    if len(other):
        at = int(other[0])
        raise BuildError(
            f"{rows['id'][at]} has {name} {ours[at]} when it is generated here, and {theirs[at]} as published. Use "
            "the tools that published it."
        )
