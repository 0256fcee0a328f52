"""Splits whose images cannot be generated again: published pixels are copied, and sealed residuals opened.

Tested by `tests/builders/generate/test_sealed_release.py`. `test_toy_release.py` beside it has the copying.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from builders.declare.benchmark import Benchmark, Config, Split
from builders.errors import BuildError
from builders.generate.contract import COMPANION_COLUMNS, COMPANION_VALUE, Generator, identity_differences
from builders.generate.exact.residuals import CONTENT, residual_opener
from builders.pipeline.build_plan import generators_of
from builders.release.digests import file_sha256
from builders.release.layout import Layout
from builders.release.split_entries import FileEntry, GeneratorEntry, SplitEntry
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.files import atomic_path
from builders.storage.sealed_files import published_residuals
from builders.writing.read_plan import STAGING, Pack, ReadPlan

Bring = Callable[[FileEntry, Path], object]
"""Brings a file that a published manifest lists to a path."""


def opened_splits(entries: Mapping[str, SplitEntry], root: Path) -> list[str]:
    """Return the published splits (`config/split`) whose sealed residuals are opened: those without pixels.

    Args:
        entries: the splits' entries in the published manifest, by `config/split`.
        root: the published release's folder, which may have its index alone.
    """
    return [key for key, entry in entries.items() if entry.sealed and not _has_pixels(entry, root)]


def _has_pixels(entry: SplitEntry, root: Path) -> bool:
    return bool(entry.data) and all((root / file.path).is_file() for file in entry.data)


def recorded_splits(benchmark: Benchmark, entries: Mapping[str, SplitEntry], root: Path) -> list[str]:
    """Return the published splits (`config/split`) whose pixels are copied, since nobody can generate them again.

    Args:
        benchmark: the declaration, as `with_sealed` returns it.
        entries: the splits' entries in the published manifest, by `config/split`.
        root: the published release's folder, which may have its index alone.

    Raises:
        BuildError: a split was generated in another way than these tools generate it.
    """
    generators = generators_of(benchmark, list(entries))
    for key, generator in generators.items():
        published = entries[key].generator
        if published is None:
            raise BuildError(
                f"The manifest does not say how the images of {key} were generated. Fetch the release again."
            )
        _refuse_other_generator(key, published, generator)
    sealed = opened_splits(entries, root)
    return [key for key, generator in generators.items() if generator.reproducible == "recorded" and key not in sealed]


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
    if entry.reproducible == "exact":
        return entry.identity()
    return {name: entry.identity()[name] for name in ("name", "version", "reproducible")}


def with_sealed(benchmark: Benchmark, config: str, entries: Mapping[str, SplitEntry]) -> Benchmark:
    """Return the benchmark with generators that open sealed residuals, in place of those that made the images.

    A published split of somebody's own model is declared like one of the config's sealed splits, of which it is one
    more (`builders.declare.benchmark.Settings`).

    Args:
        benchmark: the declaration.
        config: the config's name.
        entries: the splits' entries in the published manifest, by `config/split`.

    Raises:
        BuildError: a sealed split was generated in another way than these tools generate it.
    """
    configs = []
    for declared in benchmark.configs:
        if declared.name == config:
            splits = {split.name: split for split in declared.splits} | _opening(declared, entries)
            declared = dataclasses.replace(declared, splits=tuple(splits.values()))
        configs.append(declared)
    return dataclasses.replace(benchmark, configs=tuple(configs))


def _opening(config: Config, entries: Mapping[str, SplitEntry]) -> dict[str, Split]:
    """Return the sealed splits of a config by name; others refuse what is not declared like this."""
    splits = {}
    for key, entry in entries.items():
        declared = config.by_key().get(key)
        template = declared or next((split for split in config.by_key().values() if _is_like(split, entry)), None)
        generator = None if template is None else template.generator
        if template is None or generator is None or generator.sealed is None:
            continue
        if not entry.sealed or entry.generator is None:
            continue
        # The generator of somebody's own model has a name of its own.
        named = entry.generator if declared else msgspec.structs.replace(entry.generator, name=generator.name)
        _refuse_other_generator(key, named, generator)
        name = key.partition("/")[2]
        splits[name] = dataclasses.replace(template, name=name, generator=residual_opener(generator, entry.generator))
    return splits


def _is_like(split: Split, entry: SplitEntry) -> bool:
    """Whether a published split is one more of a config's sealed splits, of the same originals."""
    if split.generator is None or split.generator.sealed is None:
        return False
    return (split.role, split.source.key, split.partitions) == (entry.role, entry.source, entry.partitions)


