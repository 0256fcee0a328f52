"""What a release folder is: where things lie, which columns the rows have, and what identifies them.

This is the part of `builders` that publishing and verifying share with building.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.benchmark import ROLES
from builders.errors import BuildError
from builders.exclusions import Exclusion
from builders.shards import replacing

FORMAT = 1
"""Version of the folder's shape and of the manifest's; a reader refuses one that it does not know."""

INDEX_SUFFIX = "-index"
"""A config's rows without pixels are the config of the same name with this suffix."""


FOLDERS = ("data", "index", "excluded", "audit", "duplicates")
"""Folders of a release, beside its state."""

EXTRA_COLUMNS: Mapping[str, pa.DataType] = {"near_duplicate_of": pa.string(), "oodness": pa.float64()}
"""Columns that some configs have beside those of all.

`near_duplicate_of`: only in releases that were built before there was a table of duplicates: the id of the nearest
in-distribution training image that the row's image nearly repeats, or an empty text.
`oodness`: how far the row's class is from the in-distribution ones, by the config's own measure; 0 is one of them.
"""

# As `datasets` calls the types; Arrow has another name for the second.
_FEATURE_TYPES = {pa.string(): "string", pa.float64(): "float64"}


@dataclass(frozen=True)
class Layout:
    """Places in a release folder."""

    root: Path

    @property
    def manifest(self) -> Path:
        """The record of what the release is."""
        return self.root / "manifest.json"

    @property
    def card(self) -> Path:
        """The dataset card, whose YAML `load_dataset` reads."""
        return self.root / "README.md"

    @property
    def state(self) -> Path:
        """What a resumed build needs; never pushed."""
        return self.root / ".state"

    def data(self, config: str, split: str, shard: int, of: int) -> Path:
        """One shard with pixels."""
        return self.root / "data" / config / shard_name(split, shard, of)

    def index(self, config: str, split: str) -> Path:
        """One split without pixels."""
        return self.root / "index" / config / f"{split}.parquet"

    def excluded(self, config: str) -> Path:
        """What a config's splits leave out, with the rule and the evidence."""
        return self.root / "excluded" / f"{config}.csv"

    @property
    def duplicates(self) -> Path:
        """The table of pairs of rows that show one picture (`builders.duplicates`)."""
        return self.root / "duplicates" / "pairs.parquet"

    def pixels(self, digest: str) -> Path:
        """Pixels of a split that has none in its shards, by its digest, for comparing them in later runs."""
        return self.state / "pixels" / f"{digest}.npy"

    def audit(self, config: str) -> Path:
        """The near-duplicate pairs behind a config's column `near_duplicate_of`, in releases that have it."""
        return self.root / "audit" / config / "near_duplicates.csv"

    def part(self, config: str, split: str, shard: int, of: int) -> Path:
        """The record that a shard is finished."""
        return self.state / "parts" / config / shard_name(split, shard, of)

    def plan(self, config: str, split: str) -> Path:
        """The plan of one split with the places to read from."""
        return self.state / "plan" / config / f"{split}.arrow"

    def relative(self, path: Path) -> str:
        """A path as the manifest and the card write it."""
        return path.relative_to(self.root).as_posix()


def shard_name(split: str, shard: int, of: int) -> str:
    """File name of a shard, in the Hub's custom."""
    return f"{split}-{shard:05d}-of-{of:05d}.parquet"


def arrow_schema(label_names: Sequence[str], columns: Sequence[str] = (), *, image: bool = True) -> pa.Schema:
    """The columns of a config with the features that `datasets` reads from the schema's metadata.

    Written out here because importing `datasets` takes longer than building a small release; a test compares it with
    the schema of the real `datasets.Features`.

    Args:
        label_names: names of `label`, the same in every split of a config.
        columns: the config's own columns, of those in `EXTRA_COLUMNS`.
        image: with the pixels, as in `data/`; without, as in `index/`.
    """
    encoded = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    kinds: dict[str, tuple[pa.DataType, dict[str, Any]]] = {"image": (encoded, {"_type": "Image"})} if image else {}
    kinds["label"] = (pa.int64(), {"names": list(label_names), "_type": "ClassLabel"})
    kinds["role"] = (pa.int64(), {"names": list(ROLES), "_type": "ClassLabel"})
    for name in ("class_id", "class_name", "source", "source_id", "id", "content_sha256", "stored"):
        kinds[name] = (pa.string(), {"dtype": "string", "_type": "Value"})
    for name in columns:
        kinds[name] = (EXTRA_COLUMNS[name], {"dtype": feature_type(name), "_type": "Value"})
    described = {"info": {"features": {name: feature for name, (_, feature) in kinds.items()}}}
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    return schema.with_metadata({"huggingface": json.dumps(described)})


def feature_type(column: str) -> str:
    """The type of a text or extra column as `datasets` names it."""
    return _FEATURE_TYPES[EXTRA_COLUMNS.get(column, pa.string())]


