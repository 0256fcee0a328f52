"""The changelog of a release: an entry of CHANGELOG.md for each version, and a table of the ids that it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from builders.release.digests import IDENTITY
from builders.release.entries import Manifest
from builders.release.schema import arrow_schema
from builders.storage.files import atomic_path
from builders.storage.parquet import read_parquet
from hf_scripts.publish.versions import Changes, Version
from unknown_detection.csv_text import write_csv
from unknown_detection.words import quantity

INLINE = 100
"""Ids of a split are listed in the text, too, if at most this many were added, removed or changed."""

Kind = Literal["added", "removed", "changed"]

_HEAD = """# Changelog

What each version of this dataset adds, removes and changes, newest first. A version is raised by the rows: major where
rows, their order or their labels changed or went away, minor for new splits, configs or columns, patch for the rest.
`changes/<version>.csv` has every id that a version adds, removes or changes. Evaluate on a version by its tag:
`load_dataset(..., revision="v1.0.0")`.
"""


@dataclass(frozen=True)
class RowChanges:
    """Ids of one split that a version adds, removes or changes (image, label or role), in the order of the split."""

    split: str
    ids: Mapping[Kind, pa.ChunkedArray]

    def total(self) -> int:
        """The number of ids."""
        return sum(len(ids) for ids in self.ids.values())


def row_changes(split: str, old: Path | None, new: Path | None) -> RowChanges:
    """Compare the previous index of a split, None for a new one, with its new index, None for a removed one."""
    before, after = _identities(old), _identities(new)
    in_both = pc.is_in(after["id"], value_set=before["id"])
    common = after.filter(in_both)
    common = common.append_column("place", pa.array(range(len(common)), pa.int64()))
    joined = common.join(before, keys="id", right_suffix=" before").sort_by("place")
    differs = pa.chunked_array([pa.repeat(False, joined.num_rows)])
    for name in ("label", "role", "content_sha256"):
        differs = pc.or_(differs, pc.not_equal(joined[name], joined[f"{name} before"]))
    return RowChanges(
        split,
        {
            "added": after["id"].filter(pc.invert(in_both)),
            "removed": before["id"].filter(pc.invert(pc.is_in(before["id"], value_set=after["id"]))),
            "changed": joined["id"].filter(differs),
        },
    )


def write_changes(path: Path, changes: Sequence[RowChanges]) -> None:
    """Write all ids as CSV, with the columns `split`, `change` and `id`."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as opened:
        write_csv(opened, [["split", "change", "id"]])
        for split in changes:
            for kind, ids in split.ids.items():
                values = (value for chunk in ids.chunks for value in chunk.to_pylist())
                write_csv(opened, ([split.split, kind, value] for value in values))


def entry(
    version: Version,
    previous: Version | None,
    old: Manifest,
    new: Manifest,
    changes: Changes,
    rows: Sequence[RowChanges],
) -> str:
    """Return the changelog entry of a version; `rows` are the changed ids of every split with other rows."""
    if previous is None:
        lines = [f"## {version.tag}", "", "First release.", ""]
        lines += [
            f"- `{key}`: {quantity(split.rows, 'row')}, digest `{split.digest[:12]}`."
            for key, _, split in new.splits()
        ]
    else:
        lines = [f"## {version.tag}", "", f"Since {previous.tag}:", ""]
        lines += [line for split in rows for line in _split_lines(split, old, new)]
        described = {split.split for split in rows}
        others = (text.partition(" ") for text in (*changes.major, *changes.minor))
        lines += [f"- `{place}` {change}." for place, _, change in others if place not in described]
        lines += [f"- Metadata: `{place}`." for place in changes.patch]
    known = {(key, row.id) for key, row in old.withdrawn()}
    if withdrawn := [(key, row) for key, row in new.withdrawn() if (key, row.id) not in known]:
        lines += ["", "Withdrawn:", "", *(f"- `{row.id}` from `{key}`: {row.reason}" for key, row in withdrawn)]
    return "\n".join(lines) + "\n"


def with_entry(before: str, text: str) -> str:
    """Return a changelog with a new entry on top; `before` is the previous text, or empty."""
    _, mark, entries = before.partition("\n## ")
    return f"{_HEAD}\n{text}" + (f"\n## {entries}" if mark else "")


def _identities(path: Path | None) -> pa.Table:
    rows = arrow_schema(()).empty_table().select(IDENTITY) if path is None else read_parquet(path, IDENTITY)
    return rows.replace_schema_metadata(None)


def _split_lines(rows: RowChanges, old: Manifest, new: Manifest) -> Iterator[str]:
    before, after = old.by_key().get(rows.split), new.by_key().get(rows.split)
    if after is None:
        if before is None:
            raise ValueError(f"{rows.split} is in neither version")
        text = f"is gone: {quantity(before.rows, 'row')}, digest `{before.digest[:12]}`"
    elif before is None:
        text = f"is new: {quantity(after.rows, 'row')}, digest `{after.digest[:12]}`"
    else:
        counts = ", ".join(f"{len(ids):,} {kind}" for kind, ids in rows.ids.items()) if rows.total() else "other order"
        text = (
            f"has other rows: {before.rows:,} before, {after.rows:,} now ({counts}), digest `{before.digest[:12]}` "
            f"before, `{after.digest[:12]}` now"
        )
    yield f"- `{rows.split}` {text}."
    if rows.total() <= INLINE:
        for kind, ids in rows.ids.items():
            if len(ids):
                yield f"  - {kind}: {', '.join(f'`{value}`' for value in ids.to_pylist())}"
