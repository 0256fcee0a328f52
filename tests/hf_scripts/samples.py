"""Releases of a few rows, made here and whole as `hf_scripts.verify` understands it, for tests that publish them."""

import hashlib
import io
import json
import os
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from builders.release.digests import rows_digest
from builders.release.layout import Layout
from builders.release.schema import ROLES, arrow_schema
from builders.release.tables import Exclusion, write_excluded, write_index
from builders.sources.datasets.caltech256 import CALTECH256
from tests import manifests
from tests.manifests import entry_of, manifest_of, save_manifest

REPO = "org/name"
SOURCES = {"open": "source", "gated": "gated_source", "ids-only": "closed_source"}
"""The source of a release by what its licence allows; the tests declare these sources."""
LABELS = ("n01", "n02")
TERMS = "https://example.org/terms"
EXCLUDED = 3
"""Images that each split leaves out."""


def declaration(key, title, licence):
    """A source that is declared with this licence, for whatever else asks for one."""
    return replace(CALTECH256, key=key, title=title, licence=licence)


def linked_copy(root, target):
    """A copy of a release, whose files are links: one may be replaced, never written into."""
    return shutil.copytree(root, target, copy_function=os.link, ignore=shutil.ignore_patterns(".state"))


def png(text):
    """A picture that no other text has, four pixels wide."""
    digest = hashlib.sha256(text.encode()).digest()
    encoded = io.BytesIO()
    Image.frombytes("RGB", (4, 2), digest[:24]).save(encoded, format="PNG")
    return encoded.getvalue()


def role_of(split):
    return next((role for role in ROLES if split.startswith(role)), "in_distribution")


def rows_of(split, numbers, *, labels=LABELS, repainted=(), picture=png, source="source"):
    """Rows of a split by number; `repainted` ones have another picture."""
    known = role_of(split) == "in_distribution"
    rows = []
    for number in numbers:
        name = f"{split}/{number}.png"
        data = picture(name + ("!" if number in repainted else ""))
        label = number % len(labels) if known else -1
        row = {
            "image": {"bytes": data, "path": f"{number}.png"},
            "label": label,
            "role": ROLES.index(role_of(split)),
            "class_id": labels[label] if known else "unknown",
            "class_name": "a class",
            "source": source,
            "source_id": name,
            "id": f"{source}/{name}",
            "content_sha256": hashlib.sha256(data).hexdigest(),
            "stored": "source",
        }
        rows.append(row)
    return rows


def make_release(
    root,
    splits,
    *,
    publish="open",
    demo=False,
    seed=0,
    version="1.0.0",
    labels=LABELS,
    shards=1,
    repainted=(),
    edition="edition",
    withdrawn=(),
    picture=png,
):
    """Write a release.

    `splits` maps `config/split` to the numbers of its rows, in order. `shards` is how many each split has.
    """
    layout, source, configs = Layout(root), SOURCES[publish], {}
    for key, numbers in splits.items():
        name, split = key.split("/")
        rows = rows_of(split, numbers, labels=labels, repainted=repainted, picture=picture, source=source)
        described = {"description": f"What {name} is for.", "label_names": list(labels)}
        config = configs.setdefault(name, manifests.config({}, **described))
        config["splits"][split] = write_split(layout, name, split, rows, labels, shards, demo)
        config["splits"][split]["parts"][0]["source"] = source
        excluded = Exclusion(key, source, "val", "x", "a name", "", EXCLUDED, "i", "evidence")
        write_excluded(layout.excluded(name), [excluded], [key])
        config["excluded"] = entry_of(layout.root, layout.excluded(name))
    named = {"title": "A benchmark", "paper": "A paper", "citation": "@misc{paper}"}
    licence = {"name": "Its Licence", "url": TERMS, "statement": "Do as you are told.", "publish": publish}
    manifest = manifests.manifest(
        configs,
        benchmarks={"bench": manifests.benchmark(**named, version=version, seed=seed, demo=demo)},
        sources={source: manifests.source(edition=edition, licence=licence, citation="@misc{source}")},
    )
    for row in withdrawn:
        config, _, split = row["split"].partition("/")
        configs[config]["splits"][split]["withdrawn"].append({"id": row["id"], "reason": row["reason"]})
    save_manifest(root, manifest)
    return root


def write_split(layout, config, split, rows, labels, shards, demo=False):
    schema = arrow_schema(labels, demo=demo)
    table = pa.Table.from_pylist(rows, schema=schema)
    data = []
    for shard in range(shards):
        first, end = (number * len(rows) // shards for number in (shard, shard + 1))
        part = table.slice(first, end - first)
        path = layout.shard("data", f"{config}/{split}", shard, shards)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, path, write_page_index=True, compression="none")
        data.append(entry_of(layout.root, path))
    write_index(layout.index(f"{config}/{split}"), table, labels, demo=demo)
    part = manifests.part(
        key=f"{config}/{split}",
        role=role_of(split),
        **dict.fromkeys(("rows", "expected", "paper"), len(rows)),
        available=len(rows) + EXCLUDED,
        excluded_by_rule={"i": EXCLUDED},
        labelled=role_of(split) == "in_distribution",
        classes=len({row["class_id"] for row in rows}),
    )
    index = entry_of(layout.root, layout.index(f"{config}/{split}"))
    return manifests.split(part, digest=rows_digest(table), data=data, index=index)


def with_column(table, name, values):
    """A table with other values in a column that it has."""
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type))


def with_twice(table, name):
    """A table with a column twice."""
    schema = pa.schema([*table.schema, table.schema.field(name)], table.schema.metadata)
    return pa.Table.from_arrays([*table.columns, table[name]], schema=schema)


def change_files(root, key, change, files=("data", "index")):
    """Change the table in a split's shards, its index or both, and list the files as they are then."""
    config, split = key.split("/")
    manifest = manifest_of(root)
    entry = manifest["configs"][config]["splits"][split]
    for file in [*(entry["data"] if "data" in files else ()), *([entry["index"]] if "index" in files else ())]:
        table = change(pq.read_table(root / file["path"]))
        (root / file["path"]).unlink()  # it may be a link
        pq.write_table(table, root / file["path"], write_page_index=True, compression="none")
        file |= entry_of(root, file["path"])
    save_manifest(root, manifest)


SPLITS = {"bench/test": range(4), "bench/near_ood": range(4), "bench-train/train": range(100, 106)}


def contents(hub, revision="main", repo=REPO):
    """Every file of a revision with its bytes."""
    return {path: hub.read(repo, path, revision) for path in hub.files(repo, revision)}


def write_revision(hub, root, revision="main"):
    """Write every file of a revision below a folder."""
    for path, data in contents(hub, revision).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def manifest_at(hub, revision="main"):
    return json.loads(hub.read(REPO, "manifest.json", revision))
