"""The truth table of a release: each image's role and class, whether it is a duplicate, and which class it overlaps.

Texts are pandas categories in sorted order, so a million rows are a few bytes each, however long their ids are.

Tested by `tests/evaluation/test_frame.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from builders.release.schema import ROLES

IN_DISTRIBUTION = "in_distribution"
"""Role of the rows that a detector should accept."""

ID_OVERLAP, OBJECT_SEEN = "id_overlap", "known_object_seen"
"""Columns of a release: the known class that a row's class is, holds or shows, null for none, said of classes; and
whether people saw an object of some known class on an image of BROAD."""

SEEN = "an object of a known class"
"""Stands for the known class of an image on which people saw one without saying which."""


def truth_table(rows: Mapping[tuple[str, str], pa.Table], paired: Mapping[str, pa.Array] | None) -> pd.DataFrame:
    """Join the rows of splits to one table, in the order given.

    Args:
        rows: all columns of each split but the image, by config and split.
        paired: ids in pairs of duplicates, by `config/split`; None for a release that does not say.

    Returns:
        The categories `id`, `config`, `split`, `role`, `class_id` and `source_id` (as source/source_id, the same for
        a made image and its original); `label` (-1 for none); `known`, whether the role is in-distribution; `overlap`,
        if the release states overlaps: the known class, empty for none, missing in configs that do not state it; and
        `duplicate`, if the release has a table of duplicates.
    """
    parts, stated = [], False
    for (config, split), of_split in rows.items():
        overlap = find_overlaps(of_split)
        stated |= overlap is not None
        columns = {name: of_split[name] for name in ("id", "class_id", "label")} | {
            "config": pa.repeat(config, len(of_split)),
            "split": pa.repeat(split, len(of_split)),
            "role": pa.array(ROLES, pa.string()).take(of_split["role"]),
            "source_id": pc.binary_join_element_wise(of_split["source"], of_split["source_id"], "/"),
            "overlap": pa.nulls(len(of_split), pa.string()) if overlap is None else overlap,
        }
        if paired is not None:
            ids = paired.get(f"{config}/{split}", pa.array([], pa.string()))
            columns["duplicate"] = pc.is_in(of_split["id"], value_set=ids)
        parts.append(pa.table(columns))
    table = pa.concat_tables(parts)
    frame: pd.DataFrame = (table if stated else table.drop_columns("overlap")).to_pandas()
    frame["known"] = frame["role"] == IN_DISTRIBUTION
    return frame.astype(dict.fromkeys(frame.columns[frame.dtypes == "str"], "category"))


def find_overlaps(rows: pa.Table) -> pa.ChunkedArray | pa.Array | None:
    """Return for each row of a split the known class that its class overlaps, or empty; None without such a column."""
    overlaps = None
    for name in (OBJECT_SEEN, ID_OVERLAP):
        if name not in rows.column_names:
            continue
        values = rows[name]
        if pa.types.is_boolean(values.type):
            values = pc.if_else(values, SEEN, "")
        named = pc.fill_null(values.cast(pa.string()), "")
        overlaps = named if overlaps is None else pc.if_else(pc.equal(named, ""), overlaps, named)
    return overlaps
