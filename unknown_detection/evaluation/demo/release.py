"""A small release of real images for `evaluate demo`: scikit-learn's digits and OoD images.

The digits are 8 x 8 images of handwriting (Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998)
that ship with scikit-learn, as do the two photographs that textures are cropped from. So nothing is downloaded, and
the rows are the same everywhere. The folder has the layout of a built release; it is for trying the tools, and is not
a published benchmark: manifest and card have what the evaluation and `load_dataset` read, and not the licences, papers
and measured distances that `verify` asks for.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from PIL import Image

from builders.release.digests import rows_digest
from builders.release.duplicates import CONFIG as DUPLICATES
from builders.release.duplicates import SPLIT as PAIRS
from builders.release.duplicates import Pair, PairedRow, pair_of, write_pairs
from builders.release.entries import FORMAT
from builders.release.images import pixel_sha256
from builders.release.layout import INDEX_SUFFIX, Layout
from builders.release.manifest import file_entry
from builders.release.schema import ROLES, Role, arrow_schema
from builders.release.tables import write_index
from builders.storage.files import atomic_path, write_text

CONFIG = "digits"
TRAIN = "digits-train"
SHIFTS = "broad-digits"
MIXED = "facets-digits"

KNOWN = ("0", "1", "2", "3", "4", "6")
"""The in-distribution classes, in label order."""

NEAR = ("5", "7", "9")
EXTERNAL = ("8",)

_KNOWN = {"train": 60, "validation": 20, "test": 30}
"""Images per in-distribution class; few, to keep the demo short."""

_OTHERS = 40
"""Images per OoD class of digits."""

_NOISES = 80

_FACETS = 15
"""Images per class, three times as many for textures, in the split that mixes both sides as FACETS does."""

_BITMAP, _BLOCK = 32, 4
"""Pixels of a side of the bitmaps that digits were, and of the blocks whose dark pixels a digit's pixel counts."""

_NEARLY = 12.0
"""Maximum Euclidean distance of near-duplicate digits: about 1.5 of the 17 grey levels per pixel.

The builders' measure of similarity was made for photographs: it calls 365 pairs of test and training digits near,
where nine are by these levels. So the demo's table of duplicates is not theirs."""


@dataclass(frozen=True)
class DemoImages:
    """n images of one source, uint8 of shape (n, 8, 8), with the source's names and classes of each.

    `change` is the name of the change applied to them, or empty.
    """

    source: str
    names: Sequence[str]
    classes: Sequence[str]
    pixels: npt.NDArray[np.uint8]
    change: str = ""

    @property
    def ids(self) -> list[str]:
        """The id of each image in the release."""
        return ["/".join(part for part in (self.source, name, self.change) if part) for name in self.names]

    def take(self, chosen: Sequence[int]) -> DemoImages:
        """Select images by position, in the given order."""
        names, classes = ([values[number] for number in chosen] for values in (self.names, self.classes))
        return replace(self, names=names, classes=classes, pixels=self.pixels[list(chosen)])


