"""ImageNet-1k: the training and validation images of ILSVRC 2012."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import ilsvrc_devkit
from builders.sources.base import Expected, Licence, OtherDataError, PartitionIndex, PixelSizes, Source, Stray
from builders.sources.formats.tar_headers import File
from builders.sources.imagenet_names import (
    BLURRED,
    CLASS_TAR,
    FLAG,
    PLACES,
    TITLE,
    WNID,
    classes,
    images,
    is_image_name,
    refuse_unknown_wnids,
    with_classes,
)
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet, parquet_files, tars, trees
from builders.sources.readers.folders import child_names, escape_name, relative
from builders.sources.readers.layouts import CopyLayout, Search
from builders.sources.readers.patterns import MatchedFiles, match
from taxonomy import tables

# Names of splits in mirrors, in the order in which they are tried. mrm8488/ImageNet1K-val calls its only split, which
# holds validation images, train.
_SPLITS = {"train": ("train",), "val": ("validation", "val", "train")}

_DOWNSAMPLED = (8, 16, 32, 64)
# The edition with blurred faces (Yang et al., "A Study of Face Obfuscation in ImageNet", ICML 2022).
_BLURRED = {"train": "train_blurred", "val": "val_blurred"}

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


def _class_folders(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    for name in PLACES[partition]:
        folder = home / name
        wnids = [name for name in _listed(folder) if WNID.fullmatch(name)]
        if wnids:
            refuse_unknown_wnids(wnids, folder)
            return images(partition).in_folders(root, folder, wnids)
    if (home / _BLURRED[partition]).is_dir():
        raise OtherDataError(
            f"{TITLE}: {home / _BLURRED[partition]} is of {BLURRED}. Give a copy with the original images with "
            "--imagenet."
        )
    return None


def _listed(folder: Path) -> list[str]:
    return child_names(folder) if folder.is_dir() else []


def _flat(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    for folder in (home / name for name in PLACES[partition]):
        if not folder.is_dir():
            continue
        files = images(partition, bare=True).pattern.in_folders(root, folder, description="flat")
        for name in files.other_names:
            images(partition).pattern.refuse(name, str(folder))
        if files.rows.num_rows:
            return _with_classes(partition, home, files, f"flat {relative(folder, root)}")
    return None


def _with_classes(partition: str, home: Path, files: MatchedFiles, layout: str, hint: str = "") -> PartitionIndex:
    """Index images that are in no class folders."""
    files, truth = with_classes(files, home)
    return dataclasses.replace(images(partition, bare=True).index(files), layout=f"{layout} with {truth}", hint=hint)


def _train_tar(root: Path, home: Path) -> PartitionIndex | None:
    path = home / "ILSVRC2012_img_train.tar"
    if not path.is_file():
        return None
    hint = _PUBLISHED["train"].difference(path)
    return _class_tars(root, path, f"original archive {relative(path, root)}", tars.nested_members(path), hint)


def _folder_of_tars(root: Path, home: Path) -> PartitionIndex | None:
    """Index the unpacked archive: a tar for each class, read in place."""
    for folder in (home / name for name in PLACES["train"]):
        listed = _listed(folder)
        if any(CLASS_TAR.fullmatch(name) for name in listed):
            inner = ((name, tars.members(folder / name) if CLASS_TAR.fullmatch(name) else []) for name in listed)
            return _class_tars(root, folder, f"class archives in {relative(folder, root)}", inner)
    return None


def _class_tars(
    root: Path, place: Path, layout: str, inner: Iterable[tuple[str, list[File]]], hint: str = ""
) -> PartitionIndex:
    """Index tars that hold one class each.

    Args:
        root: the user's folder.
        place: the folder or archive that holds the tars.
        layout: the layout's name.
        inner: each tar's name and members.
        hint: see `PartitionIndex`.
    """
    packed: list[str] = []
    other_names: list[str] = []

    def of_classes() -> Iterator[tuple[str, Path, list[File]]]:
        for name, members in inner:
            if CLASS_TAR.fullmatch(name):
                refuse_unknown_wnids([name.removesuffix(".tar")], place)
                packed.append(name)
                yield name, place / name if place.is_dir() else place, members
            else:
                other_names.append(name)

    tree = trees.in_tars(root, place, of_classes())
    if not packed:
        raise BuildError(f"{TITLE}: {place} has no tar of a class. {FLAG}.")
    reader = images("train")
    piece = reader.index(match(tree, reader.pattern.pattern))
    strays = (Stray(tree.prefix + escape_name(name), "not a tar of one class") for name in other_names)
    return dataclasses.replace(piece, layout=layout, strays=(*piece.strays, *strays), hint=hint)


def _val_tar(root: Path, home: Path) -> PartitionIndex | None:
    files = images("val", bare=True).pattern.in_archive(root, home, "ILSVRC2012_img_val")
    if files is None:
        return None
    path = files.tree.place
    return _with_classes(
        "val", home, files, f"original archive {relative(path, root)}", _PUBLISHED["val"].difference(path)
    )


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
    names = parquet.read_shard(TITLE, path, advice=images("val").pattern.advice).names
    return len(names) > 0 and is_image_name("val", names[0].as_py().rpartition("/")[2])


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
            CopyLayout(
                "train",
                "train/<wnid>/<wnid>_<number>.JPEG (or ILSVRC2012_img_train/)",
                functools.partial(_class_folders, "train"),
            ),
            CopyLayout(
                "train", "the same in one folder, train/<wnid>_<number>.JPEG", functools.partial(_flat, "train")
            ),
            CopyLayout("train", "the archives of the classes, train/<wnid>.tar", _folder_of_tars),
            CopyLayout("train", "the original archive ILSVRC2012_img_train.tar", _train_tar),
            CopyLayout("train", "the Hub's data/train-*.parquet", functools.partial(_parquet, "train")),
            CopyLayout(
                "val",
                "val/<wnid>/ILSVRC2012_val_<8 digits>.JPEG (or validation/, ILSVRC2012_img_val/)",
                functools.partial(_class_folders, "val"),
            ),
            CopyLayout(
                "val",
                "val/ILSVRC2012_val_<8 digits>_<wnid>.JPEG, or without the class in the name and with one of "
                f"{', '.join(ilsvrc_devkit.ACCEPTED)}",
                functools.partial(_flat, "val"),
            ),
            CopyLayout("val", "the original archive ILSVRC2012_img_val.tar with one of the same", _val_tar),
            CopyLayout("val", "the Hub's data/validation-*.parquet", functools.partial(_parquet, "val")),
        )
    ),
    pixel_sizes=PixelSizes(
        editions={
            (n, n): f"ImageNet resized to {n} x {n} (Chrabaszcz, Loshchilov and Hutter, 2017)" for n in _DOWNSAMPLED
        }
    ),
)
