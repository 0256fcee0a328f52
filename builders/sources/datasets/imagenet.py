"""ImageNet-1k: the training and validation images of ILSVRC 2012.

Tested by `tests/builders/sources/datasets/test_imagenet.py` and `tests/builders/sources/test_lists.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, one_line
from builders.sources.base import CopyLayout, Expected, Home, Licence, PartitionIndex, Source, Stray
from builders.sources.formats.tar_headers import File
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet, parquet_files, tars
from builders.sources.readers.folders import child_names, escape_name, relative, with_folders_above
from builders.sources.readers.patterns import ClassFolders
from builders.sources.readers.trees import Tree, match_names
from builders.storage.files import read_regular
from builders.storage.text_files import read_csv
from taxonomy import tables

_KEY = "imagenet"
_TITLE = "ImageNet-1k (ILSVRC2012)"
_NAME_FORMS = {"train": "<wnid>_<number>.JPEG", "val": "ILSVRC2012_val_<8 digits>.JPEG"}

# The Hub's old archives, the converters that read them and the Hub's Parquet files add the wnid to each name. It is
# accepted before the ending everywhere, and is not part of an image's id.
_SUFFIX = r"(?:_(?P<{}>n[0-9]{{8}}))?\.JPEG"
_TRAIN, _VAL = r"(?P<image>(?P<class_id>n[0-9]{8})_[0-9]+)", r"(?P<image>ILSVRC2012_val_[0-9]{8})"
_IN_FOLDERS = {
    "train": "(?P<class_id_again2>n[0-9]{8})/" + _TRAIN + _SUFFIX.format("class_id_again"),
    "val": "(?P<class_id>n[0-9]{8})/" + _VAL + _SUFFIX.format("class_id_again"),
}
_BARE = {
    "train": "(?:.*/)?" + _TRAIN + _SUFFIX.format("class_id_again"),
    "val": "(?:.*/)?" + _VAL + _SUFFIX.format("class_id"),
}
_ADVICE = "Take the files that the Hub serves for that partition of ILSVRC/imagenet-1k, or the original archives"

# Names of splits in mirrors, in the order in which they are tried. mrm8488/ImageNet1K-val calls its only split, which
# holds validation images, train.
_SPLITS = {"train": ("train",), "val": ("validation", "val", "train")}
_FOLDERS = {"train": ("train", "ILSVRC2012_img_train"), "val": ("val", "validation", "ILSVRC2012_img_val")}
_CLASS_TAR = re.compile(r"n\d{8}\.tar", re.ASCII)

# Sizes and SHA-256 are those of tensorflow/datasets (url_checksums/imagenet2012.txt), MD5 those that torchvision
# (datasets/imagenet.py) checks. Of the development kit the MD5 alone is published.
_FILES = (
    OwnerFile(
        "ILSVRC2012_img_train.tar",
        147_897_477_120,
        md5="1d675b47d978889d74fa0da5fadfb00e",
        sha256="b08200a27a8e34218a0e58fde36b0fe8f73bc377f4acea2d91602057c3ca45bb",
    ),
    OwnerFile(
        "ILSVRC2012_img_val.tar",
        6_744_924_160,
        md5="29b22e2961454d5413ddabcf34fc5622",
        sha256="c7e06a6c0baccf06d8dbeb6577d71efff84673a5dbdd50633ab44f8ea0456ae0",
    ),
    OwnerFile("ILSVRC2012_devkit_t12.tar.gz", 0, md5="fa75699e90414af021442c21a62c3abf"),
)

# Where the classes of flat validation images may stand, in the order in which they are looked for: in the development
# kit, in its archive, or in Kaggle's table.
_KIT = "ILSVRC2012_devkit_t12"
_KIT_LABELS = "data/ILSVRC2012_validation_ground_truth.txt"
_KAGGLE = "LOC_val_solution.csv"
_TRUTHS = (f"{_KIT}/", f"{_KIT}.tar.gz", _KAGGLE)
_IMAGE_ID = re.compile(r"ILSVRC2012_val_(\d{8})", re.ASCII)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the class names by wnid, in label order."""
    return {row.wnid: row.name for row in tables.imagenet1k()}


