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
from dataclasses import dataclass, replace
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
SHIFTS = "broad-digits"
MIXED = "facets-digits"

KNOWN = ("0", "1", "2", "3", "4", "6")
"""The in-distribution classes, in the order of their labels."""

ROLES = (
    "in_distribution",
    "near_ood",
    "far_ood",
    "external",
    "novel_class",
    "adversarial",
    "synthetic",
    "corruption",
    "multi_label",
)
"""The roles of all releases, by their numbers."""

_KNOWN = {"train": 60, "validation": 20, "test": 40}
"""Images of each known class; few, so that the demo is over soon."""

_OTHERS = 60
"""Images of each class of digits that is not known."""

_NOISES = 100

_FACETS = 20
"""Images of each class, of textures three times as many, that FACETS' way to mix both sides in one split takes."""

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
        change: what was done to them, or empty.
    """

    source: str
    names: Sequence[str]
    classes: Sequence[str]
    pixels: npt.NDArray[np.uint8]
    change: str = ""

    @property
    def ids(self) -> list[str]:
        """The id of each in the release."""
        return ["/".join(part for part in (self.source, name, self.change) if part) for name in self.names]

    def take(self, chosen: Sequence[int]) -> Images:
        """Those at some positions, in their order."""
        names, classes = ([values[number] for number in chosen] for values in (self.names, self.classes))
        return replace(self, names=names, classes=classes, pixels=self.pixels[list(chosen)])


def make_release(root: Path) -> None:
    """Write the demo release into a folder; what it holds already under the same names is replaced.

    Args:
        root: the folder; the card and `manifest.json` come last, so that a folder that has them is whole.
    """
    digits = _digits()
    known = _deal(digits, KNOWN, _KNOWN)
    others = _deal(digits, ("5", "7", "9"), {"near": _OTHERS}) | _deal(digits, ("8",), {"external": _OTHERS})
    test, near, textures = known["test"], others["near"], _crops("flower.jpg", every=2)
    mixed = _deal(test, KNOWN, {"known": _FACETS}) | _deal(near, ("5", "7", "9"), {"near": _FACETS})
    repeats = _repeats(digits, known["train"])
    configs: dict[str, dict[str, list[tuple[str, Images]]]] = {
        CONFIG: {
            "validation": [("in_distribution", known["validation"])],
            "test": [("in_distribution", test)],
            "near_ood": [("near_ood", near)],
            "far_ood_textures": [("far_ood", textures)],
            "far_ood_noise": [("far_ood", _noise())],
            "external_validation": [("external", others["external"]), ("external", _crops("china.jpg", every=4))],
        },
        TRAIN: {"train": [("in_distribution", known["train"])]},
        SHIFTS: {
            "test": [("in_distribution", test)],
            "blur": [("corruption", _blurred(test))],
            "gaussian_noise": [("corruption", _noisy(test))],
            "unseen_digits": [("novel_class", near)],
        },
        MIXED: {
            "test": [
                ("in_distribution", mixed["known"]),
                ("near_ood", mixed["near"]),
                ("far_ood", textures.take(range(3 * _FACETS))),
            ]
        },
    }
    manifest: dict[str, Any] = {"format": FORMAT, "benchmarks": {CONFIG: _BENCHMARK}, "configs": {}}
    for config, splits in configs.items():
        columns = ["near_duplicate_of"] if config != TRAIN else []
        written = {}
        for split, parts in sorted(splits.items()):
            rows = pa.concat_tables([_rows(images, role, repeats if columns else None) for role, images in parts])
            written[split] = _write_split(root, config, split, rows) | {"role": parts[0][0], "rows": len(rows)}
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


def _crops(photograph: str, *, every: int) -> Images:
    """Squares of a photograph in grey, brought to 8 x 8 as the digits were: the mean of each block of 4 x 4.

    They stand in a grid, row by row; the first of so many is taken.
    """
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
    found = Images("sklearn-photographs", names, [photograph.removesuffix(".jpg")] * len(names), _eight_bits(squares))
    return found.take(range(0, len(names), every))


def _noise() -> Images:
    """N(0.5, 1), clipped to [0, 1], as the unified benchmark's noise is."""
    values = np.random.RandomState(0).normal(0.5, 1.0, (_NOISES, 8, 8))
    names = [f"{number:04d}" for number in range(_NOISES)]
    return Images("noise", names, ["gaussian"] * _NOISES, _eight_bits(values.clip(0, 1)))


