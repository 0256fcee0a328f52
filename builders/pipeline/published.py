"""A published config as the input of a build: its rows, its files, and the declaration that it was built from.

Tested by `tests/builders/pipeline/test_from_index.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Benchmark
from builders.duplicates.table import Origin, origin
from builders.errors import BuildError, one_line
from builders.pipeline.build_plan import Run
from builders.pipeline.finish import Contents, data_entries
from builders.pipeline.recorded import (
    Bring,
    bring_files,
    copy_pixels,
    opened_splits,
    recorded_splits,
    with_residuals,
    with_sealed,
)
from builders.release.digests import rows_digest
from builders.release.entries import ConfigEntry, Manifest
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest
from builders.release.schema import arrow_schema, without_values
from builders.release.split_entries import FileEntry, SplitEntry, pieces_by_key
from builders.release.tables import read_excluded, write_excluded, write_index
from builders.sources.base import Source
from builders.storage.files import copy_here
from builders.storage.parquet import read_parquet
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
        """Return the config in the manifest.

        Raises:
            BuildError: the release has no such config.
        """
        configs = self.manifest.configs
        if self.config not in configs:
            named = one_line(self.config) or "without a name"
            raise BuildError(f"The release has no config {named}. Name one of {', '.join(sorted(configs))}.")
        return configs[self.config]

    def splits(self) -> dict[str, SplitEntry]:
        """Return the entries of its wanted splits in the manifest, by `config/split`."""
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
        """Return the release's table of duplicates.

        Raises:
            BuildError: the file is no such table.
        """
        return origin(self.manifest, Layout(self.root).duplicates)

    def adopted(self) -> dict[str, str]:
        """Return the digest of the lists that each split or part was adopted from, or an empty text, by its key."""
        return {
            part_key: part.adopted
            for key, split in self.splits().items()
            for part_key, part in pieces_by_key(key, split).items()
        }

    def rows(self, key: str) -> pa.Table:
        """Return the rows of one split (`config/split`), as published.

        Raises:
            BuildError: the index is not there or is not the one that the manifest lists.
        """
        split = self.entry().splits[key.partition("/")[2]]
        path = self.root / split.index.path
        if not path.is_file():
            raise BuildError(f"The published index {split.index.path} is not in {self.root}. Fetch it again.")
        try:
            rows = read_parquet(path)
            rows.validate(full=True)  # which finds text that is not UTF-8
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise BuildError(f"Cannot read the published index {path} ({reason}). Fetch the release again.") from error
        entry = self.entry()
        expected = arrow_schema(entry.label_names, entry.columns, image=False)
        if not rows.schema.equals(expected) or without_values(rows, entry.columns):
            raise BuildError(
                f"The published index {split.index.path} has other columns than its manifest says, or cells without "
                "a value. Fetch the release again."
            )
        if rows_digest(rows) != split.digest:
            raise BuildError(
                f"The published index {split.index.path} has other rows than its manifest says (digest "
                f"{split.digest}). Fetch the release again."
            )
        return rows.replace_schema_metadata(None)


def benchmark_of(published: Published) -> Benchmark:
    """Return the declaration that a published config was built from.

    Raises:
        BuildError: this version of the tools has no such benchmark, or another version of it.
    """
    name = published.entry().benchmark
    version = published.manifest.benchmarks[name].version
    from builders.registry import BENCHMARKS  # all of them, which a build from sources needs not

    if name not in BENCHMARKS:
        names = ", ".join(sorted(BENCHMARKS))
        raise BuildError(f"These tools do not build the benchmark {name}, only {names}. Update the tools.")
    # What is asked for with flags stands after the plus; a variant without duplicates has the benchmark's declaration.
    plain, _, variants = version.partition("+")
    declared = BENCHMARKS[name]
    if plain != declared.version:
        raise BuildError(
            f"These tools do not build version {one_line(plain)} of the benchmark {name}, only {declared.version}. "
            "Use the tools that published it."
        )
    benchmark = with_sealed(declared.with_variants(variants.split(".")), published.config, published.splits())
    _refuse_undeclared(published, benchmark)
    return benchmark


def _refuse_undeclared(published: Published, benchmark: Benchmark) -> None:
    """Refuse splits or parts that the benchmark does not declare, or of other sources or partitions."""
    declared = {part: (split.source.key, tuple(split.partitions)) for part, (_, split) in benchmark.by_key().items()}
    for key, entry in published.splits().items():
        for part_key, part in pieces_by_key(key, entry).items():
            if declared.get(part_key) != (part.source, part.partitions):
                raise BuildError(
                    f"{part_key} in {published.name or published.root} has other sources or partitions than version "
                    f"{benchmark.version} of the benchmark {benchmark.name} declares, or is not in it. Fetch the "
                    "release again, or use the tools that published it."
                )


def needed_sources(published: Published) -> dict[Source, tuple[str, ...]]:
    """Return the sources that a published config needs, each with its partitions."""
    benchmark = benchmark_of(published)
    partitions: dict[str, dict[str, None]] = {}
    entries = published.splits()
    for key in sorted(entries.keys() - recorded_splits(benchmark, entries, published.root)):
        for part in entries[key].pieces():
            partitions.setdefault(part.source, {}).update(dict.fromkeys(part.partitions))
        companions = benchmark.by_key()[key][1].companions if key in benchmark.by_key() else None
        if companions is not None:
            partitions.setdefault(companions.of.key, {}).update(dict.fromkeys(companions.partitions))
    return {source: tuple(partitions[source.key]) for source in benchmark.sources() if source.key in partitions}


def copy_published(published: Published, run: Run) -> None:
    """Copy the pixels that cannot be generated again, and the sealed residuals of those that are opened.

    Raises:
        BuildError: the publisher's folder lacks a file, or has another than its manifest lists.
    """
    layout, splits = run.layout, published.splits()
    for key in recorded_splits(run.benchmark, splits, published.root):
        copy_pixels(key, splits[key], published.root, published.bring, layout)
    for key, entry in splits.items():
        bring_files(key, entry.sealed, "sealed", published.bring, layout)


def with_opened(published: Published, plan: ReadPlan, layout: Layout) -> ReadPlan:
    """Add the sealed residuals of images that are opened; a split without any stays as it is."""
    splits = published.splits()
    if plan.key not in opened_splits(splits, published.root):
        return plan
    return with_residuals(plan, splits[plan.key], published.rows(plan.key), layout)


def with_expected(published: Published, plan: ReadPlan) -> ReadPlan:
    """Add the published values of each row: the config's own columns, and the digest to compare with.

    Raises:
        BuildError: a generator gives an image another value than was published.
    """
    rows = published.rows(plan.key)
    table = plan.table.append_column("expected_sha256", rows["content_sha256"])
    for name in (column.name for column in plan.config.columns):
        if name not in table.column_names:
            table = table.append_column(name, rows[name])
        elif plan.image_generator is not None:
            _refuse_other_values(table, rows, name)
    return dataclasses.replace(plan, table=table)


def published_contents(published: Published, run: Run, written: Sequence[ReadPlan], before: Manifest) -> Contents:
    """Write the published index and exclusions, and describe the config as its publisher did.

    Args:
        published: the config.
        run: the run that built its rows.
        written: plans of the splits whose shards are finished.
        before: the folder's manifest from earlier runs.
    """
    layout, entry = run.layout, published.entry()
    ready = {plan.key: plan for plan in written}
    splits = {}
    for key, listed in published.splits().items():
        path = layout.index(key)
        rows = published.rows(key)
        write_index(path, rows, entry.label_names, entry.columns, demo=run.request.demo)
        data = data_entries(layout, ready[key]) if key in ready else listed.data
        splits[key.partition("/")[2]] = msgspec.structs.replace(listed, data=data, index=file_entry(layout, path))
        run.meter.advance(rows.num_rows)
    excluded, parts = layout.excluded(published.config), published.adopted()
    lines = [line for line in read_excluded(published.root / entry.excluded.path) if line.split in parts]
    write_excluded(excluded, lines, list(parts))
    earlier = before.configs[published.config].splits if published.config in before.configs else {}
    config = msgspec.structs.replace(entry, splits={**earlier, **splits}, excluded=file_entry(layout, excluded))
    manifest = published.manifest
    used_keys = sorted({key for listed in splits.values() for key in listed.sources})
    return Contents(
        benchmark=manifest.benchmarks[run.benchmark.name],
        configs={published.config: config},
        sources={key: manifest.sources[key] for key in used_keys},
        duplicates=(published.duplicates(),),
    )


def _refuse_other_values(table: pa.Table, rows: pa.Table, name: str) -> None:
    """Refuse values of a generator that differ from those published with the same image."""
    generated, published = (
        values[name].cast(pa.string()) for values in (table, rows)
    )  # as text, in which NaN equals NaN
    same_image = pc.equal(table["content_sha256"], rows["content_sha256"])
    differing = np.flatnonzero(pc.and_(same_image, pc.not_equal(generated, published)).to_numpy())
    if len(differing):
        first = int(differing[0])
        raise BuildError(
            f"{rows['id'][first]} has {name} {generated[first]} when it is generated here, and {published[first]} as "
            "published. Use the tools that published it."
        )
