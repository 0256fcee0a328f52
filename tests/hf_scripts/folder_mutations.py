"""Mutations of a whole release folder, each by a seed: what is done to the files that `load_dataset` reads.

After most of them the attacker seals the folder: the sizes and digests of files in manifest.json are made right, while
the digests of rows, which papers print, stay as they are. Or card and manifest are also rendered as a build does.
"""

import contextlib
import functools
import io
import json
import operator
import random
import shutil
import struct
import zlib

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from datasets.exceptions import DatasetsError
from PIL import Image

from builders.card.card import write_card_and_manifest
from builders.errors import BuildError
from builders.release.duplicates import read_pairs
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.release.manifest import file_entry, parse
from tests.hf_scripts.pair_tables import replace_pairs
from tests.hf_scripts.reading_mutations import change_footer, poison_cache, rename_folder
from tests.hf_scripts.tampering import replace, write_shard
from tests.manifests import as_json, manifest_of, write_json
from tests.mutations import VALUES, places

CONFIGS = """configs:
- config_name: bench
  data_files:
  - {split: test, path: "data/bench/near_ood-*"}
  - {split: near_ood, path: "data/bench/test-*"}
"""
INFOS = '{"bench": {"features": {"id": {"dtype": "string", "_type": "Value"}}, "splits": {}}}'

ADDED = [
    *(".huggingface.yaml", ".huggingface.yml", "release.py", "dataset_infos.json", "dataset_info.json", "config.json"),
    *("metadata.csv", "state.json", "dataset_dict.json", "train.csv", "notes.txt", ".hidden", "__init__.py"),
    *("data/bench/test-00002-of-00002.parquet", "data/bench/test-x-of-00002.parquet", "data/bench/.huggingface.yaml"),
    *("data/test.csv", "more/data/test.parquet", "data/bench/test/0.png", "index/bench/README.md"),
    "data/metadata.jsonl",
    *("index/bench/test-00000-of-00001.parquet", "duplicates/pairs-2.parquet", "__pycache__/x.pyc", "audit/x.csv"),
    *(".state/lock", ".cache/huggingface/x", ".git/config", ".gitattributes", "bench/README.md", "CHANGELOG.md"),
]
"""Paths of added files; the last line has some that may be there."""

PATHS = [
    *("data/bench/*", "data/**", "**", "index/bench/test.parquet", "data/bench/near_ood-*-of-00002.parquet"),
    *("data/bench/test-00001-of-00002.parquet", "../*.parquet", "hf://datasets/org/name/*", "data/bench/test-*"),
    ["data/bench/test-00001-of-00002.parquet", "data/bench/test-00000-of-00002.parquet"],
    ["data/bench/test-00000-of-00002.parquet", "data/bench/test-00001-of-00002.parquet"],
]

KEYS = {
    "filters": [["label", "==", 0]],
    "columns": ["id", "label"],
    "data_dir": "index",
    "features": [{"name": "id", "dtype": "string"}],
    "batch_size": 1,
    "on_bad_files": "skip",
    "default": True,
    "name": "x",
    "description": "x",
    "drop_labels": True,
    "version": "9.9.9",
}

NAMES = {"0": "n02", "1": "n01"}
FEATURES = [{"name": "label", "dtype": {"class_label": {"names": NAMES}}}, {"name": "id", "dtype": "string"}]


