"""The table of duplicates of a release: pairs of rows with the same picture, and which splits were compared.

The published benchmarks contain some pictures twice, some of them under two labels. A release keeps these rows and
lists the pairs in `duplicates/pairs.parquet`: one table for all splits, loaded as the config `duplicates` and joined
by id.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from builders.errors import BuildError, first_line, one_line
from builders.release.entries import METHODS, By, ComparedEntry, Manifest, PairCount, is_training
from builders.release.schema import KNOWN_ROLE
from builders.storage.files import atomic_path, read_regular
from builders.storage.parquet import UNREADABLE, checked, read_rows, row_group
from unknown_detection.words import first_few, quantity

CONFIG = "duplicates"
"""Name of the table's config in the card, and of its folder."""

SPLIT = "pairs"

_SHOWN = 200

T = TypeVar("T", bound=Hashable)


class PairedRow(NamedTuple):
    """A row of the release as one side of a pair; `split` is `config/split`, and `role` the role's name."""

    split: str
    id: str
    role: str
    class_id: str


class Pair(NamedTuple):
    """A row of the table: two rows of the release that show one picture, or probably do.

    `distance` is 0 for equal bytes or equal decoded pixels, and otherwise that of `builders.duplicates.distance`,
    which is more than 0.
    """

    id: str
    other_id: str
    split: str
    other_split: str
    role: str
    other_role: str
    class_id: str
    other_class_id: str
    distance: float

    @property
    def place(self) -> tuple[str, str, str, str]:
        """The key by which the table is sorted; no two pairs have the same."""
        return self.split, self.id, self.other_split, self.other_id

    @property
    def splits(self) -> tuple[str, str]:
        """The splits of the two rows, sorted."""
        return self.split, self.other_split

    @property
    def sides(self) -> tuple[PairedRow, PairedRow]:
        """The two rows."""
        return (
            PairedRow(self.split, self.id, self.role, self.class_id),
            PairedRow(self.other_split, self.other_id, self.other_role, self.other_class_id),
        )


class Comparison(NamedTuple):
    """A comparison of every image of the split `one` with every image of `other`, by one method; `one <= other`."""

    by: By
    one: str
    other: str


def pair_of(row: PairedRow, other_row: PairedRow, distance: float) -> Pair:
    """Return two rows as a pair, ordered by split and id."""
    a, b = sorted((row, other_row))
    return Pair(a.id, b.id, a.split, b.split, a.role, b.role, a.class_id, b.class_id, distance)


def comparison(by: By, split: str, other_split: str) -> Comparison:
    """Return the comparison of two splits, in either order."""
    return Comparison(by, min(split, other_split), max(split, other_split))


def schema() -> pa.Schema:
    """Return the Arrow schema of the table, with features for `datasets` in its metadata."""
    kinds = {name: pa.float64() if name == "distance" else pa.string() for name in Pair._fields}
    dtypes = {pa.float64(): "float64", pa.string(): "string"}  # as `datasets` names them
    features = {name: {"dtype": dtypes[kind], "_type": "Value"} for name, kind in kinds.items()}
    columns = pa.schema(list(kinds.items()))
    return columns.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def write_pairs(path: Path, pairs: Iterable[Pair]) -> list[Pair]:
    """Write the table, sorted, and return it; equal tables give equal bytes.

    A pair that is given several times is written once, with the least distance.
    """
    nearest = {pair.place: pair for pair in sorted(pairs, key=lambda pair: -pair.distance)}
    written = [nearest[place] for place in sorted(nearest)]
    columns = zip(*written, strict=True) if written else [()] * len(Pair._fields)
    described = schema()
    arrays = [pa.array(values, field.type) for values, field in zip(columns, described, strict=True)]
    with (
        atomic_path(path) as temporary,
        pq.ParquetWriter(temporary, described, compression="zstd", write_page_index=True) as writer,
    ):
        if written:  # `datasets` (5.2) cannot read an empty row group, but can read a file without row groups
            writer.write_table(pa.Table.from_arrays(arrays, schema=described))
    return written


_ROWS_OF_A_BYTE = 8
"""No two rows are equal, so each takes a bit at least, however well it is compressed. A table of 46,800 pairs of
images that are drawn from 60 pictures takes 7 bits a row."""


