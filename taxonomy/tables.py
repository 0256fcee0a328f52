"""The class tables: small sorted CSV files, read as frozen values in the order that defines the class indices.

Every function reads its file once and returns a tuple. A class's index, where the source has one, is its place in the
table, which the files need therefore not repeat.
"""

import csv
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any, TypeVar

Value = TypeVar("Value")

_WNID = re.compile(r"n\d{8}", re.ASCII)


def is_wnid(class_id: str) -> bool:
    """Whether a class's id is that of a noun synset of WordNet 3.0, such as n01440764."""
    return _WNID.fullmatch(class_id) is not None


@dataclass(frozen=True, slots=True)
class ImageNetClass:
    """One of the 1,000 classes of ILSVRC 2012.

    `index` is its label, the place of the wnid among the sorted wnids; a WordNet 3.0 id, which also names the class's
    folder. `name` is the synset's first lemma; two occur twice (crane, maillot), so it identifies no class. It has
    `train_images` (732 to 1300) in the training set, and the number `kit_number` (1 to 1000) in the development kit.
    """

    index: int
    wnid: str
    name: str
    train_images: int
    kit_number: int


@dataclass(frozen=True, slots=True)
class Cifar100Class:
    """One of CIFAR-100's 100 fine classes and its superclass (20 of 5 classes each)."""

    index: int
    fine: str
    coarse: str


@dataclass(frozen=True, slots=True)
class Caltech256Class:
    """One of Caltech-256's 256 object classes, or its 257th folder, clutter; 80 to 827 images each.

    `folder` is named as in the archive ("133.lightning"), and so is the class ("swiss-army-knife", or "brain-101" for
    one that is shared with Caltech-101).
    """

    folder: str
    images: int

    @property
    def number(self) -> int:
        """The number that begins the folder's name, from 1."""
        return int(self.folder[:3])

    @property
    def name(self) -> str:
        """The folder's name without the number."""
        return self.folder[4:]


@dataclass(frozen=True, slots=True)
class Places365Class:
    """One of Places365's 365 categories, such as "/a/apartment_building/outdoor" in the dataset's own list."""

    index: int
    category: str

    @property
    def name(self) -> str:
        """The category without its letter, such as "apartment_building/outdoor"."""
        return self.category[3:]


@dataclass(frozen=True, slots=True)
class Sun397Class(Places365Class):
    """One of SUN397's 397 categories, with 100 to 2361 images.

    `index` is the label, its place among the sorted categories; `category` is a path of the dataset's ClassName.txt.
    """

    images: int


@dataclass(frozen=True, slots=True)
class ClassSynset:
    """A synset chosen for a class of a dataset that has none of its own.

    Attributes:
        name: The class: CIFAR-100's fine name or Places365's category.
        wnid: WordNet 3.0 id. A CIFAR-100 class may have more than one row.
        basis: How it was chosen. "only_sense" and "first_sense" of the name can be checked against WordNet;
            "head_word" is a sense of the name's last word, "other_spelling" of the name as WordNet writes it,
            "nearest" is another synset that fits better than any of the name's, "sense" one of the name's senses
            (of its first part, where "/" divides it) picked by hand.
        note: What decided, in a few words; "" where the basis says it all.
    """

    name: str
    wnid: str
    basis: str
    note: str


@dataclass(frozen=True, slots=True)
class Override:
    """A decision set by hand against the rule, with the reason."""

    table: str
    class_id: str
    decision: str
    reason: str


@dataclass(frozen=True, slots=True)
class CocoCategory:
    """One of COCO's 80 object categories; the ids run from 1 to 90 with gaps."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class CocomagenetImage:
    """An image of the lists that the authors of BROAD publish for CoComageNet.

    `split` is "cocomagenet" or "cocomagenet_mono", which has the image for one COCO `category`; "" in the other.
    """

    image_id: int
    split: str
    category: str


@dataclass(frozen=True, slots=True)
class BrokenImage:
    """An image that is broken in its owner's archive."""

    source: str
    source_id: str
    provenance: str


@dataclass(frozen=True, slots=True)
class ExaminedImage:
    """An image of an out-of-distribution set that the authors of NINCO looked at (Bitterwolf et al., 2023).

    `decision` is their letter: "i" for an image with an object of an ImageNet-1k class, "o" for one without; the few
    others ("u", "q", "b") are explained nowhere and say neither.
    """

    source: str
    source_id: str
    decision: str


def read_csv_rows(name: str) -> list[dict[str, str]]:
    """Read a CSV file of `taxonomy/data` as one dictionary per row."""
    text = (resources.files("taxonomy") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def read_rows(kind: type[Value], name: str) -> tuple[Value, ...]:
    """Read a CSV file of `taxonomy/data` as values of a type: its fields are columns, and `index` the row's place."""
    made_by: dict[str, Any] = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]
    rows = ({"index": index, **row} for index, row in enumerate(read_csv_rows(name)))
    return tuple(kind(**{column: make(row[column]) for column, make in made_by.items()}) for row in rows)


def _first_column(name: str) -> tuple[str, ...]:
    return tuple(next(iter(row.values())) for row in read_csv_rows(name))


@functools.cache
def imagenet1k() -> tuple[ImageNetClass, ...]:
    """Return ILSVRC 2012's 1,000 classes by index.

    The image counts come from a public listing by label number, taken to be the place in wnid order: plausible (the
    smallest classes are rare dog breeds), but the listing does not say so. The kit's numbers are those of
    `map_clsloc.txt` in later development kits; the first and last ground truths that people quote fit them.
    """
    return read_rows(ImageNetClass, "imagenet1k.csv")


