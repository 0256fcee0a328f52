"""Writes a small release of real images in a second: scikit-learn's digits, and unknown images beside them.

    python examples/digits_release.py build/digits

The digits are 8 x 8 images of handwriting (Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998)
that ship with scikit-learn, as do the two photographs that textures are cropped from. So nothing is downloaded, and
the rows are the same everywhere. It is a demo: for trying the tools, and no published benchmark. Folders of your own
images need none of this: `unknown-detection build folder` makes a release of them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from builders.card.card import write_card_and_manifest
from builders.duplicates.distance import scaled
from builders.duplicates.exact import searched_pairs
from builders.duplicates.search import find_pairs
from builders.duplicates.table import PairTable, complete, write_duplicates
from builders.release import entries
from builders.release.digests import rows_digest
from builders.release.duplicates import Pair, comparison
from builders.release.images import pixel_sha256
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.schema import ROLES, Role, arrow_schema
from builders.release.tables import write_excluded, write_index
from builders.storage.files import atomic_path

CONFIG, TRAIN, SHIFTS, MIXED = "digits", "digits-train", "broad-digits", "facets-digits"

KNOWN, NEAR, EXTERNAL = ("0", "1", "2", "3", "4", "6"), ("5", "7", "9"), ("8",)
"""Classes: the in-distribution ones in label order, those of near unknowns, and those to tune against."""

_KNOWN = {"train": 60, "validation": 20, "test": 30}
"""Images of each in-distribution class; few, so that models are trained in seconds."""

_OTHERS, _NOISES = 40, 80
"""Images of each other class of digits, and of noise."""

_FACETS = 15
"""Images per class, three times as many for textures, in the split that mixes both sides as FACETS does."""

_BITMAP, _BLOCK = 32, 4
"""Pixels of a side of the bitmaps that digits were, and of the blocks whose dark pixels a digit's pixel counts."""

_NEARLY = 0.03
"""Greatest distance of near-duplicates: 11 of 180 test images have one among the training images. The usual 0.096, for
photographs, would take half of them for duplicates, because digits have few shapes."""


@dataclass(frozen=True)
class Images:
    """n images of one source, uint8 of shape (n, 8, 8), with the source's name and class of each.

    `change` is the name of the change applied to them, or empty.
    """

    source: str
    names: Sequence[str]
    classes: Sequence[str]
    pixels: npt.NDArray[np.uint8]
    change: str = ""

    def take(self, chosen: Sequence[int]) -> Images:
        """Select images by position, in the given order."""
        names, classes = ([values[number] for number in chosen] for values in (self.names, self.classes))
        return replace(self, names=names, classes=classes, pixels=self.pixels[list(chosen)])


def digits() -> Images:
    """Return all 1,797 of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    data = load_digits()
    names = [f"{number:04d}" for number in range(len(data.target))]
    return Images("sklearn-digits", names, [str(digit) for digit in data.target], _eight_bits(data.images / 16))


def crops(photograph: str, *, every: int) -> Images:
    """Return square grey crops of a photograph, reduced to 8 x 8 like the digits by the mean of each 4 x 4 block.

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
    return Images("sklearn-photographs", names, classes, _eight_bits(squares)).take(range(0, len(names), every))


def noise(count: int) -> Images:
    """Return noise drawn from N(0.5, 1) and clipped to [0, 1], as `cifar/far_ood_gaussian` has it."""
    values = np.random.RandomState(0).normal(0.5, 1.0, (count, 8, 8))
    names = [f"{number:04d}" for number in range(count)]
    return Images("noise", names, ["gaussian"] * count, _eight_bits(values.clip(0, 1)))


def noisy(images: Images) -> Images:
    """Add noise from N(0, 0.2) to pixels in [0, 1]."""
    values = images.pixels / 255 + np.random.RandomState(1).normal(0.0, 0.2, images.pixels.shape)
    return replace(images, pixels=_eight_bits(values.clip(0, 1)), change="gaussian_noise")