class NotPairsError(BuildError):
    """A file that is not a table of duplicates."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{path} {reason}. Download or build the release again.")


def read_pairs(path: Path, sha256: str = "") -> list[Pair]:
    """Read a table that `write_pairs` wrote, with the digest that is listed; any other is a `NotPairsError`."""
    try:
        data = read_regular(path)
        if sha256 and hashlib.sha256(data).hexdigest() != sha256:
            raise NotPairsError(path, "is not the file that manifest.json lists")
        with io.BytesIO(data) as opened:
            size = len(data)
            # In this thread alone. A thread of Arrow's that still held the last reference to Python's file when the
            # process ended would end it with std::terminate: 1 of 60 runs that ended at once, on two busy cores.
            parquet = checked(pq.ParquetFile(opened, pre_buffer=False))
            if parquet.metadata.num_rows > _ROWS_OF_A_BYTE * size:
                raise NotPairsError(path, f"claims {parquet.metadata.num_rows:,} rows in {size:,} bytes")
            if not all(row_group(parquet, group).num_rows for group in range(parquet.num_row_groups)):
                raise NotPairsError(path, "has a row group without rows, which datasets cannot read")
            table = read_rows(parquet, use_threads=False)
        rows = [column.to_pylist() for column in table.columns]
    except UNREADABLE as error:
        raise NotPairsError(path, f"cannot be read as Parquet ({first_line(error)})") from error
    if not table.schema.equals(schema()):
        columns = one_line(", ".join(table.column_names), _SHOWN)
        raise NotPairsError(path, f"has the columns {columns}, not those of a table of duplicates")
    # A file has its metadata twice. Readers of features take one of them, a table of rows has the other.
    if not all(described.equals(schema(), check_metadata=True) for described in (parquet.schema_arrow, table.schema)):
        raise NotPairsError(path, "has other metadata than a table of duplicates")
    if any(column.null_count for column in table.columns):
        raise NotPairsError(path, "has cells without a value")
    return [Pair(*values) for values in zip(*rows, strict=True)]


def groups(manifest: Manifest) -> list[tuple[str, ...]]:
    """Return the groups of splits that are compared with each other, as sorted keys (`config/split`).

    A group is all splits of a benchmark, or those of one config, and of the configs that name it as
    their `group`, if the benchmark has `roles_by_config`.
    """
    keys_by_group: dict[tuple[str, str], list[str]] = {}
    for name, config in sorted(manifest.configs.items()):
        alone = manifest.benchmarks[config.benchmark].roles_by_config
        keys = keys_by_group.setdefault((config.benchmark, (config.group or name) if alone else ""), [])
        keys += [f"{name}/{split}" for split in config.splits]
    return [tuple(sorted(keys)) for _, keys in sorted(keys_by_group.items())]


def compared_entries(comparisons: Iterable[Comparison]) -> tuple[ComparedEntry, ...]:
    """Return comparisons as a manifest lists them: each entry compares all its `splits` with all its `others`."""
    partners: dict[tuple[By, str], set[str]] = {}
    for by, split, other_split in comparisons:
        partners.setdefault((by, split), set()).add(other_split)
        partners.setdefault((by, other_split), set()).add(split)
    alike: dict[tuple[By, tuple[str, ...]], list[str]] = {}
    for (by, key), partner_keys in sorted(partners.items()):
        alike.setdefault((by, tuple(sorted(partner_keys))), []).append(key)
    entries: list[ComparedEntry] = []
    for (by, others), keys in sorted(alike.items(), key=lambda item: (METHODS.index(item[0][0]), item[1])):
        if ComparedEntry(by, others, tuple(keys)) not in entries:  # the same pairs from the other side
            entries.append(ComparedEntry(by, tuple(keys), others))
    return tuple(entries)


def listed_comparisons(compared: Iterable[ComparedEntry]) -> Iterator[Comparison]:
    """Yield the single comparisons that a manifest's entries stand for; some may repeat."""
    for entry in compared:
        for split in entry.splits:
            for other_split in entry.others:
                yield comparison(entry.by, split, other_split)


def counted(pairs: Iterable[Pair]) -> tuple[PairCount, ...]:
    """Count the pairs of each two splits, and those of two roles and of two classes; sorted."""
    counts: dict[tuple[str, str], list[int]] = {}
    for pair in pairs:
        count = counts.setdefault(pair.splits, [0, 0, 0])
        count[0] += 1
        count[1] += pair.role != pair.other_role
        count[2] += pair.class_id != pair.other_class_id
    return tuple(PairCount(*splits, *count) for splits, count in sorted(counts.items()))


def near_distance(manifest: Manifest, key: str) -> float:
    """Return the greatest distance of near pairs with which the benchmark of a split (`config/split`) was built."""
    return manifest.benchmarks[manifest.configs[key.partition("/")[0]].benchmark].near_distance


LARGEST_SHARE, LEAST_ROWS = 0.1, 5
"""Where more than this share of a split's rows, and at least so many, are in near pairs, the search does not suit the
images (ours). Of CIFAR-100's test images, where about nine in ten near pairs are right, 6 % are in one, and of digits,
icons, textures and scans 40 % and more (`tests/builders/duplicates/test_doubtful.py`). A few rows prove nothing."""


def are_too_many(near: int, rows: int) -> bool:
    """Whether so many of a split's rows are in near pairs that the pairs cannot be duplicates."""
    return near >= LEAST_ROWS and near > LARGEST_SHARE * rows


