"""A small release of real images for `python -m evaluation demo`: scikit-learn's digits against what is none.

The digits are 8 x 8 images of handwriting (Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998)
that ship inside scikit-learn, as do the two photographs that textures are cut from. So nothing is downloaded, and the
rows are the same everywhere. The folder is laid out as a built release; it is for trying the tools, and is no
published benchmark.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from evaluation.files import replacing
from evaluation.releases import FORMAT, INDEX_SUFFIX, rows_digest

CONFIG = "digits"
TRAIN = "digits-train"

KNOWN = ("0", "1", "2", "3", "4", "6")
"""The in-distribution classes, in the order of their labels."""

ROLES = ("in_distribution", "near_ood", "far_ood", "external")

_PER_CLASS = {"train": 60, "validation": 30}
"""In-distribution rows of a class that are not for testing; it has 177 to 183."""

_NOISES = 250
"""Images of noise: about as many as there are crops of a photograph."""

_BITMAP, _BLOCK = 32, 4
"""A digit was a bitmap of 32 x 32 pixels; each pixel of its image counts the dark ones of a block of 4 x 4."""

_NEARLY = 12.0
"""Two digits nearly repeat each other at this Euclidean distance: some 1.5 of the 17 grey levels a pixel."""


@dataclass(frozen=True)
class Images:
    """n images of one source.

    Attributes:
        source: name of the source.
        names: what the source calls each.
        classes: the source's own class of each.
        pixels: uint8 of shape (n, 8, 8).
    """

    source: str
    names: Sequence[str]
    classes: Sequence[str]
    pixels: npt.NDArray[np.uint8]

    def of(self, classes: Sequence[str]) -> Images:
        """Those of some classes."""
        return self.take([number for number, name in enumerate(self.classes) if name in classes])

    def take(self, chosen: Sequence[int]) -> Images:
        """Those at some positions, in their order."""
        names, classes = ([values[number] for number in chosen] for values in (self.names, self.classes))
        return Images(self.source, names, classes, self.pixels[list(chosen)])


def make_release(root: Path) -> None:
    """Write the demo release into a folder; what it holds already under the same names is replaced.

    Args:
        root: the folder; the card and `manifest.json` come last, so that a folder that has them is whole.
    """
    digits = _digits()
    drawn = _draw_known(digits)
    train = drawn["train"]
    repeats = _repeats(digits, train)
    configs: dict[str, dict[str, tuple[str, list[Images]]]] = {
        CONFIG: {
            "validation": ("in_distribution", [drawn["validation"]]),
            "test": ("in_distribution", [drawn["test"]]),
            "near_ood": ("near_ood", [digits.of(("5", "7", "9"))]),
            "far_ood_textures": ("far_ood", [_crops("flower.jpg")]),
            "far_ood_noise": ("far_ood", [_noise()]),
            "external_validation": ("external", [digits.of(("8",)), _crops("china.jpg")]),
        },
        TRAIN: {"train": ("in_distribution", [train])},
    }
    manifest: dict[str, Any] = {"format": FORMAT, "benchmarks": {CONFIG: _BENCHMARK}, "configs": {}}
    for config, splits in configs.items():
        columns = ["near_duplicate_of"] if config == CONFIG else []
        written = {}
        for split, (role, parts) in sorted(splits.items()):
            rows = pa.concat_tables([_rows(part, role, repeats if columns else None) for part in parts])
            written[split] = _write_split(root, config, split, rows) | {"role": role, "rows": len(rows)}
        manifest["configs"][config] = {"label_names": list(KNOWN), "columns": columns, "splits": written}
    _write_text(root / "README.md", _card(manifest))
    _write_text(root / "manifest.json", json.dumps(manifest, indent=2, sort_keys=True) + "\n")


_BENCHMARK = {
    "title": "Handwritten digits against other digits, textures and noise",
    "version": "1.0.0",
    "demo": True,
    "paper": "",
    "seed": 0,
}


def _digits() -> Images:
    from sklearn.datasets import load_digits

    data = load_digits()
    names = [f"{number:04d}" for number in range(len(data.target))]
    return Images("sklearn-digits", names, [str(digit) for digit in data.target], _eight_bits(data.images / 16))


def _crops(photograph: str) -> Images:
    """Squares of a photograph in grey, brought to 8 x 8 as the digits were: the mean of each block of 4 x 4."""
    from sklearn.datasets import load_sample_image

    grey = np.asarray(Image.fromarray(load_sample_image(photograph)).convert("L")) / 255
    height, width = (size // _BITMAP for size in grey.shape)
    side = _BITMAP // _BLOCK
    cut = (
        grey[: height * _BITMAP, : width * _BITMAP]
        .reshape(height, side, _BLOCK, width, side, _BLOCK)
        .mean(axis=(2, 5))
    )
    squares = cut.transpose(0, 2, 1, 3).reshape(-1, side, side)
    names = [f"{photograph}/{row:02d}-{column:02d}" for row in range(height) for column in range(width)]
    return Images("sklearn-photographs", names, [photograph.removesuffix(".jpg")] * len(names), _eight_bits(squares))


def _noise() -> Images:
    """N(0.5, 1), clipped to [0, 1], as the unified benchmark's noise is."""
    values = np.random.RandomState(0).normal(0.5, 1.0, (_NOISES, 8, 8))
    names = [f"{number:04d}" for number in range(_NOISES)]
    return Images("noise", names, ["gaussian"] * _NOISES, _eight_bits(values.clip(0, 1)))


