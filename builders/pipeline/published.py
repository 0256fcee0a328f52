"""A published config as the input of a build: its rows, files and description, and what it was declared by.

Tested by `tests/builders/pipeline/test_from_index.py`, and `tests/builders/generate/test_sealed_release.py` and
`test_toy_release.py` beside it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.cli.request import BuildRequest
from builders.declare.benchmark import Benchmark
from builders.declare.splits import Config, Split
from builders.errors import BuildError, first_line, one_line
from builders.executors.base import Advance
from builders.generate.contract import COMPANION_COLUMNS, COMPANION_VALUE, Generator, identity_differences
from builders.generate.sealed import CONTENT, residual_opener
from builders.pipeline.read_plan import STAGING, Pack, ReadPlan
from builders.release.digests import file_sha256, rows_digest
from builders.release.entries import ConfigEntry, FileEntry, GeneratorEntry, Manifest, PartEntry, SplitEntry
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest
from builders.release.schema import arrow_schema, without_values
from builders.release.tables import read_excluded, write_excluded, write_index
from builders.sources.base import Source
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.files import atomic_path, copy_here
from builders.storage.parquet import UNREADABLE, read_parquet, spilled, write_arrow
from builders.storage.sealed_files import published_residuals

Bring = Callable[[FileEntry, Path], object]
"""Brings a file that a published manifest lists to a path."""


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

    @functools.cached_property
    def entry(self) -> ConfigEntry:
        """The config in the manifest."""
        configs = self.manifest.configs
        if self.config not in configs:
            named = one_line(self.config) or "without a name"
            raise BuildError(f"The release has no config {named}. Name one of {', '.join(sorted(configs))}.")
        return configs[self.config]

    @functools.cached_property
    def splits(self) -> dict[str, SplitEntry]:
        """The entries of its wanted splits in the manifest, by `config/split`."""
        entries = sorted(self.entry.splits.items())
        return {f"{self.config}/{name}": split for name, split in entries if not self.only or name in self.only}

    @functools.cached_property
    def parts(self) -> dict[str, PartEntry]:
        """The entries of the parts of these splits by their keys."""
        return {part.key: part for split in self.splits.values() for part in split.parts}

    @functools.cached_property
    def benchmark(self) -> Benchmark:
        """The declaration that it was built from, with generators that open its sealed residuals."""
        from builders.registry import BENCHMARKS  # imports all benchmarks, which a build from sources does not need

        name = self.entry.benchmark
        if name not in BENCHMARKS and not self.manifest.benchmarks[name].citation:
            raise BuildError(
                f"{name} is a benchmark of somebody's own folders, which materialize does not read. With the same "
                "folders, python -m builders.folder_benchmark builds the same rows."
            )
        if name not in BENCHMARKS:
            names = ", ".join(sorted(BENCHMARKS))
            raise BuildError(f"These tools do not build the benchmark {name}, only {names}. Update the tools.")
        # What is asked for with flags stands after the plus; a variant without duplicates has the benchmark's
        # declaration.
        plain, _, variants = self.manifest.benchmarks[name].version.partition("+")
        declared = BENCHMARKS[name]
        if plain != declared.version:
            raise BuildError(
                f"These tools do not build version {one_line(plain)} of the benchmark {name}, only "
                f"{declared.version}. Use the tools that published it."
            )
        benchmark = declared.with_variants(variants.split("."))
        for config in benchmark.configs:
            if config.name == self.config:
                benchmark = benchmark.with_splits({config.name: self._opening(config)})
        splits = {key: (split.source.key, tuple(split.partitions)) for key, (_, split) in benchmark.units.items()}
        for key, part in self.parts.items():
            if splits.get(key) != (part.source, part.partitions):
                raise BuildError(
                    f"{key} in {self.name or self.root} has other sources or partitions than version "
                    f"{benchmark.version} of the benchmark {name} declares, or is not in it. Fetch the release again, "
                    "or use the tools that published it."
                )
        for key, generator in benchmark.generators(self.splits).items():
            published = self.splits[key].generator
            if published is None:
                raise BuildError(
                    f"The manifest does not say how the images of {key} were generated. Fetch the release again."
                )
            _refuse_other_generator(key, published, generator)
        return benchmark

    def _opening(self, config: Config) -> dict[str, Split]:
        """Return the sealed splits by name, with generators that open the residuals; other splits are unchanged.

        A split of somebody's own model is declared like one of the config's sealed splits, of which it is one more
        (`builders.declare.benchmark.Settings`).
        """
        splits: dict[str, Split] = {}
        own = config.units
        for key, entry in self.splits.items():
            places = [(part.role, part.source, part.partitions) for part in entry.parts]
            alike = (split for split in own.values() if [(split.role, split.source.key, split.partitions)] == places)
            for split in (own[key],) if key in own else alike:
                generator = split.generator
                if entry.sealed and entry.generator is not None and generator is not None and generator.sealed:
                    # The generator of somebody's own model has a name of its own.
                    name = entry.generator.name if key in own else generator.name
                    named = msgspec.structs.replace(entry.generator, name=name)
                    _refuse_other_generator(key, named, generator)
                    name = key.partition("/")[2]
                    opener = residual_opener(generator, entry.generator)
                    splits[name] = dataclasses.replace(split, name=name, generator=opener)
                    break
        return splits

    def has_pixels(self, key: str) -> bool:
        """Whether the folder, which may have the index alone, has the images of a split."""
        data = self.splits[key].data
        return bool(data) and all((self.root / file.path).is_file() for file in data)

    @functools.cached_property
    def opened(self) -> frozenset[str]:
        """The splits whose sealed residuals are opened: those without pixels."""
        return frozenset(key for key, entry in self.splits.items() if entry.sealed and not self.has_pixels(key))

    @functools.cached_property
    def recorded(self) -> frozenset[str]:
        """The splits whose pixels are copied, since nobody can generate them again."""
        generators = self.benchmark.generators(self.splits)
        return frozenset(key for key, made in generators.items() if made.reproducible == "recorded") - self.opened

    @property
    def sources(self) -> dict[Source, tuple[str, ...]]:
        """The sources that are needed, each with its partitions."""
        needed: dict[str, dict[str, None]] = {}
        for key in sorted(self.splits.keys() - self.recorded):
            for part in self.splits[key].parts:
                needed.setdefault(part.source, {}).update(dict.fromkeys(part.partitions))
            companions = self.benchmark.units[key].split.companions if key in self.benchmark.units else None
            if companions is not None:
                needed.setdefault(companions.of.key, {}).update(dict.fromkeys(companions.partitions))
        return {source: tuple(needed[source.key]) for source in self.benchmark.sources() if source.key in needed}

    def bring(self, file: FileEntry, target: Path) -> None:
        """Copy or fetch a file of the release to a path."""
        if self.fetch is not None:
            self.fetch(file, target)
            return
        path = self.root / file.path
        if not path.is_file():
            raise BuildError(f"The published file {file.path} is not in {self.root}. Fetch it again.")
        copy_here(path, target)

    @functools.cached_property
    def _rows(self) -> dict[str, pa.Table]:
        return {}

    def rows(self, key: str) -> pa.Table:
        """Return the rows of one split (`config/split`), as published; the file is read and checked once."""
        if key not in self._rows:
            self._rows[key] = spilled([self._read_rows(key)])
        return self._rows[key]

    def _read_rows(self, key: str) -> pa.Table:
        split = self.entry.splits[key.partition("/")[2]]
        path = self.root / split.index.path
        if not path.is_file():
            raise BuildError(f"The published index {split.index.path} is not in {self.root}. Fetch it again.")
        try:
            rows = read_parquet(path)
            rows.validate(full=True)  # which finds text that is not UTF-8
        except UNREADABLE as error:
            raise BuildError(
                f"Cannot read the published index {path} ({first_line(error)}). Fetch the release again."
            ) from error
        columns = self.entry.columns
        expected = arrow_schema(self.entry.label_names, columns, image=False)
        problem = ""
        if not rows.schema.equals(expected) or without_values(rows, columns):
            problem = "other columns than its manifest says, or cells without a value"
        elif rows_digest(rows) != split.digest:
            problem = f"other rows than its manifest says (digest {split.digest})"
        if problem:
            raise BuildError(f"The published index {split.index.path} has {problem}. Fetch the release again.")
        return rows.replace_schema_metadata(None)


def copy_published(published: Published, layout: Layout) -> None:
    """Copy the pixels that cannot be generated again, and all sealed residuals, but for files that are there."""
    for key, entry in published.splits.items():
        if key in published.recorded and not published.has_pixels(key):
            raise BuildError(
                f"The images of {key} cannot be generated again: they depend on the device and the library versions "
                f"that generated them. Load the published ones, or give a release folder that has them; "
                f"{published.root} does not."
            )
        # A plan says that a split is begun (`Layout.plan`): what a kill leaves of it is unfinished, and not foreign.
        if key in published.recorded | published.opened:
            write_arrow(layout.plan(key), published.rows(key))
        for folder, files in (("data", entry.data if key in published.recorded else ()), ("sealed", entry.sealed)):
            for shard, file in enumerate(files):
                target = layout.shard(folder, key, shard, len(files))
                if target.is_file() and file_sha256(target) == file.sha256:
                    continue
                with atomic_path(target) as temporary:
                    published.bring(file, temporary)
                    if layout.relative(target) != file.path or file_sha256(temporary) != file.sha256:
                        raise BuildError(
                            f"{file.path} in the published release is not of shard {shard} of {key}, or not as its "
                            f"manifest lists it (SHA-256 {file.sha256}). Fetch the release again."
                        )


def with_residuals(published: Published, plan: ReadPlan, layout: Layout) -> ReadPlan:
    """Add the sealed residuals of images that are opened, with the published values that go with each.

    A split without any stays as it is. `copy_published` has brought the residuals into the folder.
    """
    generator = plan.image_generator
    if plan.key not in published.opened or generator is None:
        return plan
    sealed, rows = published.splits[plan.key].sealed, published.rows(plan.key)
    digest = hashlib.sha256("\n".join(file.sha256 for file in sealed).encode()).hexdigest()[:16]
    path = layout.state / STAGING / f"sealed-{digest}{PACK_SUFFIX}"
    files = [layout.inside(file.path) for file in sealed]
    pack = Pack(path, lambda: published_residuals(files, rows["id"], generator.prepared))
    sizes, count = pack.lengths(), rows.num_rows
    offsets = np.cumsum(sizes) - sizes
    places = [pa.repeat(STAGING, count), pa.repeat(path.name, count), pa.array(offsets), pa.array(sizes)]
    table = plan.table
    for name, column in zip(COMPANION_COLUMNS, places, strict=True):
        table = table.append_column(name, column)
    for name in (CONTENT, *(column.name for column in generator.columns)):
        table = table.append_column(f"{COMPANION_VALUE}{name}", rows[name])
    return dataclasses.replace(plan, table=table, packs=(*plan.packs, pack))


def with_expected(published: Published, plan: ReadPlan) -> ReadPlan:
    """Add the published values of the config's own columns, and compare those that were generated."""
    rows, table = published.rows(plan.key), plan.table
    for name in (column.name for column in plan.config.columns):
        if name not in table.column_names:
            table = table.append_column(name, rows[name])
        elif plan.image_generator is not None:
            # As text, in which NaN equals NaN.
            generated, listed = (values[name].cast(pa.string()) for values in (table, rows))
            same_image = pc.equal(table["content_sha256"], rows["content_sha256"])
            differing = np.flatnonzero(pc.and_(same_image, pc.not_equal(generated, listed)).to_numpy())
            for first in differing[:1].tolist():
                raise BuildError(
                    f"{rows['id'][first]} has {name} {generated[first]} when it is generated here, and "
                    f"{listed[first]} as published. Use the tools that published it."
                )
    return dataclasses.replace(plan, table=table)


