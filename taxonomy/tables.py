"""The class tables: small sorted CSV files, read as frozen values in the order that defines the class indices.

Every function reads its file once and returns a tuple. A class's index, where the source has one, is its place in the
table, which the files need therefore not repeat.
"""

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class ImageNetClass:
    """One of the 1,000 classes of ILSVRC 2012.

    Attributes:
        index: Label, 0 to 999: the place of the wnid among the sorted wnids.
        wnid: WordNet 3.0 id; also the name of the class's folder.
        name: The synset's first lemma. Two names occur twice (crane, maillot), so it identifies no class.
        train_images: Images in the training set, 732 to 1300.
        kit_number: Class number in the development kit and its ground truth, 1 to 1000.
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
    """One of Caltech-256's 256 object classes, or its 257th folder, clutter.

    Attributes:
        name: Name as in the archive, such as "swiss-army-knife" or "brain-101" (a class shared with Caltech-101).
        images: Images in the folder, 80 to 827.
    """

    number: int
    name: str
    images: int

    @property
    def folder(self) -> str:
        """The archive's folder name, such as "133.lightning"."""
        return f"{self.number:03d}.{self.name}"


@dataclass(frozen=True, slots=True)
class Places365Class:
    """One of Places365's 365 categories.

    Attributes:
        category: Path in the dataset's own category list, such as "/a/apartment_building/outdoor".
    """

    index: int
    category: str

    @property
    def name(self) -> str:
        """The category without its letter, such as "apartment_building/outdoor"."""
        return self.category[3:]


@dataclass(frozen=True, slots=True)
class Sun397Class:
    """One of SUN397's 397 categories.

    Attributes:
        index: Label, 0 to 396: the place of the category among the sorted categories.
        category: Path in the dataset's own list of classes (ClassName.txt), such as "/a/apartment_building/outdoor".
        images: Images of the category, 100 to 2361.
    """

    index: int
    category: str
    images: int

    @property
    def name(self) -> str:
        """The category without its letter, such as "apartment_building/outdoor"."""
        return self.category[3:]


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

    Attributes:
        split: "cocomagenet" or "cocomagenet_mono".
        category: Name of the one COCO category that "cocomagenet_mono" has the image for; or "".
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

    Attributes:
        decision: Their letter: "i" for an image with an object of an ImageNet-1k class, "o" for one without; the few
            others ("u", "q", "b") are explained nowhere and say neither.
    """

    source: str
    source_id: str
    decision: str


def read_csv_rows(name: str) -> list[dict[str, str]]:
    """Read a CSV file of `taxonomy/data` as one dictionary per row."""
    text = (resources.files("taxonomy") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def imagenet1k() -> tuple[ImageNetClass, ...]:
    """Return ILSVRC 2012's 1,000 classes by index.

    The image counts come from a public listing by label number, taken to be the place in wnid order: plausible (the
    smallest classes are rare dog breeds), but the listing does not say so. The kit's numbers are those of
    `map_clsloc.txt` in later development kits; the first and last ground truths that people quote fit them.
    """
    return tuple(
        ImageNetClass(index, row["wnid"], row["name"], int(row["train_images"]), int(row["kit_number"]))
        for index, row in enumerate(read_csv_rows("imagenet1k.csv"))
    )


@functools.cache
def tiny_imagenet200() -> tuple[str, ...]:
    """Return the wnids of Tiny ImageNet's 200 classes, sorted; all are ILSVRC 2012 classes."""
    return tuple(row["wnid"] for row in read_csv_rows("tiny_imagenet200.csv"))


@functools.cache
def imagenet_tree() -> tuple[str, ...]:
    """Return the 21,841 wnids of the full ImageNet release, sorted.

    They hold all ILSVRC 2012 classes but n04399382, the teddy bear.
    """
    return tuple(row["wnid"] for row in read_csv_rows("imagenet_tree.csv"))


