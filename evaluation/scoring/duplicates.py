"""Finds the rows of a release that duplicate other rows, and counts what leaving them out removes.

A release has one table of pairs, the config `duplicates` with the split `pairs`. Each line is a pair of rows whose
images are identical (distance 0) or nearly so. In releases built before it existed, some configs have the column
`near_duplicate_of` instead, with the id of the training image that a row nearly duplicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.scoring.rows import Rows

NEAR_DUPLICATE_OF = "near_duplicate_of"
"""Column of older releases: the id of the training image that a row nearly duplicates, or an empty string."""

IN_PAIRS = "appear in a pair of the release's table of duplicates"
NEAR_TRAINING = f"nearly duplicate a training image, according to the column {NEAR_DUPLICATE_OF}"


@dataclass(frozen=True)
class LeftOut:
    """Counts of a split's rows that figures without duplicates leave out.

    Attributes:
        protocol: the protocol that evaluates the split.
        config: the split's config.
        split: name of the split.
        rows: number of its rows.
        duplicates: number of rows that are duplicates themselves.
        made_from_duplicates: number of further rows made from a duplicate's source image, or its clean originals.
        why: why rows count as duplicates: `IN_PAIRS` or `NEAR_TRAINING`.
    """

    protocol: str
    config: str
    split: str
    rows: int
    duplicates: int
    made_from_duplicates: int
    why: str

    @property
    def left_out(self) -> int:
        """Number of rows left out."""
        return self.duplicates + self.made_from_duplicates


def find_duplicates(rows: pa.Table, of_split: pa.Array | None) -> tuple[str, pa.ChunkedArray | pa.Array]:
    """Find the duplicates among a split's rows, and say why they count as such.

    Args:
        rows: the n rows of the split.
        of_split: ids of its rows that appear in pairs; None if the release has no table of pairs.

    Returns:
        `IN_PAIRS`, `NEAR_TRAINING` for a release with the column `NEAR_DUPLICATE_OF` instead of the table, or an empty
        string if it has neither; and n booleans.
    """
    if of_split is not None:
        return IN_PAIRS, pc.is_in(rows["id"], value_set=of_split) if len(of_split) else pa.repeat(False, len(rows))
    if NEAR_DUPLICATE_OF in rows.column_names:
        return NEAR_TRAINING, pc.not_equal(pc.fill_null(rows[NEAR_DUPLICATE_OF], ""), "")
    return "", pa.repeat(False, len(rows))


def made_from_duplicates(rows: Rows) -> npt.NDArray[np.bool_]:
    """Find rows that are not duplicates themselves, but share their source image with one.

    A shifted row and its clean original have the same `source_id` and different ids; an evaluation of the shift needs
    both, so both are left out. The same image in another config (the same id) is decided by that config's own pairs.

    Args:
        rows: n rows with `duplicate` set.

    Returns:
        Booleans, shape (n,).
    """
    assert rows.duplicate is not None
    if not rows.duplicate.any():
        return np.zeros(len(rows), dtype=np.bool_)
    same_image = _among(rows.source_id, rows.source_id[rows.duplicate])
    return same_image & ~_among(rows.id, rows.id[rows.duplicate])


def count_left_out(rows: Rows, protocol: str, why: Mapping[str, str]) -> list[LeftOut]:
    """Count the rows that figures without duplicates leave out, for each affected split.

    Args:
        rows: the rows that a protocol evaluates.
        protocol: name of the protocol.
        why: by config, why rows count as duplicates.
    """
    if rows.duplicate is None or not rows.duplicate.any():
        return []
    found = []
    made = made_from_duplicates(rows)
    gone = rows.duplicate | made
    for config in np.unique(rows.config[gone]).tolist():
        of_config = rows.config == config
        for split in np.unique(rows.split[of_config & gone]).tolist():
            mine = of_config & (rows.split == split)
            total, own, more = (int(np.count_nonzero(flags & mine)) for flags in (mine, rows.duplicate, made))
            # A config without the older column may have rows made from another config's duplicates.
            found.append(LeftOut(protocol, config, split, total, own, more, why.get(config, NEAR_TRAINING)))
    return found


def describe_left_out(left_out: Sequence[LeftOut]) -> str:
    """Summarize in a sentence how many rows figures without duplicates leave out, and why.

    Args:
        left_out: counts of one or more protocols, which may share splits.
    """
    splits = {(one.config, one.split): one for one in left_out}
    if not splits:
        return "None of the evaluated rows is a duplicate, so figures without duplicates equal those on all rows."
    rows = sum(one.left_out for one in splits.values())
    why = " or ".join(dict.fromkeys(one.why for one in splits.values()))
    made = " or are made from rows that do" if any(one.made_from_duplicates for one in splits.values()) else ""
    return (
        f"Figures without duplicates leave out {rows:,} row{'s' * (rows > 1)} of {len(splits)} "
        f"split{'s' * (len(splits) > 1)} because they {why}{made}."
    )


def _among(values: npt.NDArray[np.str_], wanted: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    # Arrow uses a hash table; numpy's isin sorts, which takes ten times longer for text.
    found = pc.is_in(pa.array(values, pa.string()), value_set=pa.array(wanted, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
