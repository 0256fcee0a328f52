"""A release of a few rows without images, with a table of duplicates, the older column in its place, or neither."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq

from builders.release.schema import ID_OVERLAP
from tests.evaluation.written_release import made_row, write_release

LABELS = ("cat", "dog")
ROLES = ("in_distribution", "near_ood", "far_ood")
TRAIN = "imagenet-train/train"

# By `config/split`: id, class as a label or -1, role.
ROWS = {
    "imagenet/test": [("t0", 0), ("t1", 1), ("t2", 0), ("t3", 1)],
    "imagenet/near_ood": [("n0", -1), ("n1", -1), ("n2", -1)],
    "imagenet/far_ood_noise": [("f0", -1), ("f1", -1)],
    TRAIN: [("r0", 0), ("r1", 1)],
}

# A pair inside a split, and one across splits and configs; `imagenet-train/train` sorts before `imagenet/near_ood`.
PAIRS = [("imagenet/test", "t0", "imagenet/test", "t2", 0.0), (TRAIN, "r0", "imagenet/near_ood", "n0", 0.5)]

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "other_id", "split", "other_split")),
        *((name, pa.string()) for name in ("role", "other_role", "class_id", "other_class_id")),
        ("distance", pa.float64()),
    ]
)


def role_of(split):
    name = split.rpartition("/")[2]
    return next((role for role in ROLES if name.startswith(role)), "in_distribution")


def pairs_table(pairs):
    rows = [
        (first, second, split, other, role_of(split), role_of(other), "a class", "another class", distance)
        for split, first, other, second, distance in pairs
    ]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def make_release(root, rows=ROWS, pairs=PAIRS, overlaps=None, compared=None):
    """Write the release.

    Args:
        root: the folder.
        rows: by `config/split`.
        pairs: of the table, as in `PAIRS`; None for a release without the table.
        overlaps: values of the column `id_overlap` by id, null for others; None for a release without the column.
        compared: by `config/split`, what the manifest says that the comparison of its classes cannot tell.
    """
    made = {key: [made_row(name, role_of(key), label) for name, label in lines] for key, lines in rows.items()}
    columns = () if overlaps is None else (ID_OVERLAP,)
    for row in [row for of_split in made.values() for row in of_split if columns]:
        row[ID_OVERLAP.name] = overlaps.get(row["id"])
    entries = {key: {"compared": list((compared or {}).get(key, ()))} for key in rows if compared is not None}
    write_release(root, made, LABELS, columns=columns, entries=entries)
    if pairs is not None:
        put_table(root, pairs_table(pairs))
    return root


def put_table(root, pairs, **entry):
    """Write a table of duplicates and name it in the manifest, with other values for some of its keys there."""
    path = root / "duplicates" / "pairs.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pairs, path)
    put_entry(root, **{"rows": len(pairs), **entry})


def put_entry(root, **entry):
    """Name the file of duplicates that is there in the manifest."""
    content = (root / "duplicates" / "pairs.parquet").read_bytes()
    named = {"path": "duplicates/pairs.parquet", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    manifest["duplicates"] = {**named, "compared": [], "counts": [], **entry}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