def doubtful_splits(pairs: Iterable[Pair], manifest: Manifest) -> dict[str, int]:
    """Return the splits with more near pairs than can be duplicates, and their numbers of rows in such pairs."""
    ids: dict[str, set[str]] = {}
    for pair in pairs:
        for side in pair.sides if pair.distance else ():
            ids.setdefault(side.split, set()).add(side.id)
    rows = {key: entry.rows for key, entry in manifest.by_key().items()}
    near = {key: len(of_split) for key, of_split in sorted(ids.items()) if key in rows}
    return {key: number for key, number in near.items() if are_too_many(number, rows[key])}


def unsearched(manifest: Manifest) -> str:
    """Return a line on benchmarks that were built without a search for near-duplicates; empty if there are none."""
    names = [name for name, entry in sorted(manifest.benchmarks.items()) if not entry.near_distance]
    return f"near-duplicates of {first_few(names)} were not searched for, equal pictures alone" if names else ""


def doubts(manifest: Manifest) -> str:
    """Return the text of `doubt` about a release; empty if no split is doubtful."""
    rows = {key: entry.rows for key, entry in manifest.by_key().items()}
    near = {} if manifest.duplicates is None else manifest.duplicates.doubtful
    return doubt({key: (number, rows[key]) for key, number in near.items() if key in rows})


def doubt(doubtful: Mapping[str, tuple[int, int]]) -> str:
    """Describe the splits with more near pairs than can be duplicates; empty if there are none.

    `doubtful` has the number of rows in near pairs and that of all rows, by `config/split`.
    """
    splits = [f"{near:,} of {quantity(rows, 'row')} of {key}" for key, (near, rows) in doubtful.items()]
    if not splits:
        return ""
    listed = " and ".join([*([", ".join(splits[:-1])] if splits[:-1] else []), splits[-1]])
    return (
        f"{listed} are in near pairs, which are too many to be duplicates: of images with few shapes, such as digits, "
        "icons, textures and scans, the search takes different ones for one picture. Figures without duplicates leave "
        "out only equal pictures there."
    )


def connected_groups(edges: Iterable[tuple[T, T]]) -> list[set[T]]:
    """Return the connected groups of a graph that is given by its edges, in the order of their first edges."""
    groups: dict[T, set[T]] = {}
    for one, other in edges:
        first, second = groups.setdefault(one, {one}), groups.setdefault(other, {other})
        if first is not second:
            small, large = sorted((first, second), key=len)
            large |= small
            groups |= dict.fromkeys(small, large)
    return list({id(group): group for group in groups.values()}.values())


def pictures_of_several_classes(pairs: Iterable[Pair]) -> str:
    """Describe equal pictures that have several classes in one split; empty if there are none."""
    inside = [pair.sides for pair in pairs if not pair.distance and pair.split == pair.other_split]
    pictures: dict[str, list[list[PairedRow]]] = {}
    for group in connected_groups(inside):
        rows = sorted(group)
        if len({row.class_id for row in rows}) > 1:
            pictures.setdefault(rows[0].split, []).append(rows)
    if not pictures:
        return ""
    counts = [
        f"{sum(map(len, of_split)):,} rows of {key} ({quantity(len(of_split), 'picture')})"
        for key, of_split in sorted(pictures.items())
    ]
    shown = min(min(of_split) for of_split in pictures.values())
    by_class = {row.class_id: row.id for row in reversed(shown)}
    named = first_few([f"{by_class[class_id]} of {class_id}" for class_id in sorted(by_class)])
    return f"equal pictures of several classes in {first_few(counts)}, such as {named}"


def is_known_and_unknown(pair: Pair) -> bool:
    """Whether exactly one of the two rows is in-distribution."""
    return (pair.role == KNOWN_ROLE) != (pair.other_role == KNOWN_ROLE)


def pairs_summary(pairs: Sequence[Pair], manifest: Manifest) -> str:
    """Summarise the pairs in one line: how many, between which splits most, and how their rows differ."""
    if not pairs:
        return "no two rows that were compared show one picture"
    training = {key for key, entry in manifest.by_key().items() if is_training(key, entry)}
    counts = counted(pairs)
    numbers = {
        "near": sum(pair.distance != 0 for pair in pairs),
        "under two classes": sum(count.two_classes for count in counts),
        "in two roles": sum(count.two_roles for count in counts),
        "known and unknown": sum(map(is_known_and_unknown, pairs)),
        "with an in-distribution training image": sum(
            (pair.split in training) != (pair.other_split in training) for pair in pairs
        ),
    }
    facts = ", ".join(f"{number:,} {relation}" for relation, number in numbers.items() if number)
    most = max(counts, key=lambda count: count.pairs)
    first, second = most.split, most.other_split
    where = f"between {first} and {second}" if first != second else f"within {first}"
    if len(counts) > 1:
        where = f"in {len(counts):,} pairings of splits, {most.pairs:,} of them {where}"
    return f"{quantity(len(pairs), 'pair')} of duplicates {where}{f' ({facts})' if facts else ''}"
