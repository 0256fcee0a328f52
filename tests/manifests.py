"""Manifests as JSON, for tests that read them as anybody does or change them by hand, and back as typed values."""

import json

import msgspec

from builders.card.card import write_card_and_manifest
from builders.release.entries import Manifest
from builders.release.layout import Layout, shard_path
from builders.release.manifest import file_entry

DIGEST = "0" * 64


def as_json(value):
    """A manifest, or an entry of one, as it stands in manifest.json."""
    return json.loads(json.dumps(msgspec.to_builtins(value)))


def typed(manifest):
    """The typed values of a manifest that tests wrote as JSON; types are checked, what they cannot say is not."""
    return msgspec.convert(manifest, Manifest)


def manifest_of(root):
    return json.loads((root / "manifest.json").read_text(encoding="utf-8"))


def save_manifest(root, manifest):
    """Write a manifest with its card."""
    write_card_and_manifest(Layout(root), typed(manifest))  # writes beside and renames: a linked file stays as it is


def write_json(root, manifest):
    """Write a manifest that need not be one."""
    (root / "manifest.json").unlink(missing_ok=True)
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def entry_of(root, path):
    """A file as the manifest lists it; `path` is a path, or the text that the manifest has for it."""
    return as_json(file_entry(Layout(root), root / path if isinstance(path, str) else path))


# A manifest made up of as little as there may be


def file(path, digest="0", size=1):
    return {"path": path, "bytes": size, "sha256": digest * 64}


def benchmark(**changes):
    entry = {"title": "A title", "paper": "", "citation": "", "version": "1.0.0", "seed": 0, "demo": False}
    return entry | {"limit_per_class": None} | changes


def source(publish="open", **changes):
    licence = {"name": "terms", "url": "https://example.org/terms", "publish": publish, "statement": ""}
    return {"title": "The Source", "edition": "1", "licence": licence, "citation": ""} | changes


def part(**changes):
    """A part, which without a `key` is the only one of its split."""
    counts = dict.fromkeys(("rows", "expected", "paper", "available", "classes", "paper_classes"), 0)
    origin = {"role": "near_ood", "source": "source", "partitions": ["val"], "adopted": "", "labelled": False}
    return counts | origin | {"excluded_by_rule": {}, "why": ""} | changes


def split(*parts, **changes):
    """A split of some parts, or of a part with those of the changes that are of a part."""
    own = {name: changes.pop(name) for name in ("key", *part()) if name in changes}
    files = {"digest": DIGEST, "data": [file("data/a/test.parquet")], "index": file("index/a/test.parquet")}
    return {"parts": list(parts) or [part(**own)], "withdrawn": [], "shortfalls": []} | files | changes


def rows_in(split):
    """The number of rows of a split as it stands in manifest.json."""
    return sum(part["rows"] for part in split["parts"])


def config(splits, **changes):
    entry = {"benchmark": "bench", "description": "", "label_names": ["x", "y"], "columns": [], "splits": splits}
    return entry | {"excluded": file("excluded/a.csv")} | changes


def manifest(configs, **changes):
    """A manifest of configs by name, all of the benchmark `bench` and the source `source`."""
    configs = {name: _placed(name, config) for name, config in configs.items()}
    described = {"benchmarks": {"bench": benchmark()}, "sources": {"source": source()}, "configs": configs}
    return {"format": 1, "card": file("README.md")} | described | changes


def _placed(name, config):
    """A config whose files of `split` and `config` have the paths that a build gives them."""
    splits = {}
    for key, split in config["splits"].items():
        data = [
            listed | {"path": shard_path("data", f"{name}/{key}", number, len(split["data"]))}
            for number, listed in enumerate(split["data"])
        ]
        parts = [{"key": f"{name}/{key}"} | part for part in split["parts"]]
        index = split["index"] | {"path": f"index/{name}/{key}.parquet"}
        splits[key] = split | {"parts": parts, "data": data, "index": index}
    return config | {"splits": splits, "excluded": config["excluded"] | {"path": f"excluded/{name}.csv"}}