@functools.cache
def tiny_imagenet200() -> tuple[str, ...]:
    """Return the wnids of Tiny ImageNet's 200 classes, sorted; all are ILSVRC 2012 classes."""
    return _first_column("tiny_imagenet200.csv")


@functools.cache
def imagenet_tree() -> tuple[str, ...]:
    """Return the 21,841 wnids of the full ImageNet release, sorted.

    They hold all ILSVRC 2012 classes but n04399382, the teddy bear.
    """
    return _first_column("imagenet_tree.csv")


@functools.cache
def cifar100() -> tuple[Cifar100Class, ...]:
    """Return CIFAR-100's 100 classes by index, which is alphabetical."""
    return read_rows(Cifar100Class, "cifar100.csv")


@functools.cache
def cifar_order(source: str, partition: str) -> tuple[int, ...]:
    """Return the label of each image of CIFAR-10 or CIFAR-100, in the order of the owner's files.

    Test labels are those of cleanlab/label-errors, training labels those of UCSC-REAL/cifar-10-100n, which numbers
    images alike.
    """
    (row,) = (
        row for row in read_csv_rows("cifar_order.csv") if (row["source"], row["partition"]) == (source, partition)
    )
    labels = row["labels"]
    width = 1 if source == "cifar10" else 2
    return tuple(int(labels[at : at + width]) for at in range(0, len(labels), width))


@functools.cache
def cifar_places(source: str, partition: str) -> Mapping[int, tuple[int, ...]]:
    """Return the places of each label's images in the order of the owner's files."""
    places: dict[int, list[int]] = {}
    for place, label in enumerate(cifar_order(source, partition)):
        places.setdefault(label, []).append(place)
    return {label: tuple(of) for label, of in places.items()}


@functools.cache
def cifar10() -> tuple[str, ...]:
    """Return CIFAR-10's ten classes by label, which is alphabetical."""
    return _first_column("cifar10.csv")


@functools.cache
def cifar100_wnids() -> tuple[ClassSynset, ...]:
    """Return the synsets of the CIFAR-100 classes, 103 rows: table, plate and possum have two each."""
    return read_rows(ClassSynset, "cifar100_wnids.csv")


@functools.cache
def food101() -> tuple[str, ...]:
    """Return Food-101's 101 class names in byte order, so that cheese_plate comes before cheesecake."""
    return _first_column("food101.csv")


@functools.cache
def dtd() -> tuple[str, ...]:
    """Return the 47 class names of Describable Textures in alphabetical order."""
    return _first_column("dtd.csv")


@functools.cache
def caltech256() -> tuple[Caltech256Class, ...]:
    """Return Caltech-256's 257 folders by number; the last is clutter, which is no object class.

    The image counts are those of two public listings of the archive, which agree file for file.
    """
    return read_rows(Caltech256Class, "caltech256.csv")


@functools.cache
def places365() -> tuple[Places365Class, ...]:
    """Return Places365's 365 categories by index."""
    return read_rows(Places365Class, "places365.csv")


@functools.cache
def places365_wnids() -> tuple[ClassSynset, ...]:
    """Return the synset of each Places365 category, 365 rows in the order of the categories."""
    return read_rows(ClassSynset, "places365_wnids.csv")


@functools.cache
def sun397() -> tuple[Sun397Class, ...]:
    """Return SUN397's 397 categories by index, with the numbers of their images."""
    return read_rows(Sun397Class, "sun397.csv")


@functools.cache
def coco80() -> tuple[CocoCategory, ...]:
    """Return COCO's 80 object categories by id."""
    return read_rows(CocoCategory, "coco80.csv")


@functools.cache
def cocomagenet_images() -> tuple[CocomagenetImage, ...]:
    """Return the 4,000 images of CoComageNet and its subset of single classes by id, 2,000 each.

    They are the two lists of the authors' repository (ServiceNow/broad, under the MIT licence of `BROAD-LICENSE.txt`),
    with COCO's categories instead of their ImageNet labels.
    """
    return read_rows(CocomagenetImage, "broad_cocomagenet.csv")


@functools.cache
def broken_images() -> Mapping[str, str]:
    """Return the evidence that an image is broken in its owner's archive, by the id that its row would have."""
    rows = read_rows(BrokenImage, "broken_images.csv")
    return {f"{row.source}/{row.source_id}": row.provenance for row in rows}


@functools.cache
def inaturalist() -> Mapping[str, str]:
    """Return the species of each of the 10,000 images of the iNaturalist subset, by file name, sorted.

    From NINCO's table of labels (data/NINCO-LICENSE.txt); all 110 species are plants.
    """
    return {row["image"]: row["species"] for row in read_csv_rows("inaturalist.csv")}


@functools.cache
def examined_images() -> tuple[ExaminedImage, ...]:
    """Return what NINCO's authors saw when they looked at 400 images of each of three out-of-distribution sets.

    From their annotations (data/NINCO-LICENSE.txt).
    """
    return read_rows(ExaminedImage, "examined_images.csv")


@functools.cache
def overrides() -> tuple[Override, ...]:
    """Return the decisions that are set by hand."""
    return read_rows(Override, "overrides.csv")