def _draw_known(digits: Images) -> dict[str, Images]:
    """The known classes' images shared among train, validation and test, by the digest of their names."""
    drawn: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for digit in KNOWN:
        mine = [number for number, name in enumerate(digits.classes) if name == digit]
        mine.sort(key=lambda number: hashlib.sha256(digits.names[number].encode()).digest())
        train, validation = _PER_CLASS["train"], _PER_CLASS["train"] + _PER_CLASS["validation"]
        drawn["train"] += mine[:train]
        drawn["validation"] += mine[train:validation]
        drawn["test"] += mine[validation:]
    return {split: digits.take(sorted(chosen)) for split, chosen in drawn.items()}


def _repeats(digits: Images, train: Images) -> Mapping[str, str]:
    """Of each digit that nearly repeats a training image, by its id, the id of the nearest."""
    found = {}
    levels = [images.pixels.reshape(len(images.names), -1) / 255 * 16 for images in (digits, train)]
    for name, image in zip(digits.names, levels[0], strict=True):
        distances = np.linalg.norm(levels[1] - image, axis=1)
        nearest = int(distances.argmin())
        if distances[nearest] <= _NEARLY and train.names[nearest] != name:
            found[f"{digits.source}/{name}"] = f"{train.source}/{train.names[nearest]}"
    return found


def _eight_bits(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint8]:
    rounded: npt.NDArray[np.uint8] = np.rint(values * 255).astype(np.uint8)
    return rounded


def _rows(images: Images, role: str, repeats: Mapping[str, str] | None) -> pa.Table:
    """The rows of a split with the columns of every release."""
    ids = [f"{images.source}/{name}" for name in images.names]
    labels = [KNOWN.index(name) if role == "in_distribution" else -1 for name in images.classes]
    pictures = [
        {"bytes": _png(pixels), "path": f"{name.replace('/', '-')}.png"}
        for name, pixels in zip(images.names, images.pixels, strict=True)
    ]
    columns = {
        "image": pa.array(pictures, pa.struct({"bytes": pa.binary(), "path": pa.string()})),
        "label": pa.array(labels, pa.int64()),
        "role": pa.array([ROLES.index(role)] * len(ids), pa.int64()),
        "class_id": images.classes,
        "class_name": images.classes,
        "source": [images.source] * len(ids),
        "source_id": images.names,
        "id": ids,
        "content_sha256": [hashlib.sha256(pixels.tobytes()).hexdigest() for pixels in images.pixels],
        "stored": ["pixels"] * len(ids),
    }
    if repeats is not None:
        columns["near_duplicate_of"] = [repeats.get(name, "") for name in ids]
    return pa.table(columns)


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, format="PNG")
    return encoded.getvalue()


def _write_split(root: Path, config: str, split: str, rows: pa.Table) -> dict[str, Any]:
    """Write a split with and without its images, and give its digest and files."""
    kinds: dict[str, Any] = {name: {"dtype": "string", "_type": "Value"} for name in rows.column_names}
    kinds |= {
        "image": {"_type": "Image"},
        "label": {"names": list(KNOWN), "_type": "ClassLabel"},
        "role": {"names": list(ROLES), "_type": "ClassLabel"},
    }
    data, index = f"data/{config}/{split}-00000-of-00001.parquet", f"index/{config}/{split}.parquet"
    for path, table in ((data, rows), (index, rows.drop_columns("image"))):
        features = {"info": {"features": {name: kinds[name] for name in table.column_names}}}
        with replacing(root / path) as temporary:
            pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), temporary)
    return {
        "digest": rows_digest(rows),
        "data": [_file_entry(root, data)],
        "index": _file_entry(root, index),
    }


def _file_entry(root: Path, path: str) -> dict[str, Any]:
    content = (root / path).read_bytes()
    return {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _card(manifest: Mapping[str, Any]) -> str:
    """The card: what `load_dataset` needs in its YAML, and what a reader needs to know."""
    lines = ["---", f"pretty_name: {_BENCHMARK['title']}", "configs:"]
    for suffix in ("", INDEX_SUFFIX):
        for config, entry in manifest["configs"].items():
            lines += [f"- config_name: {config}{suffix}", "  data_files:"]
            for split, described in entry["splits"].items():
                path = described["index"]["path"] if suffix else described["data"][0]["path"]
                lines += [f"  - split: {split}", f"    path: {path}"]
    lines += ["---", "", f"# {_BENCHMARK['title']}", "", (__doc__ or "").partition("\n\n")[2].strip(), ""]
    return "\n".join(lines)


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