class Folder:
    """A copy of a release that is being changed; its files are links, so they are replaced and never written into."""

    def __init__(self, root, seed, cache=None):
        self.root, self.random, self.cache = root, random.Random(seed), cache

    def files(self, suffix=""):
        paths = sorted(path for path in self.root.rglob(f"*{suffix}") if path.is_file())
        return [path for path in paths if path.name != "manifest.json"]

    def pick(self, suffix=""):
        return self.random.choice(self.files(suffix))

    def put(self, path, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(data)

    def seal(self):
        """Make the sizes and digests right of all files that the manifest lists, and are there."""
        manifest = manifest_of(self.root)

        def visit(node):
            if isinstance(node, dict):
                path = node.get("path")
                if isinstance(path, str) and path and "sha256" in node and (self.root / path).is_file():
                    node.update(as_json(file_entry(Layout(self.root), self.root / path)))
                for value in node.values():
                    visit(value)
            elif isinstance(node, list):
                for value in node:
                    visit(value)

        visit(manifest)
        write_json(self.root, manifest)

    def render(self):
        """Write card and manifest as a build does, if there is a manifest that can be taken."""
        self.seal()
        try:
            manifest = parse((self.root / "manifest.json").read_bytes(), "x")
            (self.root / "manifest.json").unlink()
            write_card_and_manifest(Layout(self.root), manifest)
        except (BuildError, FileNotFoundError):
            pass


# Files


def add_file(folder):
    path = folder.root / folder.random.choice(ADDED)
    data = [CONFIGS.encode(), INFOS.encode(), b"", folder.pick().read_bytes(), folder.pick(".parquet").read_bytes()]
    if not path.exists():
        folder.put(path, folder.random.choice(data))


def remove_file(folder):
    folder.pick().unlink()


def swap_files(folder):
    path, other = folder.pick(".parquet"), folder.pick(".parquet")
    data, other_data = path.read_bytes(), other.read_bytes()
    replace(path, other_data)
    replace(other, data) if other != path else None


def rename_file(folder):
    """A file gets another name, and the manifest follows."""
    path = folder.pick(".parquet")
    names = [path.name.replace("-00000-", "-00009-"), path.stem + ".csv", "x" + path.name, path.name.upper()]
    target = path.with_name(folder.random.choice(names))
    if not target.exists():
        path.rename(target)
        new, old = (place.relative_to(folder.root).as_posix() for place in (target, path))
        text = (folder.root / "manifest.json").read_text(encoding="utf-8").replace(f'"{old}"', f'"{new}"')
        replace(folder.root / "manifest.json", text.encode())


def link_file(folder):
    """A link in place of a file, or of a folder."""
    path = folder.pick(".parquet")
    if folder.random.random() < 0.5:
        path = path.parent
        outside = folder.root.with_name("outside")
        shutil.rmtree(outside, ignore_errors=True)
        shutil.move(path, outside)
        path.symlink_to(outside)
    else:
        other = folder.pick(".parquet")
        if other != path:
            path.unlink()
            path.symlink_to(other)


def flip_bytes(folder):
    path = folder.pick()
    data = bytearray(path.read_bytes())
    if data:
        for _ in range(folder.random.randint(1, 4)):
            data[folder.random.randrange(len(data))] ^= 1 << folder.random.randrange(8)
        replace(path, bytes(data))


# The card


def change_card(folder):
    """Another front matter: values, keys and paths, or its text."""
    path = folder.root / "README.md"
    text = path.read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    if folder.random.random() < 0.25:
        front = folder.random.choice([text_twice, text_other, text_comment])(front, folder.random)
    else:
        parsed = yaml.safe_load(front)
        folder.random.choice([add_key, add_key, other_path, other_path, remove_key, other_value, label_names])(
            parsed, folder.random
        )
        front = yaml.safe_dump(parsed, sort_keys=False, allow_unicode=True)
    replace(path, f"---\n{front}---\n{body}".encode())


def text_twice(front, rng):
    key = rng.choice(["configs:\n- config_name: bench\n  data_files: data/**\n", "license: x\n", "dataset_info: []\n"])
    return front + key


def text_other(front, rng):
    return rng.choice(["", "a: [", "configs: []\n", CONFIGS, "a: &a [b]\nc: *a\n", front + "...\n---  \nb: 2\n"])


def text_comment(front, rng):
    return rng.choice([front + "# nothing\n", "\n" + front, front.replace("\n", "\r\n"), front + "extra: 1\n"])


def add_key(parsed, rng):
    key = rng.choice(sorted(KEYS))
    rng.choice([parsed, *parsed["configs"], *parsed["dataset_info"]])[key] = KEYS[key]


def other_path(parsed, rng):
    rng.choice(rng.choice(parsed["configs"])["data_files"])["path"] = rng.choice(PATHS)


def any_place(node, rng):
    """A dictionary or list inside of another, and a key of it."""
    *path, last = rng.choice([place for place in places(node) if place])
    return functools.reduce(operator.getitem, path, node), last


def remove_key(parsed, rng):
    node, key = any_place(parsed, rng)
    node.pop(key)


def other_value(parsed, rng):
    node, key = any_place(parsed, rng)
    node[key] = rng.choice([0, 1, "x", "test", "bench", None, [], {}, 10**6])


def label_names(parsed, rng):
    rng.choice(parsed["dataset_info"])["features"] = FEATURES


# The manifest


def change_manifest(folder):
    """Another value of any key, or none."""
    manifest = manifest_of(folder.root)
    node, key = any_place(manifest, folder.random)
    small = [value for name, value in VALUES.items() if name not in ("huge", "long")]
    if folder.random.random() < 0.2:
        node.pop(key)
    else:
        node[key] = folder.random.choice([*small, "near_ood", "adversarial", "bench/near_ood", 1, 2])
    write_json(folder.root, manifest)


def reorder_manifest(folder):
    """Shards in another order, splits under each other's names, labels' names in another order, fewer comparisons."""
    manifest = manifest_of(folder.root)
    config = manifest["configs"]["bench"]
    splits = config["splits"]
    split = folder.random.choice(sorted(splits))
    change = folder.random.randrange(6)
    if change == 0:
        splits[split]["data"].reverse()
    elif change == 1:
        splits["test"], splits["near_ood"] = splits["near_ood"], splits["test"]
    elif change == 2:
        config["label_names"].reverse()
    elif change == 3:
        splits["test"]["data"], splits["near_ood"]["data"] = splits["near_ood"]["data"], splits["test"]["data"]
    elif change == 4:
        splits["validation"] = splits.pop(split)
    else:
        splits[split]["data"] = splits[split]["data"][:1] * folder.random.randint(1, 2)
    write_json(folder.root, manifest)


# Parquet


def change_metadata(folder):
    """Other metadata of a table's schema: features, and keys beside them."""
    path = folder.pick(".parquet")
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata or {})
    described = json.loads(metadata.get(b"huggingface", b'{"info": {"features": {}}}'))
    features = described["info"]["features"]
    change = folder.random.randrange(7)
    if change == 0 and "label" in features:
        features["label"]["names"] = list(reversed(features["label"]["names"]))
    elif change == 1 and "image" in features:
        features["image"] |= folder.random.choice([{"mode": "L"}, {"decode": False}])
    elif change == 2:
        name = folder.random.choice(sorted(features) or ["x"])
        features[name] = {"dtype": "string", "_type": "Value"}
    elif change == 3:
        features.pop(folder.random.choice(sorted(features)), None) if features else None
    elif change == 4:
        described["info"]["splits"] = {"test": {"num_examples": 1}}
    elif change == 5:
        metadata[folder.random.choice([b"pandas", b"x", b"unknown_detection.demo"])] = b"{}"
    metadata[b"huggingface"] = json.dumps(described).encode()
    if change == 6:
        metadata.pop(b"huggingface")
    write_shard(path, table.replace_schema_metadata(metadata))