def parts_of(key: str, entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What a split in a manifest is made of, by key.

    Args:
        key: `config/split`.
        entry: its entry.

    Returns:
        The entries of its parts by `config/split.part`; where it is not joined, its own by `config/split`. Each has
        `role`, `source`, `partitions`, `rows`, `available`, `excluded` and `adopted`.
    """
    return {f"{key}.{part['name']}": part for part in entry["parts"]} if "parts" in entry else {key: entry}


def roles_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The different roles of a split's rows, in the order of its parts."""
    return tuple(dict.fromkeys(part["role"] for part in parts_of("", entry).values()))


def sources_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of the different sources of a split's rows, in the order of its parts."""
    return tuple(dict.fromkeys(part["source"] for part in parts_of("", entry).values()))


def is_training(key: str, entry: Mapping[str, Any]) -> bool:
    """Whether a split (`config/split`) holds in-distribution images to train on and nothing else."""
    return key.endswith("/train") and roles_of(entry) == ("in_distribution",)


def rows_digest(rows: pa.Table) -> str:
    """The digest that identifies a split: SHA-256 over (id, label, role, content digest) of every row, in order.

    Args:
        rows: a table with the columns `id`, `label` and `role` (integers) and `content_sha256`.

    Returns:
        Lower-case hex. Fields are joined by tabs and rows ended by newlines, in UTF-8; ids hold neither.
    """
    return lines_digest(rows, ("id", "label", "role", "content_sha256"))


def lines_digest(rows: pa.Table, columns: Sequence[str]) -> str:
    """SHA-256 over some columns of every row in order: fields joined by tabs, rows ended by newlines, in UTF-8."""
    digest = hashlib.sha256()
    for batch in rows.select(columns).to_batches(max_chunksize=65536):
        lines = pc.binary_join_element_wise(*(batch[name].cast(pa.string()) for name in columns), "\t")
        for line in lines.to_pylist():
            digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, as lower-case hex."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def file_entry(layout: Layout, path: Path) -> dict[str, Any]:
    """A file as the manifest lists it."""
    return {"path": layout.relative(path), "bytes": path.stat().st_size, "sha256": file_sha256(path)}


def write_index(path: Path, rows: pa.Table, label_names: Sequence[str], columns: Sequence[str] = ()) -> None:
    """Write a split's rows without pixels."""
    schema = arrow_schema(label_names, columns, image=False)
    table = pa.Table.from_arrays([rows[name].combine_chunks() for name in schema.names], schema=schema)
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_index=True)


@dataclass(frozen=True)
class NearDuplicate:
    """An image and the training image that it nearly repeats, as releases without a table of duplicates have it."""

    split: str
    id: str
    near_duplicate_of: str
    distance: str


def write_excluded(path: Path, exclusions: Sequence[Exclusion], replaced: Sequence[str]) -> None:
    """Write a config's exclusions; lines of splits that are not in `replaced` stay."""
    kept = [line for line in read_excluded(path) if line.split not in replaced] if path.exists() else []
    lines = sorted([*kept, *exclusions], key=lambda e: (e.split, e.source, e.partition, e.class_id, e.image, e.rule))
    _write_lines(path, Exclusion, lines)


def read_excluded(path: Path) -> list[Exclusion]:
    """Read back what `write_excluded` wrote."""
    with path.open(encoding="utf-8", newline="") as opened:
        return [Exclusion(**{**row, "images": int(row["images"])}) for row in csv.DictReader(opened)]  # type: ignore[arg-type]


def write_audit(path: Path, pairs: Sequence[NearDuplicate], replaced: Sequence[str]) -> None:
    """Write a config's near-duplicate pairs, the nearest of each row first; lines of other splits stay."""
    kept = [line for line in read_audit(path) if line.split not in replaced] if path.exists() else []
    lines = sorted([*kept, *pairs], key=lambda p: (p.split, p.id, float(p.distance), p.near_duplicate_of))
    _write_lines(path, NearDuplicate, lines)


def read_audit(path: Path) -> list[NearDuplicate]:
    """Read back what `write_audit` wrote."""
    with path.open(encoding="utf-8", newline="") as opened:
        return [NearDuplicate(**row) for row in csv.DictReader(opened)]


def _write_lines(
    path: Path, kind: type[Exclusion | NearDuplicate], lines: Sequence[Exclusion | NearDuplicate]
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(kind)])
    writer.writerows(list(asdict(line).values()) for line in lines)
    write_text(path, text.getvalue())


def read_manifest(root: Path) -> dict[str, Any]:
    """Read a release's manifest.

    Raises:
        BuildError: there is none, or it is of a format this version does not know.
    """
    path = Layout(root).manifest
    if not path.is_file():
        raise BuildError(
            f"expected a release folder with a manifest.json, found none at {root}; build one there first."
        )
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BuildError(f"expected JSON in {path}, found other text ({error}); build the release anew.") from error
    found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
    if found != FORMAT:
        raise BuildError(f"expected manifest format {FORMAT}, found {found} in {path}; use the version that wrote it.")
    return manifest


def write_manifest(root: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest: sorted keys and no times, so that equal releases have equal manifests."""
    write_text(Layout(root).manifest, json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a whole text file or nothing, with Unix newlines."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
