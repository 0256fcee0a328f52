"""Reads and writes indexes: ids and digests of images, without a pixel.

An index is one Parquet file that `doctor --write-index` made of a copy, or the indexes of a release, in a folder or on
the Hub. Tested by `tests/builders/doctor/test_index.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.doctor.copies import Copy
from builders.doctor.sides import Side
from builders.errors import BuildError, first_line
from builders.hub.place import PREFIX, folder_or_repository, parse_place
from builders.release.digests import IDENTITY, lines_digest
from builders.release.entries import Manifest
from builders.release.images import BY_PIXELS
from builders.release.layout import MANIFEST
from builders.release.manifest import read_manifest
from builders.release.reader import read_index, row_groups
from builders.release.schema import ROLES
from builders.release.values import Text
from builders.sources.registry import SOURCES
from builders.storage.files import atomic_path
from builders.storage.parquet import UNREADABLE, open_parquet, read_bounded
from builders.storage.scratch import scratch_folder

_KEY = b"unknown_detection.index"
FORMAT = 1

_HEADER = ("width", "height", "channels", "bytes")

_COLUMNS = {
    "partition": pa.dictionary(pa.int32(), pa.string()),
    "class_id": pa.dictionary(pa.int32(), pa.string()),
    "source_id": pa.string(),
    "sha256": pa.binary(32),
    "width": pa.int32(),
    "height": pa.int32(),
    "channels": pa.int8(),
    "bytes": pa.int64(),
}
"""The columns of an index file. `sha256` is over the bytes, or over the pixels of a source of arrays."""


class _Described(msgspec.Struct, frozen=True):
    """What an index file says of itself, as JSON in its schema; other versions may say more or less."""

    format: int
    source: Text = ""
    edition: Text = ""
    by: str = ""


def write_index(path: Path, copy: Copy, facts: pa.Table) -> int:
    """Write the index of a copy that was read; returns the bytes of the file.

    Raises:
        BuildError: images of the copy could not be read, so that their digests are not known, or an id is there twice.
    """
    assert copy.source is not None
    lengths = pc.binary_length(facts["digest"])
    if (unread := pc.sum(pc.not_equal(lengths, 32)).as_py() or 0) or pc.any(
        pc.not_equal(facts["problem"], "")
    ).as_py():
        damaged = max(unread, pc.sum(pc.not_equal(facts["problem"], "")).as_py() or 0)
        raise BuildError(
            f"No index was written: {damaged:,} images of {copy.root} are damaged or were not read. Make it from a "
            "whole copy, without --quick."
        )
    columns = {
        "partition": copy.rows["partition"],
        "class_id": copy.rows["class_id"],
        "source_id": copy.rows["source_id"],
        "sha256": pc.cast(facts["digest"], pa.binary(32)),
        **{name: facts[name] for name in _HEADER},
    }
    table = pa.table({name: pc.cast(columns[name], kind) for name, kind in _COLUMNS.items()})
    table = table.take(
        pc.sort_indices(
            pa.table(
                {
                    "partition": pc.cast(table["partition"], pa.string()),
                    "source_id": table["source_id"],
                }
            ),
            sort_keys=[("partition", "ascending"), ("source_id", "ascending")],
        )
    )
    described = _Described(
        FORMAT, copy.source.key, copy.source.edition, by="pixels" if copy.source.arrays else "bytes"
    )
    table = table.replace_schema_metadata({_KEY: msgspec.json.encode(described)})
    with atomic_path(path) as temporary:
        pq.write_table(
            table,
            str(temporary),
            compression="zstd",
            use_dictionary=["partition", "class_id"],
            column_encoding={
                "source_id": "DELTA_BYTE_ARRAY",
                "width": "PLAIN",
                "height": "PLAIN",
                "channels": "PLAIN",
                "bytes": "PLAIN",
            },
        )
    return path.stat().st_size


def read_index_file(place: Path) -> Side:
    """Read an index that `write_index` wrote.

    Raises:
        BuildError: it is damaged, or of another format.
    """
    try:
        with open_parquet(place, "whole") as opened:
            if _KEY not in (opened.schema_arrow.metadata or {}):
                raise BuildError(
                    f"{place} is no index that doctor --write-index wrote. Give one, or the folder of a copy or of a "
                    "release."
                )
            described = msgspec.json.decode(opened.schema_arrow.metadata[_KEY], type=_Described)
            types = {field.name: field.type for field in opened.schema_arrow}
            if described.format != FORMAT or types != _COLUMNS:
                raise BuildError(f"{place} is an index of another format. Use the version that wrote it.")
            table = read_bounded(opened, place.stat().st_size, list(_COLUMNS))
        if sum(column.null_count for column in table.columns):
            raise ValueError("it has rows without values")
        if described.by not in ("bytes", "pixels"):
            raise ValueError("it does not say what its digests are over")
    except (*UNREADABLE, msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BuildError(f"Cannot read the index {place} ({first_line(error)}). Download it again.") from error
    source, by = described.source, described.by
    ids = pc.binary_join_element_wise(source, table["source_id"], "/")
    rows = pa.table(
        {
            "group": pc.cast(table["partition"], pa.string()),
            "id": ids,
            "class_id": pc.cast(table["class_id"], pa.string()),
            "digest": pc.cast(table["sha256"], pa.binary()),
            "by": pa.repeat(by, table.num_rows),
            **{name: table[name] for name in _HEADER},
        }
    )
    about = {"source": SOURCES[source].title if source in SOURCES else source}
    return Side(place.name, rows.combine_chunks(), about, of_source=source)


def release_side(root: Path, name: str = "", *, with_images: bool = True) -> Side:
    """Read the indexes of a release folder; `name` is what messages call it."""
    manifest = read_manifest(root, name)
    tables, spans, first, digests = [], [], 0, dict[str, str]()
    for key, _, split in manifest.splits():
        index = read_index(root, split, [*IDENTITY, "class_id", "source", "source_id", "stored"])
        # Of the rows that are there: what the manifest lists may be of others, and has no classes.
        digests[key] = lines_digest(index, (*IDENTITY, "class_id"))
        by_pixels = pc.is_in(index["stored"], value_set=pa.array(sorted(BY_PIXELS)))
        tables.append(
            pa.table(
                {
                    "group": pa.repeat(key, index.num_rows),
                    "id": index["id"],
                    "class_id": index["class_id"],
                    "digest": _from_hex(index["content_sha256"]),
                    "by": pc.if_else(
                        by_pixels, "pixels", pc.if_else(pc.equal(index["stored"], "source"), "bytes", "mended")
                    ),
                    "role": pa.array(ROLES).take(index["role"].combine_chunks()),
                    "source_id": pc.binary_join_element_wise(index["source"], index["source_id"], "/"),
                }
            )
        )
        spans.append((key, split, first, first + index.num_rows))
        first += index.num_rows

    def pictures(numbers: list[int]) -> dict[int, bytes]:
        """Read the images of some rows that have any."""
        found = dict[int, bytes]()
        for key, split, start, stop in spans:
            rows = sorted(number - start for number in numbers if start <= number < stop)
            if rows and split.data:
                groups = row_groups(root, key, split, np.array(rows, np.int64))
                images = (data for group in groups for data in group.each(lambda data: data))
                found |= {start + row: data for row, data in zip(rows, images, strict=True)}
        return found

    has_images = with_images and any(split.data for _, _, split in manifest.splits())
    return Side(
        name or str(root),
        pa.concat_tables(tables).combine_chunks() if tables else _no_rows(),
        _about(manifest),
        pictures=pictures if has_images else None,
        digests=digests,
        classes={name: config.label_names for name, config in manifest.configs.items()},
    )


def _no_rows() -> pa.Table:
    names = ("group", "id", "class_id", "digest", "by", "role", "source_id")
    return pa.table({name: pa.array([], pa.binary() if name == "digest" else pa.string()) for name in names})


def _from_hex(texts: pa.ChunkedArray) -> pa.Array:
    return pa.array([bytes.fromhex(text) if len(text) == 64 else b"" for text in texts.to_pylist()], pa.binary())


def _about(manifest: Manifest) -> Mapping[str, str]:
    """Return what is said of a release, in lines that are put beside another's."""
    about = {"version": manifest.version or "not published"}
    for key, source in sorted(manifest.sources.items()):
        about[f"licence of {key}"] = source.licence.name
    for key, config in sorted(manifest.configs.items()):
        about[f"classes of {key}"] = f"{len(config.label_names):,}: {', '.join(config.label_names)}"
        for split, entry in sorted(config.splits.items()):
            about[f"roles of {key}/{split}"] = ", ".join(entry.roles)
    return about


