"""What a run takes from a published release: files, residuals, the value of each row, and its description.

Tested by `tests/builders/pipeline/test_from_index.py`, and `tests/builders/generate/test_sealed_release.py` and
`test_toy_release.py` beside it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.duplicates.table import origin
from builders.errors import BuildError
from builders.generate.contract import COMPANION_COLUMNS, COMPANION_VALUE
from builders.generate.sealed import CONTENT
from builders.pipeline.build_plan import Run
from builders.pipeline.finish import Contents, data_entries
from builders.pipeline.published import Published
from builders.release.digests import file_sha256
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.tables import read_excluded, write_excluded, write_index
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.files import atomic_path
from builders.storage.sealed_files import published_residuals
from builders.writing.read_plan import STAGING, Pack, ReadPlan


def copy_published(published: Published, layout: Layout) -> None:
    """Copy the pixels that cannot be generated again, and all sealed residuals, but for files that are there.

    Raises:
        BuildError: the publisher's folder lacks a file, or has another than its manifest lists.
    """
    for key, entry in published.splits.items():
        if key in published.recorded and not published.has_pixels(key):
            raise BuildError(
                f"The images of {key} cannot be generated again: they depend on the device and the library versions "
                f"that generated them. Load the published ones, or give a release folder that has them; "
                f"{published.root} does not."
            )
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

    Raises:
        BuildError: a file has no residuals of these rows.
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


def published_contents(published: Published, run: Run, written: Sequence[ReadPlan], before: Manifest) -> Contents:
    """Write the published index and exclusions, and describe the config as its publisher did."""
    layout, entry, manifest = run.layout, published.entry, published.manifest
    ready = {plan.key: plan for plan in written}
    splits = dict(before.configs[published.config].splits) if published.config in before.configs else {}
    for key, listed in published.splits.items():
        path, rows = layout.index(key), published.rows(key)
        write_index(path, rows, entry.label_names, entry.columns, demo=run.demo)
        data = data_entries(layout, ready[key]) if key in ready else listed.data
        splits[key.partition("/")[2]] = msgspec.structs.replace(listed, data=data, index=file_entry(layout, path))
        run.meter.advance(rows.num_rows)
    excluded = layout.excluded(published.config)
    lines = [line for line in read_excluded(published.root / entry.excluded.path) if line.split in published.pieces]
    write_excluded(excluded, lines, list(published.pieces))
    used_keys = sorted({key for listed in published.splits.values() for key in listed.sources})
    return Contents(
        benchmark=manifest.benchmarks[run.benchmark.name],
        configs={
            published.config: msgspec.structs.replace(entry, splits=splits, excluded=file_entry(layout, excluded))
        },
        sources={key: manifest.sources[key] for key in used_keys},
        duplicates=(origin(manifest, Layout(published.root).duplicates),),
    )
