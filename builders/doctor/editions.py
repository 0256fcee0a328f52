"""Tells editions of ImageNet and repackaged copies apart, by names, counts and a few images that everybody knows.

Tested by `tests/builders/doctor/test_editions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.doctor.copies import Copy
from builders.doctor.sides import Difference
from builders.sources.datasets.imagenet import classes
from builders.storage.folders import files_below

# Training images of ILSVRC2012 that are no RGB JPEG, as converters list them
# (github.com/cytsai/ilsvrc-cmyk-image-list,
# TensorFlow's build_imagenet_data.py, which TFDS follows): one is a PNG, the others have four channels.
_PNG = "n02105855_2933"
_CMYK = [
    "n01739381_1309",
    "n02077923_14822",
    "n02447366_23489",
    "n02492035_15739",
    "n02747177_10752",
    "n03018349_4028",
    "n03062245_4620",
    "n03347037_9675",
    "n03467068_12171",
    "n03529860_11437",
    "n03544143_17228",
    "n03633091_5218",
    "n03710637_5125",
    "n03961711_5286",
    "n04033995_2932",
    "n04258138_17003",
    "n04264628_27969",
    "n04336792_7448",
    "n04371774_5854",
    "n04596742_4225",
    "n07583066_647",
    "n13037406_4650",
]

_MOST_NAMES = 100_000
"""Names that are looked at for an edition (ours); what they show is in all names of a copy or in its folders'."""

_NAMES = (
    (r"ILSVRC2010_(val|test)_\d{8}", "ILSVRC 2010, whose 1,000 classes and images are others than those of 2012"),
    (r"(^|/)(train|val)_?blurred(/|\.tar)", "the edition of ILSVRC2012 with blurred faces"),
    (r"\.tfrecord(-\d+-of-\d+)?$", "TFDS's records: their images were saved again where they were no RGB JPEG"),
    (r"(^|/)imagenet-?(1k|12k|22k|w21)?-?(train|val\w*)-\d+\.tar$", "webdataset shards, such as timm's"),
    (r"(^|/)(train|val|validation)-\d{5,6}\.tar$|\.cls$", "webdataset shards, whose names are not the owner's"),
)
"""Patterns over paths, and the edition that they show."""

_LAYOUTS = ((r"(^|/)ILSVRC/Data/CLS-LOC/", "laid out as in Kaggle's competition"),)
"""Patterns over paths that say where a copy comes from, and nothing of its images."""

_OF_CLASS = r"(?:^|/)(n\d{8})(?:/|\.tar$)"


def names_say(place: Path, source: str) -> tuple[list[str], list[str]]:
    """Return what the paths in a place say: other editions, and remarks; `source` is its key, or empty."""
    names = [place.name]
    if place.is_dir():
        for name in files_below(place, skip_closed=True):
            names.append(name)
            if len(names) > _MOST_NAMES:
                break
    text = "\n".join(names)
    editions = [edition for pattern, edition in _NAMES if re.search(pattern, text, re.MULTILINE)]
    wnids = {match[1] for match in re.finditer(_OF_CLASS, text, re.MULTILINE)}
    foreign = sorted(wnids - set(classes()))
    if source in ("", "imagenet") and len(wnids) / 20 < len(foreign) < len(wnids):
        few = f"{len(foreign):,} of {len(wnids):,} class folders are none of ILSVRC2012's, for instance {foreign[0]}"
        editions.append(f"another edition of ImageNet (2010, or the full one of fall 2011): {few}")
    remarks = [remark for pattern, remark in _LAYOUTS if re.search(pattern, text, re.MULTILINE)]
    if not source and (renamed := _renamed(text, len(names))):
        remarks.append(renamed)
    return editions, remarks


def _renamed(text: str, names: int) -> str:
    """Say that most files are called by classes of ImageNet-1k, and none as the owner's; else an empty text."""
    wnids = [match[1] for match in re.finditer(r"(?:^|/)(n\d{8})_[^/\n]*\.[A-Za-z]+$", text, re.MULTILINE)]
    known = [wnid for wnid in wnids if wnid in classes()]
    if 2 * len(known) < names or re.search(r"(?:^|/)n\d{8}_\d+\.JPEG$", text, re.MULTILINE):
        return ""
    return (
        f"{len(known):,} files are called by classes of ImageNet-1k, such as {known[0]}, and not as in the owner's "
        "archives, so that nothing tells which of a class's images they are"
    )


def counts_say(copy: Copy) -> Iterator[str]:
    """Yield the edition that the numbers of images in the classes of a copy of ImageNet-1k show."""
    if copy.source is None or copy.source.key != "imagenet":
        return
    for partition in copy.partitions:
        owners = copy.source.expected()[partition.name].per_class or {}
        more = {name: n for name, n in partition.images_by_class.items() if n > owners.get(name, n)}
        if partition.name == "train" and len(more) > len(partition.images_by_class) / 20:
            name, images = min(more.items())
            yield (
                f"the full ImageNet of fall 2011: {len(more):,} of {len(partition.images_by_class):,} classes have "
                f"more images than in ILSVRC2012, for instance {name} {images:,} and not {owners[name]:,}"
            )


def of_imagenet(copy: Copy, facts: pa.Table) -> Iterator[Difference]:
    """Yield what shows that a copy of ImageNet-1k was saved again."""
    known = [f"train/{name.partition('_')[0]}/{name}.JPEG" for name in (_PNG, *_CMYK)]
    rows = pc.index_in(pa.array(known), value_set=copy.rows["source_id"].combine_chunks())
    changed = list(_changed(known, rows.to_pylist(), facts))
    yield from changed


def _changed(known: Sequence[str], rows: Sequence[int | None], facts: pa.Table) -> Iterator[Difference]:
    for name, row in zip(known, rows, strict=True):
        if row is None:
            continue
        form, channels = facts["format"][row].as_py(), facts["channels"][row].as_py()
        was = "a PNG" if _PNG in name else "a JPEG of four channels"
        if form and (form != "PNG" if _PNG in name else channels != 4):
            detail = f"it is {was} in the owner's archive: TFDS and scripts like TensorFlow's save such images again"
            yield Difference("re-encoded", "train", name, detail, row)