def change_rows(folder):
    """Rows in another order, fewer, or repeated, in one file; or other row groups, which change nothing."""
    path = folder.pick(".parquet")
    table = pq.read_table(path)
    order = list(range(table.num_rows))
    change = folder.random.randrange(4)
    if change == 0:
        folder.random.shuffle(order)
    elif change == 1 and order:
        order.pop(folder.random.randrange(len(order)))
    elif change == 2 and order:
        order.append(order[0])
    how = {"row_group_size": folder.random.randint(1, 3)} if change == 3 else {}
    write_shard(path, table.take(pa.array(order, pa.int64())), **how)


def change_cells(folder):
    """Another value of one cell, in a shard or also in the index."""
    path = folder.pick(".parquet")
    table = pq.read_table(path)
    rows = table.to_pylist()
    name = folder.random.choice([name for name in table.column_names if name != "image"])
    if rows:
        row, other = folder.random.choice(rows), folder.random.choice(rows)
        row[name] = other[name] if folder.random.random() < 0.5 else {str: "x", int: 1, float: 0.5}[type(row[name])]
        write_shard(path, pa.Table.from_pylist(rows, schema=table.schema))


def change_pairs(folder):
    """Pairs that are left out of the table of duplicates, or made up, with the manifest's counts put right."""
    path = folder.root / "duplicates/pairs.parquet"
    if not path.is_file():  # a change before this one took it away
        return
    pairs = read_pairs(path)
    if folder.random.random() < 0.7:
        pairs.pop(folder.random.randrange(len(pairs)))
    else:
        pairs.append(pairs[0]._replace(id="source/train/101.png", distance=folder.random.choice([0.0, 0.2])))
    replace_pairs(folder.root, pairs)