def with_residuals(plan: ReadPlan, entry: SplitEntry, rows: pa.Table, layout: Layout) -> ReadPlan:
    """Add the sealed residuals of a split to its plan, with the published values that go with each.

    Args:
        plan: of a split whose generator opens them.
        entry: its entry in the published manifest.
        rows: its published rows, in the order of the plan.
        layout: the release folder that is written, into which `bring_files` has brought the residuals.

    Raises:
        BuildError: a file has no residuals of these rows.
    """
    generator = plan.image_generator
    if generator is None:
        raise AssertionError(f"{plan.key} has no generator")
    files = [layout.inside(file.path) for file in entry.sealed]
    key = hashlib.sha256("\n".join(file.sha256 for file in entry.sealed).encode()).hexdigest()[:16]
    pack = Pack(
        layout.state / STAGING / f"sealed-{key}{PACK_SUFFIX}",
        lambda: published_residuals(files, rows["id"], generator.prepared),
    )
    sizes = pack.lengths()
    count = rows.num_rows
    pack_columns = [
        pa.repeat(STAGING, count),
        pa.repeat(pack.path.name, count),
        pa.array(np.cumsum(sizes) - sizes),
        pa.array(sizes),
    ]
    columns = dict(zip(COMPANION_COLUMNS, pack_columns, strict=True))
    for name in (CONTENT, *(column.name for column in generator.columns)):
        columns[f"{COMPANION_VALUE}{name}"] = rows[name]
    table = plan.table
    for name, column in columns.items():
        table = table.append_column(name, column)
    return dataclasses.replace(plan, table=table, packs=(*plan.packs, pack))


def copy_pixels(key: str, entry: SplitEntry, root: Path, bring: Bring, layout: Layout) -> None:
    """Copy the shards of a split from one release folder into another.

    Args:
        key: `config/split`.
        entry: its entry in the published manifest.
        root: the published release's folder, which may have its index alone.
        bring: copies a file of it.
        layout: the release folder that is written.

    Raises:
        BuildError: the published folder does not have them all, or has others than its manifest lists.
    """
    if not _has_pixels(entry, root):
        raise BuildError(
            f"The images of {key} cannot be generated again: they depend on the device and the library versions that "
            f"generated them. Load the published ones, or give a release folder that has them; {root} does not."
        )
    bring_files(key, entry.data, "data", bring, layout)


def bring_files(key: str, files: Sequence[FileEntry], folder: str, bring: Bring, layout: Layout) -> None:
    """Bring the files of a split into another release folder, but for those that it has.

    Args:
        key: `config/split`.
        files: one for each shard, in order.
        folder: `data` or `sealed`.
        bring: brings a file.
        layout: the release folder that is written.

    Raises:
        BuildError: a file is not as the published manifest lists it.
    """
    for shard, file in enumerate(files):
        target = layout.shard(folder, key, shard, len(files))
        if target.is_file() and file_sha256(target) == file.sha256:
            continue
        with atomic_path(target) as temporary:
            bring(file, temporary)
            if layout.relative(target) != file.path or file_sha256(temporary) != file.sha256:
                raise BuildError(
                    f"{file.path} in the published release is not of shard {shard} of {key}, or not as its manifest "
                    f"lists it (SHA-256 {file.sha256}). Fetch the release again."
                )