@functools.cache
def cifar100() -> tuple[Cifar100Class, ...]:
    """Return CIFAR-100's 100 classes by index, which is alphabetical."""
    return tuple(
        Cifar100Class(index, row["fine"], row["coarse"]) for index, row in enumerate(read_csv_rows("cifar100.csv"))
    )


@functools.cache
def cifar100_wnids() -> tuple[ClassSynset, ...]:
    """Return the synsets of the CIFAR-100 classes, 103 rows: table, plate and possum have two each."""
    return tuple(ClassSynset(**row) for row in read_csv_rows("cifar100_wnids.csv"))


@functools.cache
def food101() -> tuple[str, ...]:
    """Return Food-101's 101 class names in byte order, so that cheese_plate comes before cheesecake."""
    return tuple(row["name"] for row in read_csv_rows("food101.csv"))


@functools.cache
def dtd() -> tuple[str, ...]:
    """Return the 47 class names of Describable Textures in alphabetical order."""
    return tuple(row["name"] for row in read_csv_rows("dtd.csv"))


@functools.cache
def caltech256() -> tuple[Caltech256Class, ...]:
    """Return Caltech-256's 257 folders by number; the last is clutter, which is no object class.

    The image counts are those of two public listings of the archive, which agree file for file.
    """
    rows = ((row["folder"].split(".", 1), int(row["images"])) for row in read_csv_rows("caltech256.csv"))
    return tuple(Caltech256Class(int(number), name, images) for (number, name), images in rows)


@functools.cache
def places365() -> tuple[Places365Class, ...]:
    """Return Places365's 365 categories by index."""
    return tuple(Places365Class(index, row["category"]) for index, row in enumerate(read_csv_rows("places365.csv")))


@functools.cache
def places365_wnids() -> tuple[ClassSynset, ...]:
    """Return the synset of each Places365 category, 365 rows in the order of the categories."""
    return tuple(ClassSynset(**row) for row in read_csv_rows("places365_wnids.csv"))


@functools.cache
def sun397() -> tuple[Sun397Class, ...]:
    """Return SUN397's 397 categories by index, with the numbers of their images."""
    return tuple(
        Sun397Class(index, row["category"], int(row["images"]))
        for index, row in enumerate(read_csv_rows("sun397.csv"))
    )


@functools.cache
def coco80() -> tuple[CocoCategory, ...]:
    """Return COCO's 80 object categories by id."""
    return tuple(CocoCategory(int(row["id"]), row["name"]) for row in read_csv_rows("coco80.csv"))


@functools.cache
def cocomagenet_images() -> tuple[CocomagenetImage, ...]:
    """Return the 4,000 images of CoComageNet and its subset of single classes by id, 2,000 each.

    They are the two lists of the authors' repository (ServiceNow/broad, under the MIT licence of `BROAD-LICENSE.txt`),
    with COCO's categories instead of their ImageNet labels.
    """
    return tuple(
        CocomagenetImage(int(row["image_id"]), row["split"], row["category"])
        for row in read_csv_rows("broad_cocomagenet.csv")
    )


@functools.cache
def broken_images() -> tuple[BrokenImage, ...]:
    """Return the images that are known to be broken in their owners' archives."""
    return tuple(BrokenImage(**row) for row in read_csv_rows("broken_images.csv"))


@functools.cache
def inaturalist() -> Mapping[str, str]:
    """Return the species of each of the 10,000 images of the iNaturalist subset, by file name, sorted.

    From NINCO's table of labels (data/NINCO-LICENSE.txt); all 110 species are plants.
    """
    return {row["image"]: row["species"] for row in read_csv_rows("inaturalist.csv")}


@functools.cache
def examined_images() -> tuple[ExaminedImage, ...]:
    """Return what the authors of NINCO saw on 400 images each of three out-of-distribution sets.

    From their annotations (data/NINCO-LICENSE.txt).
    """
    return tuple(ExaminedImage(**row) for row in read_csv_rows("examined_images.csv"))


@functools.cache
def overrides() -> tuple[Override, ...]:
    """Return the decisions that are set by hand."""
    return tuple(Override(**row) for row in read_csv_rows("overrides.csv"))
