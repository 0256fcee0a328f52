"""ImageNet-1k: the training and validation images of ILSVRC 2012."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import ilsvrc_devkit
from builders.sources.base import (
    Expected,
    Licence,
    OtherDataError,
    PartitionIndex,
    PixelSizes,
    Source,
    Stray,
    partition_table,
)
from builders.sources.imagenet_names import (
    BLURRED,
    CLASS_TAR,
    FLAG,
    NAMES,
    PATTERNS,
    PLACES,
    TITLE,
    WANTED,
    WNID,
    class_folder,
    classes,
    classes_and_ids,
    explain,
    refuse_other_edition,
    refuse_unknown,
)
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet, parquet_files, tars
from builders.sources.readers.folders import (
    child_names,
    class_codes,
    class_column,
    joined,
    match_names,
    plain_reason,
    printable,
    refuse_strays_alone,
    relative,
    scan_class_folders,
    stray_children,
    with_ending,
)
from builders.sources.readers.layouts import Layout, Search
from taxonomy import tables

# Names of splits in mirrors, in the order in which they are tried. mrm8488/ImageNet1K-val calls its only split, which
# holds validation images, train.
_SPLITS = {"train": ("train",), "val": ("validation", "val", "train")}

_DOWNSAMPLED = (8, 16, 32, 64)
# The edition with blurred faces (Yang et al., "A Study of Face Obfuscation in ImageNet", ICML 2022).
_BLURRED = {"train": "train_blurred", "val": "val_blurred"}

_PARQUET_ADVICE = (
    "Take the files that the Hub serves for that partition of ILSVRC/imagenet-1k, or the original archives"
)

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
            refuse_unknown(wnids, folder)
            table, strays = scan_class_folders(
                TITLE,
                root,
                [class_folder(partition, wnid, folder / wnid) for wnid in wnids],
                tuple(classes()),
                functools.partial(explain, partition),
            )
            strays += stray_children(folder, root, wnids, "a class folder")
            return PartitionIndex(
                partition, f"class folders in {relative(folder, root)}", "file", table, tuple(strays)
            )
    if (home / _BLURRED[partition]).is_dir():
        raise OtherDataError(
            f"{TITLE}: {home / _BLURRED[partition]} is of {BLURRED}. Give a copy with the original images with "
            "--imagenet."
        )
    return None


def _listed(folder: Path) -> list[str]:
    return child_names(folder) if folder.is_dir() else []


def _flat(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    for name in PLACES[partition]:
        folder = home / name
        names = match_names(_listed(folder), f"^{PATTERNS[partition]}")
        for other in names.others:
            refuse_other_edition(other, folder)
        if len(names.images):
            column, ids, truth = classes_and_ids(partition, names.images, home, folder)
            place = relative(folder, root) + "/"
            strays = tuple(
                Stray(place + printable(name), plain_reason(folder, name, WANTED[partition])) for name in names.others
            )
            table = partition_table(column, ids, joined(place, names.images))
            return PartitionIndex(partition, f"flat {relative(folder, root)} with {truth}", "file", table, strays)
    return None


def _train_tar(root: Path, home: Path) -> PartitionIndex | None:
    path = home / "ILSVRC2012_img_train.tar"
    if not path.is_file():
        return None
    inner = ((path / f"{wnid}.tar", path, wnid, members) for wnid, members in tars.nested_members(path))
    layout = f"original archive {relative(path, root)}"
    return _class_tars(root, path, layout, inner, _PUBLISHED["train"].difference(path))


def _folder_of_tars(root: Path, home: Path) -> PartitionIndex | None:
    """Index the unpacked archive: a tar for each class, read in place."""
    for name in PLACES["train"]:
        folder = home / name
        listed = _listed(folder)
        if any(CLASS_TAR.fullmatch(name) for name in listed):
            inner = ((folder / name, folder / name, *_members(folder, name)) for name in listed)
            return _class_tars(root, folder, f"class archives in {relative(folder, root)}", inner)
    return None


def _members(folder: Path, name: str) -> tuple[str, list[tars.Member]]:
    return (name.removesuffix(".tar"), tars.members(folder / name)) if CLASS_TAR.fullmatch(name) else (name, [])


def _class_tars(
    root: Path, place: Path, layout: str, inner: Iterable[tuple[Path, Path, str, list[tars.Member]]], hint: str = ""
) -> PartitionIndex:
    """Index tars that hold one class each.

    Args:
        root: the user's folder.
        place: the folder or archive that holds the tars.
        layout: the layout's name.
        inner: for each tar, the path to print, the file with its bytes, its class and its members.
        hint: see `PartitionIndex`.
    """
    code_of = class_codes(tuple(classes()))
    ids, files, offsets, sizes, codes, counts = [], [], [], [], [], []
    strays: list[Stray] = []
    for shown_path, file, wnid, members in inner:
        if not WNID.fullmatch(wnid):
            name = relative(place, root) + ("/" if place.is_dir() else ":") + printable(wnid)
            strays.append(Stray(name, "not a tar of one class"))
            continue
        refuse_unknown([wnid], place)
        folder = class_folder("train", wnid, shown_path)
        found = tars.match_members(members, folder.pattern)
        strays += [
            Stray(f"{relative(shown_path, root)}:{printable(n)}", explain("train", folder, n)) for n in found.others
        ]
        if found.others and not len(found.names):
            refuse_strays_alone(TITLE, folder, found.others, functools.partial(explain, "train"))
        assert folder.ending is not None
        ids.append(joined(folder.prefix, with_ending(found.names, folder.ending)))
        files.append(pa.repeat(relative(file, root), len(found.names)))
        offsets.append(found.offsets)
        sizes.append(found.sizes)
        codes.append(code_of[wnid])
        counts.append(len(found.names))
    if not ids:
        raise BuildError(f"{TITLE}: {place} has no tar of a class. {FLAG}.")
    table = partition_table(
        class_column(tuple(classes()), np.repeat(np.array(codes, np.int32), counts)),
        *(pa.concat_arrays(column) for column in (ids, files, offsets, sizes)),
    )
    return PartitionIndex("train", layout, "span", table, tuple(strays), hint=hint)


def _val_tar(root: Path, home: Path) -> PartitionIndex | None:
    path = home / "ILSVRC2012_img_val.tar"
    if not path.is_file():
        return None
    found = tars.match_members(tars.members(path), f"^{PATTERNS['val']}")
    for name in found.others:
        refuse_other_edition(name, path)
    if not len(found.names):
        raise BuildError(f"{TITLE}: {path} has no images named {WANTED['val']}. {FLAG}.")
    column, ids, truth = classes_and_ids("val", found.names, home, path)
    place = relative(path, root)
    table = partition_table(column, ids, pa.repeat(place, len(found.names)), found.offsets, found.sizes)
    strays = tuple(Stray(f"{place}:{printable(name)}", f"not named {WANTED['val']}") for name in found.others)
    layout = f"original archive {place} with {truth}"
    return PartitionIndex("val", layout, "span", table, strays, hint=_PUBLISHED["val"].difference(path))


def _parquet(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    for split in _SPLITS[partition]:
        files = parquet_files.split_files(home, split)
        if not files or (partition == "val" and split == "train" and not _holds_validation(files[0])):
            continue
        table = pa.concat_tables(_parquet_shard(partition, root, home, path) for path in files).combine_chunks()
        renamed = ", which hold validation images" if split == "train" and partition == "val" else ""
        return PartitionIndex(
            partition, f"Parquet files {parquet_files.pattern(files, root)}{renamed}", "parquet", table
        )
    return None


def _holds_validation(path: Path) -> bool:
    """Whether a file holds validation images, judged by its first row."""
    names = parquet.read_shard(TITLE, path, advice=_PARQUET_ADVICE).names
    return len(names) > 0 and NAMES["val"].fullmatch(names[0].as_py().rpartition("/")[2]) is not None


def _parquet_shard(partition: str, root: Path, home: Path, path: Path) -> pa.Table:
    """Index one Parquet file, in which the class is given twice, by label and by name; both must agree."""
    shard = parquet.read_shard(TITLE, path, advice=_PARQUET_ADVICE)
    names = pc.replace_substring_regex(shard.names, pattern="^.*/", replacement="")
    for_edition = pc.starts_with(names, "ILSVRC2010_")
    if pc.any(for_edition).as_py():
        refuse_other_edition(names.filter(for_edition)[0].as_py(), path)
    fits = pc.match_substring_regex(names, f"^{PATTERNS[partition]}")
    example = {"train": "n01440764_10026.JPEG", "val": "ILSVRC2012_val_00000293_n01440764.JPEG"}[partition]
    named = f"the file name {{name}} is not of the partition {partition}, as {example} is"
    parquet.refuse_rows(TITLE, path, pc.invert(fits), named, shard, _PARQUET_ADVICE)
    column, ids, _ = classes_and_ids(partition, names, home, path)
    parquet.refuse_rows(
        TITLE,
        path,
        pc.fill_null(pc.not_equal(pc.cast(column.indices, pa.int64()), shard.labels), True),
        "{name} has the label {label}, which is not the position of its class in the sorted wnids",
        shard,
        _PARQUET_ADVICE,
    )
    return parquet.shard_table(root, path, tuple(classes()), column.indices.to_numpy(), ids)


_SEARCH = Search(
    key="imagenet",
    title=TITLE,
    layouts=(
        Layout(
            "train",
            "train/<wnid>/<wnid>_<number>.JPEG (or ILSVRC2012_img_train/)",
            functools.partial(_class_folders, "train"),
        ),
        Layout("train", "the same in one folder, train/<wnid>_<number>.JPEG", functools.partial(_flat, "train")),
        Layout("train", "the archives of the classes, train/<wnid>.tar", _folder_of_tars),
        Layout("train", "the original archive ILSVRC2012_img_train.tar", _train_tar),
        Layout("train", "the Hub's data/train-*.parquet", functools.partial(_parquet, "train")),
        Layout(
            "val",
            "val/<wnid>/ILSVRC2012_val_<8 digits>.JPEG (or validation/, ILSVRC2012_img_val/)",
            functools.partial(_class_folders, "val"),
        ),
        Layout(
            "val",
            "val/ILSVRC2012_val_<8 digits>_<wnid>.JPEG, or without the class in the name and with one of "
            f"{', '.join(ilsvrc_devkit.ACCEPTED)}",
            functools.partial(_flat, "val"),
        ),
        Layout("val", "the original archive ILSVRC2012_img_val.tar with one of the same", _val_tar),
        Layout("val", "the Hub's data/validation-*.parquet", functools.partial(_parquet, "val")),
    ),
    expected=expected,
)


IMAGENET = Source(
    key=_SEARCH.key,
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
    layouts=_SEARCH.descriptions,
    classes=classes,
    expected=expected,
    scan=_SEARCH.scan,
    pixel_sizes=PixelSizes(
        editions={
            (n, n): f"ImageNet resized to {n} x {n} (Chrabaszcz, Loshchilov and Hutter, 2017)" for n in _DOWNSAMPLED
        }
    ),
)
