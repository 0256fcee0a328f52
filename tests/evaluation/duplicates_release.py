"""A release of a few rows without images, with a table of duplicates, the older column in its place, or neither."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from builders.release.digests import rows_digest
from builders.release.manifest import FORMAT

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
    return pa.Table.from_pylist(
        [
            {
                "id": first,
                "other_id": second,
                "split": split,
                "other_split": other,
                "role": role_of(split),
                "other_role": role_of(other),
                "class_id": "a class",
                "other_class_id": "another class",
                "distance": distance,
            }
            for split, first, other, second, distance in pairs
        ],
        SCHEMA,
    )


def make_release(root, rows=ROWS, pairs=PAIRS, overlaps=None, compared=None):
    """Write the release.

    Args:
        root: the folder.
        rows: by `config/split`.
        pairs: of the table, as in `PAIRS`; None for a release without the table.
        overlaps: values of the column `id_overlap` by id, null for others; None for a release without the column.
        compared: by `config/split`, what the manifest says that the comparison of its classes cannot tell.
    """
    manifest = {"format": FORMAT, "configs": {}}
    card, sizes = {}, {}
    for key, lines in rows.items():
        config, split = key.split("/")
        path = f"index/{config}/{split}.parquet"
        table = split_table(key, lines, overlaps)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, root / path)
        entry = manifest["configs"].setdefault(config, {"label_names": list(LABELS), "splits": {}})
        entry["splits"][split] = {"digest": rows_digest(table)}
        if compared is not None:
            entry["splits"][split]["compared"] = list(compared.get(key, ()))
        card.setdefault(f"{config}-index", []).append({"split": split, "path": path})
        sizes.setdefault(f"{config}-index", []).append(size(split, root / path))
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    if pairs is not None:
        put_table(root, pairs_table(pairs))
        card["duplicates"] = [{"split": "pairs", "path": "duplicates/pairs.parquet"}]
        sizes["duplicates"] = [size("pairs", root / "duplicates" / "pairs.parquet")]
    front = {
        "configs": [{"config_name": name, "data_files": files} for name, files in card.items()],
        "dataset_info": [{"config_name": name, "splits": splits} for name, splits in sizes.items()],
    }
    (root / "README.md").write_text(f"---\n{yaml.safe_dump(front)}---\n", encoding="utf-8")
    return root


def size(split, path):
    """Tells releases of one folder name apart in the cache of `datasets`."""
    return {"name": split, "num_bytes": path.stat().st_size, "num_examples": pq.read_metadata(path).num_rows}


def split_table(key, lines, overlaps=None):
    rows = [
        {
            "label": label,
            "role": ROLES.index(role_of(key)),
            "class_id": "a class",
            "source": "source",
            "source_id": name,
            "id": name,
            "content_sha256": hashlib.sha256(name.encode()).hexdigest(),
        }
        | ({} if overlaps is None else {"id_overlap": overlaps.get(name)})
        for name, label in lines
    ]
    kinds = {"role": {"names": list(ROLES), "_type": "ClassLabel"}, "label": {"dtype": "int64", "_type": "Value"}}
    kinds = {name: kinds.get(name, {"dtype": "string", "_type": "Value"}) for name in rows[0]}
    metadata = {"huggingface": json.dumps({"info": {"features": kinds}})}
    table = pa.Table.from_pylist(rows).replace_schema_metadata(metadata)
    if overlaps is not None:  # a column of nulls alone has no type of its own
        place = table.schema.get_field_index("id_overlap")
        table = table.set_column(place, "id_overlap", table["id_overlap"].cast(pa.string()))
    return table


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
    manifest["duplicates"] = {**named, "compared": [], **entry}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