def digits() -> DemoImages:
    """Return all 1,797 of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    data = load_digits()
    names = [f"{number:04d}" for number in range(len(data.target))]
    return DemoImages("sklearn-digits", names, [str(digit) for digit in data.target], _eight_bits(data.images / 16))


def crops(photograph: str, *, every: int) -> DemoImages:
    """Return square crops of a photograph in grey, reduced to 8 x 8 like the digits: the mean of each 4 x 4 block.

    Crops form a grid, row by row; one in `every` is returned.
    """
    from sklearn.datasets import load_sample_image

    grey = np.asarray(Image.fromarray(load_sample_image(photograph)).convert("L")) / 255
    height, width = (size // _BITMAP for size in grey.shape)
    side = _BITMAP // _BLOCK
    cut = grey[: height * _BITMAP, : width * _BITMAP].reshape(height, side, _BLOCK, width, side, _BLOCK)
    squares = cut.mean(axis=(2, 5)).transpose(0, 2, 1, 3).reshape(-1, side, side)
    names = [f"{photograph}/{row:02d}-{column:02d}" for row in range(height) for column in range(width)]
    classes = [photograph.removesuffix(".jpg")] * len(names)
    return DemoImages("sklearn-photographs", names, classes, _eight_bits(squares)).take(range(0, len(names), every))


def noise(count: int) -> DemoImages:
    """Return noise drawn from N(0.5, 1) and clipped to [0, 1], as `cifar/far_ood_gaussian` has it."""
    values = np.random.RandomState(0).normal(0.5, 1.0, (count, 8, 8))
    names = [f"{number:04d}" for number in range(count)]
    return DemoImages("noise", names, ["gaussian"] * count, _eight_bits(values.clip(0, 1)))


def noisy(images: DemoImages) -> DemoImages:
    """Add noise from N(0, 0.2) to pixels in [0, 1]."""
    values = images.pixels / 255 + np.random.RandomState(1).normal(0.0, 0.2, images.pixels.shape)
    return replace(images, pixels=_eight_bits(values.clip(0, 1)), change="gaussian_noise")


def blurred(images: DemoImages) -> DemoImages:
    """Blur images with the mean of each pixel and its eight neighbours."""
    padded = np.pad(images.pixels / 255, ((0, 0), (1, 1), (1, 1)), mode="edge")
    blurred = np.mean([padded[:, row : row + 8, column : column + 8] for row, column in np.ndindex(3, 3)], axis=0)
    return replace(images, pixels=_eight_bits(blurred), change="blur")


def deal(images: DemoImages, classes: Sequence[str], shares: Mapping[str, int]) -> dict[str, DemoImages]:
    """Divide the images of some classes into shares, with a given number per class and share.

    The assignment depends on digests of their names, not on a random generator.
    """
    dealt: dict[str, list[int]] = {share: [] for share in shares}
    for digit in classes:
        remaining = [number for number, name in enumerate(images.classes) if name == digit]
        remaining.sort(key=lambda number: hashlib.sha256(images.names[number].encode()).digest())
        for share, count in shares.items():
            dealt[share] += remaining[:count]
            remaining = remaining[count:]
    return {share: images.take(sorted(chosen)) for share, chosen in dealt.items()}


def near_pairs(images: DemoImages, train: DemoImages) -> Iterator[tuple[int, int, float]]:
    """Yield the number of each near-duplicate of a training image, that of the nearest one, and their distance."""
    levels = [of.pixels.reshape(len(of.names), -1) / 255 * 16 for of in (images, train)]
    for number, image in enumerate(levels[0]):
        distances = np.linalg.norm(levels[1] - image, axis=1)
        nearest = int(distances.argmin())
        if distances[nearest] <= _NEARLY:
            yield number, nearest, float(distances[nearest])


def _eight_bits(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint8]:
    rounded: npt.NDArray[np.uint8] = np.rint(values * 255).astype(np.uint8)
    return rounded


def make_release(root: Path) -> None:
    """Write the demo release to a folder; the card and `manifest.json` come last: one with them is complete."""
    every = digits()
    known = deal(every, KNOWN, _KNOWN)
    ood = deal(every, NEAR, {"near": _OTHERS}) | deal(every, EXTERNAL, {"external": _OTHERS})
    test, near, textures = known["test"], ood["near"], crops("flower.jpg", every=3)
    mixed = deal(test, KNOWN, {"known": _FACETS}) | deal(near, NEAR, {"near": _FACETS})
    configs: dict[str, dict[str, list[tuple[Role, DemoImages]]]] = {
        CONFIG: {
            "validation": [("in_distribution", known["validation"])],
            "test": [("in_distribution", test)],
            "near_ood": [("near_ood", near)],
            "far_ood_textures": [("far_ood", textures)],
            "far_ood_noise": [("far_ood", noise(_NOISES))],
            "external_validation": [("external", ood["external"]), ("external", crops("china.jpg", every=4))],
        },
        TRAIN: {"train": [("in_distribution", known["train"])]},
        SHIFTS: {
            "test": [("in_distribution", test)],
            "blur": [("corruption", blurred(test))],
            "gaussian_noise": [("corruption", noisy(test))],
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
    layout = Layout(root)
    manifest: dict[str, Any] = {"format": FORMAT, "benchmarks": {CONFIG: _BENCHMARK}, "configs": {}}
    pairs: list[Pair] = []
    for config, splits in configs.items():
        written = {}
        for split, parts in sorted(splits.items()):
            rows = pa.concat_tables([_rows(images, role) for role, images in parts])
            described = [{"role": role, "rows": len(images.ids)} for role, images in parts]
            written[split] = _write_split(layout, config, split, rows) | {"parts": described}
            for role, images in parts if config != TRAIN else ():
                for number, nearest, distance in near_pairs(images, known["train"]):
                    train = _paired(f"{TRAIN}/train", "in_distribution", known["train"], nearest)
                    pairs.append(pair_of(_paired(f"{config}/{split}", role, images, number), train, distance))
        manifest["configs"][config] = {"label_names": list(KNOWN), "columns": [], "splits": written}
    compared = sorted(f"{config}/{split}" for config, splits in configs.items() for split in splits if config != TRAIN)
    comparison = {"by": "similarity-2", "splits": compared, "with": [f"{TRAIN}/train"]}
    write_pairs(layout.duplicates, pairs)
    listed = msgspec.to_builtins(file_entry(layout, layout.duplicates))
    manifest[DUPLICATES] = listed | {"rows": len(pairs), "compared": [comparison]}
    write_text(root / "README.md", _card(manifest))
    write_text(root / "manifest.json", json.dumps(manifest, indent=2, sort_keys=True) + "\n")


_BENCHMARK = {
    "title": "Handwritten digits against other digits, textures and noise",
    "version": "1.0.0",
    "demo": True,
    "paper": "",
    "seed": 0,
}


def _rows(images: DemoImages, role: Role) -> pa.Table:
    """Build the rows of a split, with the columns of every release."""
    ids = images.ids
    labels = [KNOWN.index(name) if name in KNOWN else -1 for name in images.classes]
    pictures = []
    for name, pixels in zip(ids, images.pixels, strict=True):
        Image.fromarray(pixels).save(encoded := io.BytesIO(), format="PNG")
        pictures.append({"bytes": encoded.getvalue(), "path": f"{name.replace('/', '-')}.png"})
    columns = {
        "image": pa.array(pictures, pa.struct({"bytes": pa.binary(), "path": pa.string()})),
        "label": pa.array(labels, pa.int64()),
        "role": pa.array([ROLES.index(role)] * len(ids), pa.int64()),
        "class_id": images.classes,
        "class_name": images.classes,
        "source": [images.source] * len(ids),
        "source_id": images.names,
        "id": ids,
        "content_sha256": [pixel_sha256(Image.fromarray(pixels)) for pixels in images.pixels],
        "stored": ["pixels"] * len(ids),
    }
    return pa.table(columns)


def _paired(key: str, role: Role, images: DemoImages, number: int) -> PairedRow:
    return PairedRow(key, images.ids[number], role, images.classes[number])


def _write_split(layout: Layout, config: str, split: str, rows: pa.Table) -> dict[str, Any]:
    """Write a split with and without its images; return its digest and files."""
    key = f"{config}/{split}"
    data, index = layout.shard("data", key, 0, 1), layout.index(key)
    with atomic_path(data) as temporary:
        pq.write_table(rows.cast(arrow_schema(KNOWN, demo=True)), temporary)
    write_index(index, rows, KNOWN, demo=True)
    entries = {"data": [file_entry(layout, data)], "index": file_entry(layout, index)}
    return {"digest": rows_digest(rows), **msgspec.to_builtins(entries)}


def _card(manifest: Mapping[str, Any]) -> str:
    """Render the card: YAML for `load_dataset`, and text for readers.

    The sizes matter: `datasets` keys its cache by a folder's name and card, so without them it could mistake one
    release for another in a folder of the same name.
    """
    listed = {
        f"{config}{suffix}": {
            split: (of["index"] if suffix else of["data"][0], sum(part["rows"] for part in of["parts"]))
            for split, of in entry["splits"].items()
        }
        for suffix in ("", INDEX_SUFFIX)
        for config, entry in manifest["configs"].items()
    }
    listed[DUPLICATES] = {PAIRS: (manifest[DUPLICATES], manifest[DUPLICATES]["rows"])}
    head: dict[str, Any] = {"pretty_name": _BENCHMARK["title"], "configs": [], "dataset_info": []}
    for config, splits in listed.items():
        files = [{"split": split, "path": file["path"]} for split, (file, _) in splits.items()]
        sizes = [{"name": name, "num_bytes": of["bytes"], "num_examples": rows} for name, (of, rows) in splits.items()]
        total = sum(file["bytes"] for file, _ in splits.values())
        head["configs"].append({"config_name": config, "data_files": files})
        info = {"config_name": config, "splits": sizes, "download_size": total, "dataset_size": total}
        head["dataset_info"].append(info)
    about = (__doc__ or "").partition("\n\n")[2].strip()
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n# {_BENCHMARK['title']}\n\n{about}\n"
