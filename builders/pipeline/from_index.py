"""Plans exactly the rows of a published index, with images from a person's own sources.

Tested by `tests/builders/pipeline/test_from_index.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.cli.build_options import BuildRequest
from builders.declare.splits import Part, Split
from builders.errors import BuildError, os_errors_as_build_errors
from builders.pipeline.build_plan import BuildPlan
from builders.pipeline.published import Published
from builders.plan.candidates import Draws
from builders.plan.planner import PlannedSplit
from builders.release.images import LEAVE_OUT
from builders.release.schema import PLAN, ROLES
from builders.sources.base import SourceIndex
from builders.sources.opening import open_source


def plan_published(published: Published, request: BuildRequest, roots: Mapping[str, Path]) -> BuildPlan:
    """Find the rows of a published config in the given sources; writes nothing."""
    if not request.dry_run:
        published.refuse_lost()
    benchmark = published.benchmark
    released = published.manifest.benchmarks[benchmark.name]
    request = dataclasses.replace(
        request,
        splits=tuple(published.splits),
        seed=released.seed,
        limit_per_class=released.limit_per_class,
        index_only=False,
        demo=released.demo,
    )
    try:
        with os_errors_as_build_errors("read the sources"):
            indexes = {
                source.key: open_source(source, roots.get(source.key, Path()), partitions)
                for source, partitions in published.sources.items()
            }
            keys = [key for key in published.splits if key not in published.recorded]
            planned = [part for key in keys for part in _planned(published, key, indexes)]
    except BuildError as error:
        # Advice about single images goes; a published index has all its rows.
        raise BuildError(str(error).replace(LEAVE_OUT, "")) from error
    return BuildPlan(
        request=request,
        version=released.version,
        indexes=indexes,
        draws=Draws(benchmark, request.seed),
        planned=tuple(planned),
        labels={published.config: published.entry.label_names},
        adopted={key: part.adopted for key, part in published.parts.items()},
        repeated=published.repeated(),
    )


def _planned(published: Published, key: str, indexes: Mapping[str, SourceIndex]) -> list[PlannedSplit]:
    """Return the plan of a published split, or of each of its parts, as its index has the rows."""
    benchmark, rows = published.benchmark, published.rows(key)
    planned = []
    for part in published.splits[key].parts:
        config, split = benchmark.config_of(part.key), benchmark.parts[part.key]
        index = indexes[split.source.key]
        generated = config.generated_columns if split.image_generator is not None else ()
        positions, part_rows = np.empty(0, np.int64), rows
        if isinstance(split, Part):
            of_role = pc.equal(rows["role"], ROLES.index(split.role))
            positions = np.flatnonzero(pc.and_(of_role, pc.equal(rows["source"], split.source.key)).to_numpy())
            part_rows = rows.take(pa.array(positions))
        numbers = _row_numbers(key, split, part_rows, index).to_numpy()
        if isinstance(split, Part):
            # A role may have several partitions of one source, each a part of its own.
            in_part = np.isin([partition.name for partition in index.partitions], split.partitions)
            inside = in_part[index.partition_of(numbers)]
            positions, part_rows, numbers = positions[inside], part_rows.filter(pa.array(inside)), numbers[inside]
        table = part_rows.select([*PLAN, *(column.name for column in config.planned_columns)])
        table = table.append_column("expected_sha256", part_rows["content_sha256"])
        planned.append(
            PlannedSplit(
                key=part.key,
                config=config,
                split=split,
                rows=numbers.astype(np.int32),
                table=table,
                classes=len(table["class_id"].unique()),
                available=part.available,
                excluded=(),
                positions=positions,
                expected=part_rows.select([column.name for column in generated]),
                sealed=published.splits[key].sealed if key in published.opened else (),
            )
        )
    return planned


def _row_numbers(key: str, split: Split, rows: pa.Table, index: SourceIndex) -> pa.Array:
    """Return the row numbers of published rows in the index of a person's source."""
    numbers = index.find(rows["source_id"])
    missing = rows["source_id"].filter(pc.is_null(numbers))
    if len(missing):
        raise BuildError(
            f"{split.source.title} in {index.root} lacks {len(missing):,} of the {rows.num_rows:,} images of {key}, "
            f"such as {missing[0]}. Give the whole edition ({split.source.edition})."
        )
    class_ids = index.take(["class_id"], numbers.to_numpy())["class_id"].cast(pa.string())
    differing = np.flatnonzero(pc.not_equal(class_ids, rows["class_id"]).to_numpy())
    if len(differing):
        first = int(differing[0])
        raise BuildError(
            f"{split.source.title} in {index.root} has {rows['source_id'][first]} in the class {class_ids[first]}, "
            f"and the publisher had it in {rows['class_id'][first]}. Give the edition that the publisher used "
            f"({split.source.edition})."
        )
    return numbers
