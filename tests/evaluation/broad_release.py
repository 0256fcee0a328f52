"""A release with BROAD's configs: images of a few classes, attacked ones prepared for the inputs of two models."""

import hashlib
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from PIL import Image

from builders.release.digests import rows_digest
from builders.release.layout import Layout
from builders.release.manifest import FORMAT
from builders.release.schema import ROLES, arrow_schema
from builders.release.tables import write_index

LABELS = ("n01440764", "n03793489", "n07930864", "n04507155")  # a fish, and three of CoComageNet's 17
OWN, OTHER = 160, 96
"""Inputs that attacked images are prepared for: that of the model that tests run, and another one."""

# Role, rows, and the sides that the images are prepared for (0: ordinary pictures).
SPLITS = {
    "broad-reference/test": ("in_distribution", 12, 0),
    "broad-reference/held_out": ("in_distribution", 16, 0),
    "broad-adversarial/pgd_resnet50": ("adversarial", 12, OWN),
    "broad-adversarial/pgd_vit": ("adversarial", 12, OTHER),
    "broad-corruptions/snow": ("corruption", 12, OWN),
    "broad-multi-label/cocomagenet": ("multi_label", 5, 0),
    "broad-multi-label/cocomagenet_mono": ("multi_label", 5, 0),
}


def generator(side):
    """The record of a generator in a manifest."""
    entry = {"name": f"made-{side}", "version": 1, "parameters": {}, "weights": {}, "reproducible": "exact"}
    return {**entry, "prepared": side}


def pixels(name, side):
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    shape = (side, side, 3) if side else (150, 200, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def rows_of(key, role, count, side):
    rows = []
    for number in range(count):
        table = f"#{key.replace('/', '-')}" if role in ("adversarial", "corruption") else ""
        held_out = "held-" if key.endswith("held_out") else ""
        source_id = f"{role if role == 'multi_label' else 'val'}/{held_out}{number}.png"
        encoded = io.BytesIO()
        Image.fromarray(pixels(key + source_id, side)).save(encoded, format="PNG")
        label = -1 if role == "multi_label" else number % len(LABELS)
        rows.append(
            {
                "image": {"bytes": encoded.getvalue(), "path": f"{number}.png"},
                "label": label,
                "role": ROLES.index(role),
                "class_id": LABELS[label] if label >= 0 else "cup, mouse",
                "class_name": "a class",
                "source": "imagenet",
                "source_id": source_id,
                "id": f"imagenet/{key if role == 'multi_label' else ''}{source_id}{table}",
                "content_sha256": hashlib.sha256(encoded.getvalue()).hexdigest(),
                "stored": "source",
            }
        )
    return rows


def make_broad(root, splits=SPLITS, sides=None):
    """Write the release.

    Args:
        root: the folder.
        splits: as `SPLITS`.
        sides: what the manifest says that images are prepared for, by `config/split`, where it is not the truth.
    """
    layout = Layout(root)
    configs, card = {}, {}
    for key, (role, count, side) in splits.items():
        config, _, split = key.partition("/")
        table = pa.Table.from_pylist(rows_of(key, role, count, side), schema=arrow_schema(LABELS))
        path, index = layout.shard("data", f"{config}/{split}", 0, 1), layout.index(f"{config}/{split}")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        write_index(index, table, LABELS)
        entry = configs.setdefault(config, {"label_names": list(LABELS), "splits": {}})
        manifest_entry = side if sides is None else sides.get(key, side)
        rows_ = {"generator": generator(manifest_entry)} if manifest_entry else {}
        entry["splits"][split] = {"digest": rows_digest(table)} | rows_
        for name, file in ((config, path), (f"{config}-index", index)):
            card.setdefault(name, []).append({"split": split, "path": layout.relative(file)})
    manifest = {"format": FORMAT, "configs": configs}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    listed = [{"config_name": name, "data_files": files} for name, files in card.items()]
    (root / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': listed})}---\n", encoding="utf-8")
    return root