# Images


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def oriented(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return exif.tobytes().removeprefix(b"Exif\0\0")


def xmp(number):
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        f'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="{number}"/>'
        "</rdf:RDF></x:xmpmeta>"
    ).encode()


def with_block(data, rng):
    """A PNG with a block more before or behind its pixels, which says how to turn, tint or animate it."""
    number = rng.randint(1, 8)
    exif = oriented(number)
    blocks = [
        (b"eXIf", exif),
        (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(number)),
        (b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(b"\nexif\n%8d\n" % 8 + exif.hex().encode())),
        (b"tRNS", bytes(6)),
        (b"gAMA", struct.pack(">I", 10_000)),
        (b"pHYs", struct.pack(">IIB", 1, 9, 0)),
        (b"acTL", struct.pack(">II", 2, 0)),
        (b"tEXt", b"Comment\0x"),
    ]
    kind, block = rng.choice(blocks)
    at = rng.choice([33, len(data) - 12])  # behind IHDR, or before IEND
    return data[:at] + chunk(kind, block) + data[at:]


def in_other_format(data, rng):
    """The same pixels in another format, with an orientation."""
    image, out = Image.open(io.BytesIO(data)), io.BytesIO()
    kind = rng.choice(["WebP", "TIFF", "PNG"])
    options = {"lossless": True} if kind == "WebP" else {}
    extra = {"exif": b"Exif\0\0" + oriented(rng.randint(1, 8))} if rng.random() < 0.7 else {}
    image.save(out, format=kind, **options, **extra)
    return out.getvalue()


def change_image(folder):
    """A block is added to an image, or it is written anew in another format."""
    path = folder.random.choice([path for path in folder.files(".parquet") if "data" in path.parts])
    table = pq.read_table(path)
    rows = table.to_pylist()
    row = folder.random.choice(rows)
    change = folder.random.choice([with_block, with_block, in_other_format])
    row["image"]["bytes"] = change(row["image"]["bytes"], folder.random)
    write_shard(path, pa.Table.from_pylist(rows, schema=table.schema))


MUTATIONS = {
    "file added": add_file,
    "file removed": remove_file,
    "files swapped": swap_files,
    "file renamed": rename_file,
    "link": link_file,
    "bytes flipped": flip_bytes,
    "card's YAML": change_card,
    "manifest's key": change_manifest,
    "manifest's order": reorder_manifest,
    "Parquet's metadata": change_metadata,
    "Parquet's rows": change_rows,
    "Parquet's cells": change_cells,
    "pairs": change_pairs,
    "image": change_image,
    "footer": change_footer,
    "cache": poison_cache,
    "folder's name": rename_folder,
}


_NOTHING_LEFT = (BuildError, DatasetsError, LookupError, OSError, ValueError, msgspec.MsgspecError, pa.ArrowException)
"""What a second change meets in a folder that the first one has damaged."""


def mutate(root, seed, cache):
    """Change a copy of a release; returns its place then, what was done, and whether it was sealed or rendered anew.

    `cache` is the one of `datasets`.
    """
    folder = Folder(root, seed, cache)
    kinds = list(MUTATIONS)
    done = [kinds[seed % len(kinds)]]
    MUTATIONS[done[0]](folder)
    if folder.random.random() < 0.1:
        done.append(folder.random.choice(kinds))
        # What the first one left may have nothing that the second can change; the folder is judged all the same.
        with contextlib.suppress(*_NOTHING_LEFT):
            MUTATIONS[done[1]](folder)
    # A rendered card is as the manifest says, whatever was done to it.
    after = folder.random.choice(["unsealed", "sealed"] + (["rendered"] * 4 if done != ["card's YAML"] else []))
    if (folder.root / "manifest.json").is_file() and msgspec_reads(folder.root):
        if after == "sealed":
            folder.seal()
        elif after == "rendered":
            folder.render()
    return folder.root, done[0], after


def msgspec_reads(root):
    """Whether the manifest still has the shape of one, so that its digests can be put right."""
    try:
        msgspec.convert(manifest_of(root), Manifest)
    except (msgspec.ValidationError, ValueError):
        return False
    return True
