"""Writes releases that are as small as a test needs: rows, with images or without, and a manifest."""

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq

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
    layout, configs = Layout(root), {}
    for key, of_split in rows.items():
        config, _, split = key.partition("/")
        image, index, shard = "image" in of_split[0], layout.index(key), layout.shard("data", key, 0, 1)
        table = pa.Table.from_pylist(of_split, schema=arrow_schema(labels, columns, image=image))
        write_index(index, table, labels, columns)
        if image:
            shard.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, shard)
        listed = {"digest": rows_digest(table), "index": entry_of(root, index), "rows": len(table)}
        listed["data"] = [entry_of(root, shard)] if image else []
        configs.setdefault(config, {})[split] = manifests.split(**listed, **(entries or {}).get(key, {}))
    described = {name: manifests.config(splits, label_names=list(labels)) for name, splits in configs.items()}
    manifests.write_json(root, manifests.manifest(described))
    return root
