"""A release with BROAD's configs: images of a few classes, attacked ones prepared for the inputs of two models."""

import hashlib
import io

import numpy as np
from PIL import Image

from tests.evaluation.written_release import made_row, write_release

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
        names = {"source": "imagenet", "source_id": source_id}
        names |= {"class_id": LABELS[label] if label >= 0 else "cup, mouse"}
        names |= {"content_sha256": hashlib.sha256(encoded.getvalue()).hexdigest()}
        id_ = f"imagenet/{key if role == 'multi_label' else ''}{source_id}{table}"
        image = {"bytes": encoded.getvalue(), "path": f"{number}.png"}
        rows.append(made_row(id_, role, label, image=image, **names))
    return rows


def make_broad(root, splits=SPLITS, sides=None):
    """Write the release.

    Args:
        root: the folder.
        splits: as `SPLITS`.
        sides: what the manifest says that images are prepared for, by `config/split`, where it is not the truth.
    """
    listed = {key: (sides or {}).get(key, side) for key, (_, _, side) in splits.items()}
    entries = {key: {"generator": generator(side)} for key, side in listed.items() if side}
    return write_release(root, {key: rows_of(key, *split) for key, split in splits.items()}, LABELS, entries=entries)
