"""Writes releases that are as small as a test needs: rows, with images or without, and what is read beside them."""

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from builders.release.digests import rows_digest
from builders.release.layout import Layout
from builders.release.schema import ROLES, arrow_schema
from builders.release.tables import write_index
from tests import manifests
from tests.manifests import entry_of


def made_row(id_, role, label=-1, **columns):
    """A row with the columns of every release, some of them as they are given."""
    names = dict.fromkeys(("class_id", "class_name"), "a class") | dict.fromkeys(("source", "stored"), "source")
    data = columns["image"]["bytes"] if "image" in columns else id_.encode()
    digest = hashlib.sha256(data).hexdigest()
    row = {"id": id_, "role": ROLES.index(role), "label": label, "source_id": id_, "content_sha256": digest, **names}
    return row | columns


def write_release(root, rows, labels, *, columns=(), entries=None):
    """Write the release.

    Args:
        root: the folder.
        rows: those of `made_row`, by `config/split`; splits whose rows have `image` have a shard.
        labels: names of the labels, in every config.
        columns: what rows have besides.
        entries: what the manifest says of a split besides, by `config/split`.
    """
    layout, configs, files = Layout(root), {}, {}
    for key, of_split in rows.items():
        config, _, split = key.partition("/")
        image = "image" in of_split[0]
        table = pa.Table.from_pylist(of_split, schema=arrow_schema(labels, columns, image=image))
        written = {f"{config}-index": layout.index(key)} | ({config: layout.shard("data", key, 0, 1)} if image else {})
        write_index(layout.index(key), table, labels, columns)
        if image:
            written[config].parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, written[config])
        shards, index = [entry_of(root, path) for name, path in written.items() if name == config], layout.index(key)
        listed = {"digest": rows_digest(table), "index": entry_of(root, index), "data": shards, "rows": len(table)}
        configs.setdefault(config, {})[split] = manifests.split(**listed, **(entries or {}).get(key, {}))
        for name, path in written.items():
            files.setdefault(name, {})[split] = path
    described = {name: manifests.config(splits, label_names=list(labels)) for name, splits in configs.items()}
    manifests.write_json(root, manifests.manifest(described))
    card = {"configs": [], "dataset_info": []}
    for name, splits in files.items():
        paths = [{"split": split, "path": layout.relative(path)} for split, path in splits.items()]
        card["configs"].append({"config_name": name, "data_files": paths})
        # Sizes tell releases of one folder name apart in the cache of `datasets`.
        sizes = [
            {"name": split, "num_bytes": path.stat().st_size, "num_examples": pq.read_metadata(path).num_rows}
            for split, path in splits.items()
        ]
        card["dataset_info"].append({"config_name": name, "splits": sizes})
    (root / "README.md").write_text(f"---\n{yaml.safe_dump(card)}---\n", encoding="utf-8")
    return root