@functools.cache
def class_indices() -> Mapping[str, int]:
    """Return the index of every class by wnid, in the order of models' outputs."""
    return {row.wnid: row.index for row in tables.imagenet1k()}


@functools.cache
def _images(partition: str, *, bare: bool = False) -> ClassFolders:
    """Return the names of a partition's images, in class folders or, if `bare`, by themselves."""
    return ClassFolders(
        (_BARE if bare else _IN_FOLDERS)[partition],
        _NAME_FORMS[partition],
        _ADVICE,
        file_form=_NAME_FORMS[partition].replace("<wnid>", "{}"),
        prefix={"train": "train/{}/".format, "val": lambda _: "val/"}[partition],
        ending=".JPEG",
    )


def _places(home: Home) -> Iterator[Path]:
    places = (home.folder / name for name in _FOLDERS[home.partition])
    return (place for place in places if place.is_dir())


def _class_folders(home: Home) -> PartitionIndex | None:
    places = (home.folder / name for name in _FOLDERS[home.partition])
    return next(filter(None, (_images(home.partition).below(home, place) for place in places)), None)


def _flat(home: Home) -> PartitionIndex | None:
    for place in _places(home):
        tree = _images(home.partition, bare=True).in_folders(home, place, description="flat")
        if tree.rows.num_rows:
            return _without_folders(tree, f"flat {relative(place, home.root)}")
    return None


def _val_tar(home: Home) -> PartitionIndex | None:
    tree = _images("val", bare=True).in_archive(home, "ILSVRC2012_img_val")
    return None if tree is None else _without_folders(tree, f"original {tree.description}")


def _without_folders(tree: Tree, layout: str) -> PartitionIndex:
    """Index images that are in no class folders."""
    tree, truth = _with_classes(tree)
    found = _images(tree.home.partition, bare=True).indexed(tree)
    return dataclasses.replace(found, layout=f"{layout} with {truth}")


def _train_tar(home: Home) -> PartitionIndex | None:
    path = home.folder / _FILES[0].name
    if not path.is_file():
        return None
    return _class_tars(home, path, f"original archive {relative(path, home.root)}", tars.nested_members(path))


def _folder_of_tars(home: Home) -> PartitionIndex | None:
    """Index the unpacked archive: a tar for each class, read in place."""
    for place in _places(home):
        names = child_names(place)
        if any(map(_CLASS_TAR.fullmatch, names)):
            inner = ((name, tars.members(place / name) if _CLASS_TAR.fullmatch(name) else []) for name in names)
            return _class_tars(home, place, f"class archives in {relative(place, home.root)}", inner)
    return None


def _class_tars(home: Home, place: Path, layout: str, inner: Iterable[tuple[str, list[File]]]) -> PartitionIndex:
    """Index tars that hold one class each, given by name and files, in a folder or archive."""
    others: list[str] = []

    def of_classes() -> Iterator[tuple[str, Path, list[File]]]:
        for name, members in inner:
            if _CLASS_TAR.fullmatch(name) and name.removesuffix(".tar") in classes():
                yield name.removesuffix(".tar"), place / name if place.is_dir() else place, members
            else:
                others.append(name)

    tree = _images("train").in_tars(home, place, of_classes())
    if not tree.rows.num_rows and not tree.others:
        raise BuildError(f"{_TITLE}: {place} has no tar of a class. Give an ILSVRC2012 copy with --{_KEY}.")
    found = _images("train").indexed(tree)
    strays = (Stray(tree.prefix + escape_name(name), "not a tar of one class") for name in others)
    return dataclasses.replace(found, layout=layout, strays=(*found.strays, *strays))


