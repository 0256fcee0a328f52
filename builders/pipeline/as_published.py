"""What a published config adds to a build: files that are copied, values that rows must have, its own description.

Tested by `tests/builders/pipeline/test_from_index.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.pipeline.finish import Contents, data_entries
from builders.pipeline.published import Published
from builders.pipeline.recorded import copy_files, copy_pixels, opened_splits, recorded_splits, with_residuals
from builders.pipeline.request import Run
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.tables import read_excluded, write_excluded, write_index
from builders.writing.read_plan import ReadPlan


def copy_published(published: Published, run: Run) -> None:
    """Copy the pixels that cannot be generated again, and the sealed residuals of those that are opened.

    Raises:
        BuildError: the publisher's folder lacks a file, or has another than its manifest lists.
    """
    layout, splits = run.layout, published.splits()
    for key in recorded_splits(run.benchmark, splits, published.root):
        copy_pixels(key, splits[key], published.root, published.bring, layout)
    for key, entry in splits.items():
        copy_files(key, entry.sealed, layout.sealed, published.bring, layout)


def with_opened(published: Published, plan: ReadPlan, layout: Layout) -> ReadPlan:
    """Add the sealed residuals of images that are opened; a split without any stays as it is."""
    splits = published.splits()
    if plan.key not in opened_splits(splits, published.root):
        return plan
    return with_residuals(plan, splits[plan.key], published.rows(plan.name), layout)


def with_expected(published: Published, plan: ReadPlan) -> ReadPlan:
    """Add what the publisher has of each row: the config's own columns, and the digest to compare with.

    Raises:
        BuildError: a generator gives an image another value than was published.
    """
    rows = published.rows(plan.name)
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
        name = key.partition("/")[2]
        path = layout.index(published.config, name)
        rows = published.rows(name)
        write_index(path, rows, entry.label_names, entry.own_columns(), demo=run.identity.demo)
        data = data_entries(layout, ready[key]) if key in ready else listed.data
        splits[name] = msgspec.structs.replace(listed, data=data, index=file_entry(layout, path))
        run.meter.advance(rows.num_rows)
    excluded, parts = layout.excluded(published.config), published.adopted()
    lines = [line for line in read_excluded(published.root / entry.excluded.path) if line.split in parts]
    write_excluded(excluded, lines, list(parts))
    earlier = before.configs[published.config].splits if published.config in before.configs else {}
    config = msgspec.structs.replace(entry, splits={**earlier, **splits}, excluded=file_entry(layout, excluded))
    theirs = published.manifest
    used = sorted({key for listed in splits.values() for key in listed.sources})
    return Contents(
        benchmark=theirs.benchmarks[run.benchmark.name],
        configs={published.config: config},
        sources={key: theirs.sources[key] for key in used},
        duplicates=(published.duplicates(),),
    )


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
