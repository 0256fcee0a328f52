"""ImageNet-1k: the training and validation images of ILSVRC 2012."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import ilsvrc_devkit
from builders.sources.base import Expected, Licence, PartitionIndex, PixelSizes, Source, Stray
from builders.sources.formats.tar_headers import File
from builders.sources.imagenet_names import TITLE, classes, images, with_classes
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet, parquet_files, tars, trees
from builders.sources.readers.folders import child_names, escape_name, relative
from builders.sources.readers.layouts import Search, alike
from builders.sources.readers.patterns import MatchedFiles, match, match_names
from taxonomy import tables

# Names of splits in mirrors, in the order in which they are tried. mrm8488/ImageNet1K-val calls its only split, which
# holds validation images, train.
_SPLITS = {"train": ("train",), "val": ("validation", "val", "train")}
_FOLDERS = {"train": ("train", "ILSVRC2012_img_train"), "val": ("val", "validation", "ILSVRC2012_img_val")}
_CLASS_TAR = re.compile(r"n\d{8}\.tar", re.ASCII)

# Sizes and SHA-256 are those of tensorflow/datasets (url_checksums/imagenet2012.txt), MD5 those that torchvision
# (datasets/imagenet.py) checks. Of the development kit the MD5 alone is published.
_PUBLISHED = {
    "train": OwnerFile(
        "ILSVRC2012_img_train.tar",
        147_897_477_120,
        md5="1d675b47d978889d74fa0da5fadfb00e",
        sha256="b08200a27a8e34218a0e58fde36b0fe8f73bc377f4acea2d91602057c3ca45bb",
    ),
    "val": OwnerFile(
        "ILSVRC2012_img_val.tar",
        6_744_924_160,
        md5="29b22e2961454d5413ddabcf34fc5622",
        sha256="c7e06a6c0baccf06d8dbeb6577d71efff84673a5dbdd50633ab44f8ea0456ae0",
    ),
}
_KIT = OwnerFile("ILSVRC2012_devkit_t12.tar.gz", 0, md5="fa75699e90414af021442c21a62c3abf")


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the sizes of the complete partitions."""
    train = {row.wnid: row.train_images for row in tables.imagenet1k()}
    return {
        "train": Expected(sum(train.values()), train),
        "val": Expected(50 * len(train), dict.fromkeys(train, 50)),
    }


def _places(partition: str, home: Path) -> Iterator[Path]:
    return (home / name for name in _FOLDERS[partition] if (home / name).is_dir())