def _parquet(home: Home) -> PartitionIndex | None:
    """Index a mirror, in which the class is given twice, by label and by name; both must agree."""
    names = _images(home.partition, bare=True)
    for split in _SPLITS[home.partition]:
        files = parquet_files.split_files(home.folder, split)
        of_train = home.partition == "val" and split == "train"
        if not files or (of_train and not _holds_validation(files[0])):
            continue
        tree = names.in_parquet(home, (split,))
        if tree is None:
            continue
        tree, _ = _with_classes(tree)
        known = pc.is_in(tree.column("class_id"), value_set=pa.array(list(classes())))
        names.refuse_row(tree, pc.invert(known), "names none of the 1,000 classes")
        found = names.indexed(tree)
        codes = pc.cast(found.table["class_id"].combine_chunks().indices, pa.int64())
        wrong = pc.fill_null(pc.not_equal(codes, tree.column("label")), True)
        names.refuse_row(tree, wrong, "has a label that is not the position of its class in the sorted wnids")
        renamed = ", which hold validation images" if of_train else ""
        layout = f"Parquet files {parquet_files.pattern(files, home.root)}{renamed}"
        return dataclasses.replace(found, layout=layout)
    return None


def _holds_validation(path: Path) -> bool:
    """Whether a file holds validation images, judged by its first row."""
    first = parquet.read_shard(_TITLE, path, advice=_ADVICE).names[:1]
    return bool(match_names(first, _BARE["val"])[0].true_count)


def _with_classes(tree: Tree) -> tuple[Tree, str]:
    """Fill in the classes of validation images whose names have none, from the ground truth in or above a folder.

    Returns the images with a class each, and the origin of the classes in words.

    Raises:
        BuildError: there is no ground truth, or none of an image.
    """
    wnids, folder = tree.column("class_id"), tree.home.folder
    bare = pc.equal(wnids, "")
    if not pc.any(bare).as_py():
        return tree, "the class in each name"
    names = tree.column("image").filter(bare)
    truth = ground_truth(folder)
    if truth is None:
        raise BuildError(
            f"{_TITLE}: the classes of the flat validation images in {tree.place} are unknown: neither "
            f"{' nor '.join(_TRUTHS)} is in {folder} or the three folders above it. Put one of them there."
        )
    of_numbers, place, origin = truth
    numbers = pc.cast(pc.utf8_slice_codeunits(names, len("ILSVRC2012_val_")), pa.int64())
    lines = pc.index_in(numbers, pa.array(of_numbers, pa.int64()))
    if lines.null_count:
        raise BuildError(
            f"{_TITLE}: {place} has {len(of_numbers):,} lines and none for "
            f"{names.filter(pc.is_null(lines))[0]}.JPEG. Take the ground truth of the 2012 edition."
        )
    found = pa.array(of_numbers.values(), pa.string()).take(lines)
    return tree.with_columns(class_id=pc.replace_with_mask(wnids, bare, found)), origin


def ground_truth(home: Path) -> tuple[Mapping[int, str], Path, str] | None:
    """Find the classes of the validation images in a folder or the three above it; None if they have no list.

    Returns the wnids by the images' numbers, the file that they were read from, and its kind in words.
    """
    for folder in with_folders_above(home):
        kit, packed, kaggle = folder / _KIT / _KIT_LABELS, folder / f"{_KIT}.tar.gz", folder / _KAGGLE
        if kit.is_file():
            return _of_kit(read_regular(kit), kit), kit, "the development kit"
        if packed.is_file():
            inside = PurePosixPath(_KIT, _KIT_LABELS)
            files = tars.read_files(packed, [inside])
            if not files:
                raise BuildError(f"{packed} lacks {inside} as a regular file. Download it again.")
            return _of_kit(files[inside], packed), packed, "the development kit"
        if kaggle.is_file():
            return _of_kaggle(kaggle), kaggle, _KAGGLE
    return None


def _of_kit(labels: bytes, place: Path) -> Mapping[int, str]:
    wnid_of = {str(row.kit_number): row.wnid for row in tables.imagenet1k()}
    lines = labels.decode("utf-8-sig", "replace").split()
    wrong = next((line for line in lines if line not in wnid_of), None)
    if wrong is not None:
        raise BuildError(
            f"{one_line(wrong)} in {place} is not a class number of ILSVRC2012. Take the ground truth of the 2012 "
            "edition."
        )
    return {number: wnid_of[line] for number, line in enumerate(lines, start=1)}