def hub_side(name: str, revision: str, log: Callable[[str], object]) -> Side:
    """Download the manifest and the indexes of a release on the Hub, no image, and read them."""
    from builders.hub.client import hub_settings
    from builders.hub.repository import Repository

    with hub_settings(), scratch_folder("doctor") as into:
        repository = Repository(name, log)
        commit = repository.commit_at(revision)
        tree = repository.tree(commit)
        if MANIFEST not in tree:
            raise BuildError(f"{name} is not a release: it has no manifest.json. Name another, or another revision.")
        repository.fetch(tree[MANIFEST], commit, into)
        manifest = read_manifest(into, name)
        for _, _, split in manifest.splits():
            if split.index.path not in tree:
                raise BuildError(f"{name} lacks {split.index.path}. Check it with python -m hf_scripts.verify {name}.")
            repository.fetch(tree[split.index.path], commit, into)
        version = manifest.version or commit[:12]
        return release_side(
            into, f"{name} v{version}" if manifest.version else f"{name} at {version}", with_images=False
        )


def reference(text: str, revision: str | None, log: Callable[[str], object]) -> Side | None:
    """Read an index: its file, a release's folder, or a repository; None for a folder without a manifest."""
    if text.startswith(PREFIX):
        place = parse_place(text)
        return hub_side(place.repo, revision or place.revision, log)
    path = Path(text)
    if path.suffix == ".parquet" and path.is_file():
        return read_index_file(path)
    if path.exists():
        return release_side(path) if (path / MANIFEST).is_file() else None
    folder = folder_or_repository(text, revision or ("main" if "/" in text and not path.parent.is_dir() else None))
    return hub_side(folder, revision or "main", log) if isinstance(folder, str) else release_side(folder)