def _class_folders(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    pieces = (images(partition).below(root, place) for place in _places(partition, home))
    return next((piece for piece in pieces if piece is not None), None)


def _flat(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    for place in _places(partition, home):
        files = images(partition, bare=True).pattern.in_folders(root, place, description="flat")
        if files.rows.num_rows:
            return _with_classes(partition, home, files, f"flat {relative(place, root)}")
    return None


def _with_classes(partition: str, home: Path, files: MatchedFiles, layout: str) -> PartitionIndex:
    """Index images that are in no class folders."""
    files, truth = with_classes(files, home)
    return dataclasses.replace(images(partition, bare=True).index(files), layout=f"{layout} with {truth}")


def _train_tar(root: Path, home: Path) -> PartitionIndex | None:
    path = home / _PUBLISHED["train"].name
    if not path.is_file():
        return None
    return _class_tars(root, path, f"original archive {relative(path, root)}", tars.nested_members(path))


def _folder_of_tars(root: Path, home: Path) -> PartitionIndex | None:
    """Index the unpacked archive: a tar for each class, read in place."""
    for place in _places("train", home):
        names = child_names(place)
        if any(map(_CLASS_TAR.fullmatch, names)):
            inner = ((name, tars.members(place / name) if _CLASS_TAR.fullmatch(name) else []) for name in names)
            return _class_tars(root, place, f"class archives in {relative(place, root)}", inner)
    return None


def _class_tars(root: Path, place: Path, layout: str, inner: Iterable[tuple[str, list[File]]]) -> PartitionIndex:
    """Index tars that hold one class each, given by name and files, in a folder or archive."""
    others: list[str] = []

    def of_classes() -> Iterator[tuple[str, Path, list[File]]]:
        for name, members in inner:
            if _CLASS_TAR.fullmatch(name) and name.removesuffix(".tar") in classes():
                yield name.removesuffix(".tar"), place / name if place.is_dir() else place, members
            else:
                others.append(name)

    tree = trees.in_tars(root, place, of_classes())
    if not tree.rows.num_rows:
        raise BuildError(f"{TITLE}: {place} has no tar of a class. Give an ILSVRC2012 copy with --imagenet.")
    piece = images("train").index(match(tree, images("train").pattern.pattern))
    strays = (Stray(tree.prefix + escape_name(name), "not a tar of one class") for name in others)
    return dataclasses.replace(piece, layout=layout, strays=(*piece.strays, *strays))


def _val_tar(root: Path, home: Path) -> PartitionIndex | None:
    files = images("val", bare=True).pattern.in_archive(root, home, "ILSVRC2012_img_val")
    layout = f"original archive {relative(files.tree.place, root)}" if files else ""
    return None if files is None else _with_classes("val", home, files, layout)


def _parquet(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    """Index a mirror, in which the class is given twice, by label and by name; both must agree."""
    reader = images(partition, bare=True)
    for split in _SPLITS[partition]:
        files = parquet_files.split_files(home, split)
        if not files or (partition == "val" and split == "train" and not _holds_validation(files[0])):
            continue
        labels: list[pa.Array] = []

        def names(path: Path, labels: list[pa.Array] = labels) -> pa.Array:
            shard = parquet.read_shard(TITLE, path, advice=reader.pattern.advice)
            labels.append(shard.labels)
            return shard.names

        matched_files = reader.pattern.in_parquet(root, home, (split,), names)
        assert matched_files is not None
        matched_files, _ = with_classes(matched_files, home)
        piece = reader.index(matched_files)
        codes = pc.cast(piece.table["class_id"].combine_chunks().indices, pa.int64())
        wrong = pc.fill_null(pc.not_equal(codes, pa.concat_arrays(labels)), True)
        problem = "has a label that is not the position of its class in the sorted wnids"
        reader.pattern.refuse_row(matched_files.tree, matched_files.rows.filter(wrong), problem)
        renamed = ", which hold validation images" if split == "train" and partition == "val" else ""
        return dataclasses.replace(piece, layout=f"Parquet files {parquet_files.pattern(files, root)}{renamed}")
    return None


def _holds_validation(path: Path) -> bool:
    """Whether a file holds validation images, judged by its first row."""
    pattern = images("val", bare=True).pattern
    first = parquet.read_shard(TITLE, path, advice=pattern.advice).names[:1]
    return bool(match_names(first, pattern.pattern)[0].true_count)


IMAGENET = Source(
    key="imagenet",
    title=TITLE,
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
        files=(*_PUBLISHED.values(), _KIT),
        mirror=Mirror(
            "hf://datasets/ILSVRC/imagenet-1k",
            {partition: tuple((split,) for split in splits) for partition, splits in _SPLITS.items()},
            gated=True,
        ),
    ),
    classes=classes,
    expected=expected,
    search=Search(
        (
            *alike(
                ("train",),
                ("train/<wnid>/<wnid>_<number>.JPEG (or ILSVRC2012_img_train/)", _class_folders),
                ("the same in one folder, train/<wnid>_<number>.JPEG", _flat),
                ("the archives of the classes, train/<wnid>.tar", lambda _, root, home: _folder_of_tars(root, home)),
                ("the original archive ILSVRC2012_img_train.tar", lambda _, root, home: _train_tar(root, home)),
                ("the Hub's data/train-*.parquet", _parquet),
            ),
            *alike(
                ("val",),
                ("val/<wnid>/ILSVRC2012_val_<8 digits>.JPEG (or validation/, ILSVRC2012_img_val/)", _class_folders),
                (
                    "val/ILSVRC2012_val_<8 digits>_<wnid>.JPEG, or without the class in the name and with one of "
                    f"{', '.join(ilsvrc_devkit.ACCEPTED)}",
                    _flat,
                ),
                (
                    "the original archive ILSVRC2012_img_val.tar with one of the same",
                    lambda _, root, home: _val_tar(root, home),
                ),
                ("the Hub's data/validation-*.parquet", _parquet),
            ),
        )
    ),
    pixel_sizes=PixelSizes(),
)