def _of_kaggle(path: Path) -> Mapping[int, str]:
    advice = "Take the table that Kaggle serves with the competition."
    wnids: dict[int, str] = {}
    for line, row in read_csv(path, ("ImageId", "PredictionString"), advice):
        image, boxes = _IMAGE_ID.fullmatch(row["ImageId"]), row["PredictionString"].split(maxsplit=1)
        if image is None or not boxes or not tables.is_wnid(boxes[0]):
            raise BuildError(
                f"Line {line} of {path} does not give an image such as ILSVRC2012_val_00000001 and its class such as "
                f"n01440764. {advice}"
            )
        if wnids.setdefault(int(image[1]), boxes[0]) != boxes[0]:
            raise BuildError(f"Line {line} of {path} gives {image[0]} a second class. {advice}")
    return wnids


def _expected() -> Mapping[str, Expected]:
    train = {row.wnid: row.train_images for row in tables.imagenet1k()}
    return {"train": Expected.of(train), "val": Expected.each(train, 50)}


IMAGENET = Source(
    key=_KEY,
    title=_TITLE,
    edition="ILSVRC2012, classification",
    licence=Licence(
        name="ImageNet terms of access",
        url="https://www.image-net.org/download.php",
        statement=(
            "Use only for non-commercial research and educational purposes, after agreeing to the terms; colleagues "
            "may be given access if they agree first. ImageNet does not own the copyright of the images."
        ),
        publish="ids-only",
    ),
    citation="""@article{russakovsky2015imagenet,
  title = {{ImageNet} Large Scale Visual Recognition Challenge},
  author = {Russakovsky, Olga and Deng, Jia and Su, Hao and Krause, Jonathan and Satheesh, Sanjeev and Ma, Sean and
            Huang, Zhiheng and Karpathy, Andrej and Khosla, Aditya and Bernstein, Michael and Berg, Alexander C. and
            Fei-Fei, Li},
  journal = {International Journal of Computer Vision},
  volume = {115},
  number = {3},
  pages = {211--252},
  year = {2015},
  doi = {10.1007/s11263-015-0816-y}
}""",
    obtain=Obtain(
        "https://www.image-net.org/download.php",
        "agree to the terms of access, then download ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and "
        "ILSVRC2012_devkit_t12.tar.gz",
        files=_FILES,
        mirror=Mirror(
            "hf://datasets/ILSVRC/imagenet-1k",
            {partition: tuple((split,) for split in splits) for partition, splits in _SPLITS.items()},
            gated=True,
        ),
    ),
    classes=classes,
    expected=_expected,
    accepted=(
        CopyLayout("train/<wnid>/<wnid>_<number>.JPEG (or ILSVRC2012_img_train/)", _class_folders, ("train",)),
        CopyLayout("the same in one folder, train/<wnid>_<number>.JPEG", _flat, ("train",)),
        CopyLayout("the archives of the classes, train/<wnid>.tar", _folder_of_tars, ("train",)),
        CopyLayout("the original archive ILSVRC2012_img_train.tar", _train_tar, ("train",)),
        CopyLayout("the Hub's data/train-*.parquet", _parquet, ("train",)),
        CopyLayout(
            "val/<wnid>/ILSVRC2012_val_<8 digits>.JPEG (or validation/, ILSVRC2012_img_val/)", _class_folders, ("val",)
        ),
        CopyLayout(
            "val/ILSVRC2012_val_<8 digits>_<wnid>.JPEG, or without the class in the name and with one of "
            f"{', '.join(_TRUTHS)}",
            _flat,
            ("val",),
        ),
        CopyLayout("the original archive ILSVRC2012_img_val.tar with one of the same", _val_tar, ("val",)),
        CopyLayout("the Hub's data/validation-*.parquet", _parquet, ("val",)),
    ),
    shared_sides=(),
)
