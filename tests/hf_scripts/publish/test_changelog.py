"""Ids that a version adds, removes and changes, compared with sets of Python and with text written out by hand."""

import csv
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_scripts.publish.changelog import INLINE, RowChanges, entry, row_changes, with_entry, write_changes
from hf_scripts.publish.versions import Changes, Version
from tests import manifests
from tests.manifests import typed


def index(path, rows):
    """An index of (id, label, role, digest)."""
    columns = zip(*rows, strict=True) if rows else ([], [], [], [])
    kinds = [pa.string(), pa.int64(), pa.int64(), pa.string()]
    names = ["id", "label", "role", "content_sha256"]
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, names), path)
    return path


def ids(changes):
    return {kind: values.to_pylist() for kind, values in changes.ids.items()}


@pytest.mark.parametrize("seed", range(2))
def test_random_indexes_against_sets(tmp_path, seed):
    draw = random.Random(seed)

    def rows():
        chosen = draw.sample(range(3000), 2000)
        return [(str(n), draw.randrange(2), 0, draw.choice("xy")) for n in chosen]

    old, new = rows(), rows()
    changes = ids(row_changes("a/test", index(tmp_path / "old", old), index(tmp_path / "new", new)))
    before, after = ({row[0]: row[1:] for row in table} for table in (old, new))
    assert changes == {
        "added": [key for key in after if key not in before],
        "removed": [key for key in before if key not in after],
        "changed": [key for key in after if key in before and before[key] != after[key]],
    }


def changes_of(split, **by_kind):
    return RowChanges(split, {kind: pa.chunked_array([by_kind.get(kind, [])], pa.string()) for kind in KINDS})


KINDS = ("added", "removed", "changed")


def test_the_table_has_every_id(tmp_path):
    path = tmp_path / "changes/v2.0.0.csv"
    many = [f"id {n}, with a comma" for n in range(INLINE + 1)]
    write_changes(path, [changes_of("a/test", removed=["x"], changed=['"y"']), changes_of("b/test", added=many)])
    with path.open(newline="") as opened:
        rows = list(csv.reader(opened))
    assert rows[:3] == [["split", "change", "id"], ["a/test", "removed", "x"], ["a/test", "changed", '"y"']]
    assert rows[3:] == [["b/test", "added", value] for value in many]
    assert b"\r" not in path.read_bytes()


def split(rows, digest):
    return manifests.split(rows=rows, digest=digest * 64)


def manifest(**configs):
    described = {name: manifests.config(splits) for name, splits in configs.items()}
    return manifests.manifest(described)


OLD = typed(manifest(a={"gone": split(1, "1"), "test": split(2000, "2"), "moved": split(2, "3")}))
NEW = typed(
    manifest(
        a={
            "test": split(1999, "4") | {"withdrawn": [{"id": "x", "reason": "its owner asked"}]},
            "moved": split(2, "5"),
        },
        b={"many": split(101, "6")},
    )
)


def test_the_entry_of_a_version():
    changes = Changes(
        major=("a/gone is gone", "a/moved has other rows", "a/test has other rows"),
        minor=("a gets the column oodness", "b/many is new"),
        patch=("sources.s.title",),
        splits=("a/gone", "a/moved", "a/test", "b/many"),
    )
    rows = [
        changes_of("a/gone", removed=["z"]),
        changes_of("a/moved"),
        changes_of("a/test", removed=["x"], changed=["y", "w"]),
        changes_of("b/many", added=[str(n) for n in range(101)]),
    ]
    assert entry(Version(2, 0, 0), Version(1, 4, 0), OLD, NEW, changes, rows) == (
        "## v2.0.0\n"
        "\n"
        "Since v1.4.0:\n"
        "\n"
        f"- `a/gone` is gone: 1 row, digest `{'1' * 12}`.\n"
        "  - removed: `z`\n"
        f"- `a/moved` has other rows: 2 before, 2 now (other order), digest `{'3' * 12}` before, `{'5' * 12}` now.\n"
        "- `a/test` has other rows: 2,000 before, 1,999 now (0 added, 1 removed, 2 changed), digest "
        f"`{'2' * 12}` before, `{'4' * 12}` now.\n"
        "  - removed: `x`\n"
        "  - changed: `y`, `w`\n"
        f"- `b/many` is new: 101 rows, digest `{'6' * 12}`.\n"
        "- `a` gets the column oodness.\n"
        "- Metadata: `sources.s.title`.\n"
        "\n"
        "Withdrawn:\n"
        "\n"
        "- `x` from `a/test`: its owner asked\n"
    )


def test_entries_pile_up():
    first = with_entry("", "## v1.0.0\n\nFirst release.\n")
    second = with_entry(first, "## v1.1.0\n\nSince v1.0.0:\n")
    assert first.startswith("# Changelog\n")
    assert first.endswith("\n\n## v1.0.0\n\nFirst release.\n")
    assert second.endswith("\n\n## v1.1.0\n\nSince v1.0.0:\n\n## v1.0.0\n\nFirst release.\n")
    assert second.count("# Changelog\n") == 1
