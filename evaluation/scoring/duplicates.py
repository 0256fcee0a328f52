"""Duplicates: which rows of a release show the same picture as another row, and what leaving them out removes.

A release has one table of pairs, the config `duplicates` with the split `pairs`. Each line is a pair of rows whose
images are equal (distance 0) or nearly so. Releases built before it have, in some configs, the column
`near_duplicate_of` instead, which names the training image that a row nearly repeats.
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
"""The column of older releases: the id of the training image that a row nearly repeats, or an empty text."""

IN_PAIRS = "stand in a pair of the release's table of duplicates"
NEAR_TRAINING = f"nearly repeat a training image, by the column {NEAR_DUPLICATE_OF}"


@dataclass(frozen=True)
class LeftOut:
    """The rows of a split that figures without duplicates leave out.

    Attributes:
        protocol: the protocol that judges the split.
        config: its config.
        split: its name.
        rows: how many rows it has.
        duplicates: how many of them are duplicates themselves.
        made_from_duplicates: how many more are made from a duplicate, or are what a duplicate is made from.
        why: how the release says that rows are duplicates: `IN_PAIRS` or `NEAR_TRAINING`.
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
        """How many rows are left out."""
        return self.duplicates + self.made_from_duplicates


def marked(rows: pa.Table, of_split: pa.Array | None) -> tuple[str, pa.ChunkedArray | pa.Array]:
    """Which rows of a split are duplicates, and why they are called so.

    Args:
        rows: of the split, n of them.
        of_split: the ids of its rows that stand in pairs; None where the release has no table of pairs.

    Returns:
        `IN_PAIRS`, `NEAR_TRAINING` for a release that has the column `NEAR_DUPLICATE_OF` instead of the table, or an
        empty text where it has neither; and n booleans.
    """
    if of_split is not None:
        return IN_PAIRS, pc.is_in(rows["id"], value_set=of_split) if len(of_split) else pa.repeat(False, len(rows))
    if NEAR_DUPLICATE_OF in rows.column_names:
        return NEAR_TRAINING, pc.not_equal(pc.fill_null(rows[NEAR_DUPLICATE_OF], ""), "")
    return "", pa.repeat(False, len(rows))


def made_from_duplicates(rows: Rows) -> npt.NDArray[np.bool_]:
    """Rows that are no duplicates and go with one: made from it, or what it is made from.

    A shifted row and the clean one have one `source_id` and different ids; without the clean row nobody could tell
    what the shift has changed. The same image in another config (the same id) is judged by that config's own pairs.

    Args:
        rows: n rows, whose `duplicate` is not None.

    Returns:
        Shape (n,).
    """
    assert rows.duplicate is not None
    if not rows.duplicate.any():
        return np.zeros(len(rows), dtype=np.bool_)
    same_image = _among(rows.source_id, rows.source_id[rows.duplicate])
    found: npt.NDArray[np.bool_] = same_image & ~_among(rows.id, rows.id[rows.duplicate])
    return found


def count_left_out(rows: Rows, protocol: str, why: Mapping[str, str]) -> list[LeftOut]:
    """Count the rows that figures without duplicates leave out, for each split that loses any.

    Args:
        rows: that a protocol judges.
        protocol: its name.
        why: by config, why its duplicates are called so.
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
            n, marked, more = (int(np.count_nonzero(flags & mine)) for flags in (mine, rows.duplicate, made))
            # A config without the older column may hold what is made from another config's duplicates.
            found.append(LeftOut(protocol, config, split, n, marked, more, why.get(config, NEAR_TRAINING)))
    return found


def sentence(left_out: Sequence[LeftOut]) -> str:
    """Says how many rows figures without duplicates lack, and why.

    Args:
        left_out: of one protocol or of several, which may judge the same splits.
    """
    splits = {(one.config, one.split): one for one in left_out}
    if not splits:
        return "No row that is judged is a duplicate; figures without duplicates are those of all rows."
    rows = sum(one.left_out for one in splits.values())
    why = " or ".join(dict.fromkeys(one.why for one in splits.values()))
    made = " or are made from rows that do" if any(one.made_from_duplicates for one in splits.values()) else ""
    return (
        f"Figures without duplicates leave out {rows:,} row{'s' * (rows > 1)} of {len(splits)} "
        f"split{'s' * (len(splits) > 1)} because they {why}{made}."
    )


def _among(values: npt.NDArray[np.str_], wanted: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    # A hash table; numpy's isin sorts, which takes ten times longer for text.
    found = pc.is_in(pa.array(values, pa.string()), value_set=pa.array(wanted, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