def _noisy(images: Images) -> Images:
    values = images.pixels / 255 + np.random.RandomState(1).normal(0.0, 0.2, images.pixels.shape)
    return replace(images, pixels=_eight_bits(values.clip(0, 1)), change="gaussian_noise")


def _blurred(images: Images) -> Images:
    """The mean of each pixel and its eight neighbours."""
    padded = np.pad(images.pixels / 255, ((0, 0), (1, 1), (1, 1)), mode="edge")
    blurred = np.mean([padded[:, row : row + 8, column : column + 8] for row, column in np.ndindex(3, 3)], axis=0)
    return replace(images, pixels=_eight_bits(blurred), change="blur")


def _deal(digits: Images, classes: Sequence[str], shares: Mapping[str, int]) -> dict[str, Images]:
    """The images of some classes dealt out, so many of each class to each share.

    Which go where depends on the digests of their names, and so on no generator.
    """
    dealt: dict[str, list[int]] = {share: [] for share in shares}
    for digit in classes:
        mine = [number for number, name in enumerate(digits.classes) if name == digit]
        mine.sort(key=lambda number: hashlib.sha256(digits.names[number].encode()).digest())
        for share, count in shares.items():
            dealt[share] += mine[:count]
            mine = mine[count:]
    return {share: digits.take(sorted(chosen)) for share, chosen in dealt.items()}


def _repeats(digits: Images, train: Images) -> Mapping[str, str]:
    """Of each digit that nearly repeats a training image, by its id, the id of the nearest."""
    found = {}
    levels = [images.pixels.reshape(len(images.names), -1) / 255 * 16 for images in (digits, train)]
    for name, image in zip(digits.ids, levels[0], strict=True):
        distances = np.linalg.norm(levels[1] - image, axis=1)
        nearest = int(distances.argmin())
        if distances[nearest] <= _NEARLY:
            found[name] = train.ids[nearest]
    return found


def _eight_bits(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint8]:
    rounded: npt.NDArray[np.uint8] = np.rint(values * 255).astype(np.uint8)
    return rounded


def _rows(images: Images, role: str, repeats: Mapping[str, str] | None) -> pa.Table:
    """The rows of a split with the columns of every release."""
    ids = images.ids
    labels = [KNOWN.index(name) if name in KNOWN else -1 for name in images.classes]
    pictures = [
        {"bytes": _png(pixels), "path": f"{name.replace('/', '-')}.png"}
        for name, pixels in zip(ids, images.pixels, strict=True)
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
    """The card: what `load_dataset` needs in its YAML, and what a reader needs to know.

    The sizes are not only for people: `datasets` keys its cache by a folder's name and card, so that a card without
    them would make it take two releases in folders of the same name for one.
    """
    files, sizes = ["configs:"], ["dataset_info:"]
    for suffix in ("", INDEX_SUFFIX):
        for config, entry in manifest["configs"].items():
            files += [f"- config_name: {config}{suffix}", "  data_files:"]
            sizes += [f"- config_name: {config}{suffix}", "  splits:"]
            listed = {
                name: (of["index"] if suffix else of["data"][0], of["rows"]) for name, of in entry["splits"].items()
            }
            for split, (file, rows) in listed.items():
                files += [f"  - split: {split}", f"    path: {file['path']}"]
                sizes += [f"  - name: {split}", f"    num_bytes: {file['bytes']}", f"    num_examples: {rows}"]
            total = sum(file["bytes"] for file, _ in listed.values())
            sizes += [f"  download_size: {total}", f"  dataset_size: {total}"]
    title = _BENCHMARK["title"]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    return "\n".join(["---", f"pretty_name: {title}", *files, *sizes, "---", "", f"# {title}", "", about, ""])


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