def blurred(images: Images) -> Images:
    """Blur images with the mean of each pixel and its eight neighbours."""
    padded = np.pad(images.pixels / 255, ((0, 0), (1, 1), (1, 1)), mode="edge")
    blurred = np.mean([padded[:, row : row + 8, column : column + 8] for row, column in np.ndindex(3, 3)], axis=0)
    return replace(images, pixels=_eight_bits(blurred), change="blur")


def deal(images: Images, classes: Sequence[str], shares: Mapping[str, int]) -> dict[str, Images]:
    """Divide the images of some classes into shares, with a given number of each class in each share.

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


def _eight_bits(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint8]:
    rounded: npt.NDArray[np.uint8] = np.rint(values * 255).astype(np.uint8)
    return rounded


def declared() -> dict[str, dict[str, list[tuple[Role, Images]]]]:
    """Return the parts of each split, by config: each part has a role and images."""
    every = digits()
    known = deal(every, KNOWN, _KNOWN)
    unknown = deal(every, NEAR, {"near": _OTHERS}) | deal(every, EXTERNAL, {"external": _OTHERS})
    test, near, textures = known["test"], unknown["near"], crops("flower.jpg", every=3)
    mixed = deal(test, KNOWN, {"known": _FACETS}) | deal(near, NEAR, {"near": _FACETS})
    return {
        CONFIG: {
            "validation": [("in_distribution", known["validation"])],
            "test": [("in_distribution", test)],
            "near_ood": [("near_ood", near)],
            "far_ood_textures": [("far_ood", textures)],
            "far_ood_noise": [("far_ood", noise(_NOISES))],
            "external_validation": [("external", unknown["external"]), ("external", crops("china.jpg", every=4))],
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


def write_release(root: Path) -> Path:
    """Write the release to a folder as a build does: images, indexes, exclusions, manifest and card.

    The manifest comes last: a folder with one is complete.
    """
    layout, configs = Layout(root), {}
    for config, splits in declared().items():
        written = {split: _write_split(layout, f"{config}/{split}", parts) for split, parts in sorted(splits.items())}
        write_excluded(layout.excluded(config), [], [])
        configs[config] = entries.ConfigEntry(
            benchmark=CONFIG if config == TRAIN else config,
            description=_DESCRIPTIONS[config],
            label_names=KNOWN,
            columns=(),
            splits=written,
            excluded=file_entry(layout, layout.excluded(config)),
        )
    manifest = entries.Manifest(
        format=entries.FORMAT,
        benchmarks=dict.fromkeys({*configs} - {TRAIN}, _BENCHMARK),
        configs=configs,
        sources=_SOURCES,
    )
    pairs = complete(manifest, layout.index, pixel_pairs=_near_pairs(layout))
    manifest = msgspec.structs.replace(manifest, duplicates=write_duplicates(layout, manifest, pairs))
    write_card_and_manifest(layout, manifest)
    return root


def _write_split(layout: Layout, key: str, parts: Sequence[tuple[Role, Images]]) -> entries.SplitEntry:
    """Write a split with and without its images; return its entry in the manifest."""
    rows = pa.concat_tables([_rows(images, role) for role, images in parts])
    data, index = layout.shard("data", key, 0, 1), layout.index(key)
    with atomic_path(data) as temporary:
        pq.write_table(rows.cast(arrow_schema(KNOWN, demo=True)), temporary, write_page_index=True)
    write_index(index, rows, KNOWN, demo=True)
    names = [key] if len(parts) == 1 else [f"{key}.{role}_{number}" for number, (role, _) in enumerate(parts)]
    return entries.SplitEntry(
        parts=tuple(_part(name, role, images) for name, (role, images) in zip(names, parts, strict=True)),
        withdrawn=(),
        shortfalls=(),
        digest=rows_digest(rows),
        data=(file_entry(layout, data),),
        index=file_entry(layout, index),
        made=next((f"images under the change {images.change}" for _, images in parts if images.change), None),
    )


def _rows(images: Images, role: Role) -> pa.Table:
    """Build the rows of a part, with the columns of every release."""
    ids = ["/".join(filter(None, (images.source, name, images.change))) for name in images.names]
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


def _part(key: str, role: Role, images: Images) -> entries.PartEntry:
    """Describe a part: a partition of its source that was dealt for it alone, and of which all images are taken."""
    count, classes = len(images.names), len({*images.classes})
    return entries.PartEntry(
        key=key,
        role=role,
        source=images.source,
        partitions=(key.rpartition("/")[2],),
        rows=count,
        expected=count,
        paper=0,
        why="",
        available=count,
        excluded_by_rule={},
        adopted="",
        labelled={*images.classes} <= {*KNOWN},
        classes=classes,
        paper_classes=0,
    )


def _near_pairs(layout: Layout) -> PairTable:
    """Search all splits for near-duplicates of training images, as a build does."""
    reference = f"{TRAIN}/train"
    keys = [f"{config}/{split}" for config, splits in declared().items() for split in splits if config != TRAIN]
    pixels = {}
    for key in (reference, *keys):
        images = pq.read_table(layout.shard("data", key, 0, 1))["image"].to_pylist()
        pixels[key] = np.stack([scaled(Image.open(io.BytesIO(image["bytes"]))) for image in images])
    pairs: list[Pair] = []
    for key in keys:
        found = find_pairs(pixels[key], pixels[reference], threshold=_NEARLY, advance=lambda _: None)
        pairs += searched_pairs(found, (key, layout.index(key)), (reference, layout.index(reference)))
    return PairTable(pairs, {comparison(entries.SIMILARITY, key, reference) for key in keys})


_BENCHMARK = entries.BenchmarkEntry(
    title="Handwritten digits against other digits, textures and noise",
    paper="",
    citation="",
    version="1.0.0",
    seed=0,
    limit_per_class=None,
    demo=True,
    near_distance=_NEARLY,
)

_DESCRIPTIONS = {
    CONFIG: "Six classes of digits against three others, textures and noise, as in the unified benchmark.",
    TRAIN: "Images of the six classes to train on.",
    SHIFTS: "The test images under two corruptions, and unseen digits, as in BROAD.",
    MIXED: "Known digits, other digits and textures in one split, as in FACETS.",
}

_CC_BY = "https://creativecommons.org/licenses/by/"
_SOURCES = {
    "sklearn-digits": entries.SourceEntry(
        title="Optical Recognition of Handwritten Digits",
        edition="scikit-learn's copy of the test set",
        licence=entries.Licence("CC BY 4.0", f"{_CC_BY}4.0/", "open", "The UCI repository lists it under CC BY 4.0."),
        citation="""@misc{alpaydin1998optical,
  title = {Optical Recognition of Handwritten Digits},
  author = {Alpaydin, Ethem and Kaynak, Cenk},
  howpublished = {UCI Machine Learning Repository},
  year = {1998},
  doi = {10.24432/C50P49}
}""",
    ),
    "sklearn-photographs": entries.SourceEntry(
        title="Photographs of scikit-learn",
        edition="china.jpg and flower.jpg, in grey, as crops of 8 x 8",
        licence=entries.Licence(
            "CC BY 2.0", f"{_CC_BY}2.0/", "open", "By danielbuechele and vultilion on Flickr, as scikit-learn states."
        ),
        citation="",
    ),
    "noise": entries.SourceEntry(
        title="Gaussian noise",
        edition="drawn by this script",
        licence=entries.Licence(
            "Apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0", "open", "As this project."
        ),
        citation="",
    ),
}


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
def main(out: Path) -> None:
    """Write the release of digits."""
    click.echo(f"wrote {write_release(out)}")


if __name__ == "__main__":
    main()
