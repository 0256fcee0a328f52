"""Turns a planned split into a read plan: where each image's bytes are, how many there are, where shards begin.

Shards are cut by real bytes, so sizes are looked up for the rows of the plan alone, never for a whole source. Images
in containers are unpacked first (`builders.writing.places`).

Tested by `tests/builders/writing/test_shards.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.declare.benchmark import Config, Part
from builders.generate.contract import Generator
from builders.plan.planner import PlannedSplit
from builders.release.digests import lines_digest
from builders.writing.places import Packed, Places
from builders.writing.shards import SHARD_BYTES

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadPlan:
    """A planned split with its places.

    `table` has the plan's columns and `root`, `file`, `offset`, `size`, `form`, and where the generator is given
    companions theirs (`builders.generate.inputs.COMPANION_COLUMNS`).

    `parts` are the plans that it is joined from, or its own alone. Shard i is the rows `starts[i]:starts[i + 1]`.
    `digest` changes with any row, its order, or a shard's start. `packs` are what must be unpacked before the images
    can be read.
    """

    parts: tuple[PlannedSplit, ...]
    table: pa.Table
    starts: tuple[int, ...]
    digest: str
    packs: tuple[Packed, ...] = ()

    @property
    def config(self) -> Config:
        """The config that the split is of."""
        return self.parts[0].config

    @property
    def key(self) -> str:
        """`config/split`."""
        return self.parts[0].split_key

    @property
    def image_generator(self) -> Generator | None:
        """What makes the images; None where the source's bytes pass, as in every split that is joined."""
        return self.parts[0].split.image_generator

    @property
    def is_sealed(self) -> bool:
        """Whether the release has sealed residuals of the images, which their batches make."""
        return self.image_generator is not None and self.image_generator.sealed is not None

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self.starts) - 1

    def unpack(self) -> None:
        """Unpack the images that lie in containers, where their packs are not there.

        Raises:
            BuildError: a container cannot be read, or a row has no image bytes.
        """
        for pack in self.packs:
            if not pack.path.exists():
                pack.unpack()

    def rows_of(self, shard: int) -> pa.Table:
        """Return the rows of one shard."""
        return self.table.slice(self.starts[shard], self.starts[shard + 1] - self.starts[shard])


def locate(planned: PlannedSplit, places: Places) -> ReadPlan:
    """Find the bytes of a planned split and cut it into shards.

    Args:
        planned: what to find.
        places: finds the images of its source, and of the source of its companions.

    Raises:
        BuildError: a file of the index is no longer there or cannot be looked at.
    """
    key = planned.split.source.key
    located, companions = places.find(key, planned.rows), planned.split.companions
    located_companions = places.find_companions(companions, planned) if companions is not None else None
    form = places.indexes[key].take(["form"], planned.rows)["form"].cast(pa.string())
    columns = {**located.columns, "form": form, **(located_companions.columns if located_companions else {})}
    table = planned.table
    for name, column in columns.items():
        table = table.append_column(name, column)
    generator = planned.split.image_generator
    # Generated images are cut by their pixels: their encoded bytes are not known yet, and may differ with the
    # encoder's version.
    sizes = located.sizes if generator is None else np.full(len(form), generator.nominal_bytes, dtype=np.int64)
    starts = shard_starts(sizes, SHARD_BYTES)
    packs = located.packs + (located_companions.packs if located_companions else ())
    return ReadPlan((planned,), table, starts, _digest(planned.config, planned.table, starts), packs)


def join_parts(parts: Sequence[ReadPlan], order: Callable[[pa.Array], Int64]) -> ReadPlan:
    """Put the located parts of one split together and cut the whole into shards.

    Args:
        parts: all parts of the split, in declared order; or a split that has none, alone, which stays as it is.
        order: gives the order of the rows, given their ids part by part.

    Raises:
        ValueError: a part makes its images; their packs have other columns than a source's files.
    """
    if not isinstance(parts[0].parts[0].split, Part):
        (plan,) = parts
        return plan
    if any(part.image_generator is not None for part in parts):
        raise ValueError(f"a part of {parts[0].key} makes its images")
    table = pa.concat_tables(part.table for part in parts)
    table = table.take(pa.array(order(table["id"].combine_chunks()))).combine_chunks()
    starts = shard_starts(table["size"].to_numpy(), SHARD_BYTES)
    packs = {pack.path: pack for part in parts for pack in part.packs}
    return ReadPlan(
        tuple(planned for part in parts for planned in part.parts),
        table,
        starts,
        _digest(parts[0].config, table, starts),
        tuple(packs.values()),
    )


def shard_starts(sizes: Int64, shard_bytes: int) -> tuple[int, ...]:
    """Cut n images into shards of equal bytes.

    Args:
        sizes: bytes of each image.
        shard_bytes: what a shard holds at most, give or take one image.

    Returns:
        First row of each shard, and n at the end. At least one shard, also of nothing.
    """
    total = int(sizes.sum())
    shards = max(1, -(-total // shard_bytes))
    ends = np.cumsum(sizes)
    # Integer arithmetic: shard i starts after the first row at which i/shards of all bytes are reached.
    inner = [int(np.searchsorted(ends, total * i // shards, side="left")) + 1 for i in range(1, shards)]
    starts = sorted({0, *(start for start in inner if start < len(sizes))})
    return (*starts, len(sizes))


def _digest(config: Config, plan: pa.Table, starts: tuple[int, ...]) -> str:
    rows = lines_digest(plan, ("id", "label", "role", "class_id"))
    if own_columns := [column.name for column in (*config.source_columns, *config.overlap_columns)]:
        # A source's list or annotations, or the table of overlaps, may change while its images stay.
        rows += f" {json.dumps(plan.select(own_columns).to_pydict())}"
    return hashlib.sha256(f"{rows} {starts}".encode()).hexdigest()