def with_published_splits(
    published: Published, request: BuildRequest, written: Sequence[ReadPlan], before: Manifest, advance: Advance
) -> Manifest:
    """Write the published index and exclusions, and add the config to a manifest as its publisher described it."""
    layout, entry, manifest = request.layout, published.entry, published.manifest
    ready = {plan.key: plan for plan in written}
    splits = dict(before.configs[published.config].splits) if published.config in before.configs else {}
    for key, listed in published.splits.items():
        path, rows = layout.index(key), published.rows(key)
        write_index(path, rows, entry.label_names, entry.columns, demo=request.demo)
        data = ready[key].data_entries(layout) if key in ready else listed.data
        splits[key.partition("/")[2]] = msgspec.structs.replace(listed, data=data, index=file_entry(layout, path))
        advance(rows.num_rows)
    excluded = layout.excluded(published.config)
    lines = [line for line in read_excluded(published.root / entry.excluded.path) if line.split in published.parts]
    write_excluded(excluded, lines, list(published.parts))
    entry = msgspec.structs.replace(entry, splits=splits, excluded=file_entry(layout, excluded))
    used_keys = sorted({key for listed in published.splits.values() for key in listed.sources})
    return msgspec.structs.replace(
        before,
        benchmarks={**before.benchmarks, published.benchmark.name: manifest.benchmarks[published.benchmark.name]},
        configs={**before.configs, published.config: entry},
        sources={**before.sources, **{key: manifest.sources[key] for key in used_keys}},
    )


def _refuse_other_generator(key: str, published: GeneratorEntry, declared: Generator) -> None:
    if differing := identity_differences(_compared(published), _compared(declared.entry())):
        raise BuildError(
            f"The images of {key} were generated in another way than these tools generate them: with "
            f"{', '.join(differing)}. Use the tools that published it."
        )


def _compared(entry: GeneratorEntry) -> dict[str, object]:
    """Return what must equal the declared generator's: everything, or of images that are only copied the recipe.

    Parameters and weights of a model are those of the person who ran it.
    """
    identity = entry.identity()
    exact = entry.reproducible == "exact"
    return identity if exact else {name: identity[name] for name in ("name", "version", "reproducible")}
