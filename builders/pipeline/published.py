"""A published config as the input of a build: its rows, files and description, and its declaration.

Tested by `tests/builders/pipeline/test_from_index.py`, and `tests/builders/generate/test_sealed_release.py` and
`test_toy_release.py` beside it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from builders.declare.benchmark import Benchmark
from builders.declare.splits import Config, Split
from builders.errors import BuildError, first_line, one_line
from builders.generate.contract import Generator, identity_differences
from builders.generate.sealed import residual_opener
from builders.pipeline.repeated import Repeated, RepeatedFile
from builders.release.digests import file_sha256, rows_digest
from builders.release.entries import ConfigEntry, FileEntry, GeneratorEntry, Manifest, PartEntry, SplitEntry
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from builders.release.schema import ROLES, arrow_schema, without_values
from builders.release.tables import images_by_rule, read_excluded
from builders.sources.base import Source
from builders.storage.files import copy_here
from builders.storage.parquet import UNREADABLE, read_parquet, spilled


@dataclass(frozen=True)
class Published:
    """A config of a published release: the folder with its files, and the manifest that lists them.

    `name` is what messages call a release that was fetched into a folder of no interest, and `fetch` downloads a
    file of it to a path. `only` has the names of the splits that are wanted; all if it is empty.
    """

    root: Path
    config: str
    name: str = ""
    fetch: Callable[[FileEntry, Path], object] | None = None
    only: frozenset[str] = frozenset()

    @functools.cached_property
    def manifest(self) -> Manifest:
        """The manifest of the whole release."""
        return read_manifest(self.root, self.name)

    @functools.cached_property
    def entry(self) -> ConfigEntry:
        """The manifest's entry of the config."""
        configs = self.manifest.configs
        if self.config not in configs:
            named = one_line(self.config) or "without a name"
            raise BuildError(f"The release has no config {named}. Name one of {', '.join(sorted(configs))}.")
        return configs[self.config]

    @functools.cached_property
    def splits(self) -> dict[str, SplitEntry]:
        """The manifest's entries of the wanted splits, by `config/split`."""
        entries = sorted(self.entry.splits.items())
        return {f"{self.config}/{name}": split for name, split in entries if not self.only or name in self.only}

    @functools.cached_property
    def parts(self) -> dict[str, PartEntry]:
        """The manifest's entries of the parts of the wanted splits, by key."""
        return {part.key: part for split in self.splits.values() for part in split.parts}

    @functools.cached_property
    def benchmark(self) -> Benchmark:
        """The declaration that the config was built from, with generators that open its sealed residuals."""
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
        splits = {key: (split.source.key, tuple(split.partitions)) for key, split in benchmark.parts.items()}
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
        own = config.parts
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
        """Whether the folder has the images of a split; it may have the index alone."""
        data = self.splits[key].data
        return bool(data) and all((self.root / file.path).is_file() for file in data)

    @functools.cached_property
    def opened(self) -> frozenset[str]:
        """The splits whose images are restored from sealed residuals, because their pixels are not there."""
        return frozenset(key for key, entry in self.splits.items() if entry.sealed and not self.has_pixels(key))

    @functools.cached_property
    def recorded(self) -> frozenset[str]:
        """The splits whose pixels are copied, because nobody can generate them again."""
        generators = self.benchmark.generators(self.splits)
        return frozenset(key for key, made in generators.items() if made.reproducible == "recorded") - self.opened

    @property
    def sources(self) -> dict[Source, tuple[str, ...]]:
        """The sources that the wanted splits need, each with its partitions."""
        needed: dict[str, dict[str, None]] = {}
        for key in sorted(self.splits.keys() - self.recorded):
            for part in self.splits[key].parts:
                needed.setdefault(part.source, {}).update(dict.fromkeys(part.partitions))
            companions = self.benchmark.parts[key].companions if key in self.benchmark.parts else None
            if companions is not None:
                needed.setdefault(companions.source.key, {}).update(dict.fromkeys(companions.partitions))
        return {source: tuple(needed[source.key]) for source in self.benchmark.sources() if source.key in needed}

    def refuse_lost(self) -> None:
        """Refuse a release without images that nobody can generate again."""
        for key in self.splits:
            if key in self.recorded and not self.has_pixels(key):
                raise BuildError(
                    f"The images of {key} cannot be generated again: they depend on the device and the library "
                    f"versions that generated them. Load the published ones, or give a release folder that has them; "
                    f"{self.root} does not."
                )

    def repeated(self) -> Repeated:
        """Return what a build copies from the release: files, rows, exclusions, descriptions of the wanted splits."""
        files: dict[str, list[RepeatedFile]] = {}
        for key, entry in self.splits.items():
            for folder, shards in (("data", entry.data if key in self.recorded else ()), ("sealed", entry.sealed)):
                for place in enumerate(shards):
                    files.setdefault(key, []).append(RepeatedFile(folder, *place, len(shards), self.copy_file))
        lines = read_excluded(self._listed(self.entry.excluded), self.entry.excluded.sha256)
        left_out = images_by_rule(lines)
        for key, part in self.parts.items():
            by_rule = left_out[key]
            if part.excluded_by_rule != by_rule or part.rows + by_rule.total() != part.available:
                raise BuildError(
                    f"The manifest of {self.name or self.root} counts other images that are left out of {key} than "
                    f"{self.entry.excluded.path} lists. Fetch the release again."
                )
        if self.manifest.duplicates is not None:
            self._listed(self.manifest.duplicates)
        return Repeated(
            manifest=self.manifest,
            rows={key: self.rows(key) for key in self.splits},
            excluded=tuple(line for line in lines if line.split in self.parts),
            files=files,
            duplicates=(Layout(self.root).duplicates,),
        )

    def _listed(self, file: FileEntry) -> Path:
        """Return the path of a table of the release, after comparing it with the manifest."""
        path = self.root / file.path
        if not path.is_file() or file_sha256(path) != file.sha256:
            raise BuildError(
                f"The published file {file.path} is not in {self.root}, or not as its manifest lists it (SHA-256 "
                f"{file.sha256}). Fetch the release again."
            )
        return path

    def copy_file(self, file: FileEntry, target: Path) -> None:
        """Copy a file of the release to a path, downloading it if necessary."""
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
        """Return the published rows of a split (`config/split`); the file is read and checked only once."""
        if key not in self._rows:
            self._rows[key] = spilled([self._read_rows(key)])
        return self._rows[key]

    def _read_rows(self, key: str) -> pa.Table:
        split = self.entry.splits[key.partition("/")[2]]
        path = self.root / split.index.path
        if not path.is_file():
            raise BuildError(f"The published index {split.index.path} is not in {self.root}. Fetch it again.")
        try:
            rows = read_parquet(path, sha256=split.index.sha256)
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
        elif counts := _other_counts(split, rows):
            problem = f"other numbers of rows than its manifest says ({counts})"
        if problem:
            raise BuildError(f"The published index {split.index.path} has {problem}. Fetch the release again.")
        return rows.replace_schema_metadata(None)


def _other_counts(split: SplitEntry, rows: pa.Table) -> str:
    """Return which rows of a role and source the manifest has other numbers of than the index; empty if none."""
    listed, counted = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for part in split.parts:
        listed[ROLES.index(part.role), part.source] += part.rows
    for group in rows.group_by(["role", "source"]).aggregate([([], "count_all")]).to_pylist():
        counted[group["role"], group["source"]] = group["count_all"]
    for role, source in sorted({*listed, *counted}):
        if listed[role, source] != counted[role, source]:
            numbers = f"{listed[role, source]:,}, and {counted[role, source]:,} in the index"
            return f"{ROLES[role]} from {one_line(source)}: {numbers}"
    return ""


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
