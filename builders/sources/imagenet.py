"""ImageNet-1k: the training and validation images of ILSVRC 2012."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import ilsvrc_devkit, parquet, tars
from builders.sources.base import Expected, Licence, Piece, PixelSizes, Source, Stray, piece_table
from builders.sources.folders import (
    ClassFolder,
    child_names,
    class_codes,
    class_column,
    joined,
    match_names,
    plain_reason,
    relative,
    scan_class_folders,
    shown,
    stray_children,
)
from builders.sources.search import Layout, Search
from taxonomy import tables

_TITLE = "ImageNet-1k (ILSVRC2012)"
_FLAG = "give an ILSVRC2012 copy with --imagenet"
_WNID = re.compile(r"n\d{8}", re.ASCII)
_TRAIN_NAME = re.compile(r"(n\d{8})_\d+\.JPEG", re.ASCII)
_VAL_PATTERN = r"^ILSVRC2012_val_[0-9]{8}\.JPEG$"
_WANTED = {"train": "<wnid>_<number>.JPEG", "val": "ILSVRC2012_val_<8 digits>.JPEG"}
_PARQUET_NAME = r"^(?P<stem>.+)_(?P<wnid>n[0-9]{8})\.JPEG$"
_DOWNSAMPLED = (8, 16, 32, 64)
# The edition with blurred faces (Yang et al., "A Study of Face Obfuscation in ImageNet", ICML 2022).
_BLURRED = {"train": "train_blurred", "val": "val_blurred"}
_BLURRED_NAME = re.compile(r"(n\d{8}_\d+|ILSVRC2012_val_\d{8})\.jpg", re.ASCII)
_SHARDS = {"train": "train-*.parquet", "val": "validation-*.parquet"}


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the name of each wnid, in label order."""
    return {row.wnid: row.name for row in tables.imagenet1k()}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the sizes of the complete partitions."""
    train = {row.wnid: row.train_images for row in tables.imagenet1k()}
    return {
        "train": Expected(sum(train.values()), train),
        "val": Expected(50 * len(train), dict.fromkeys(train, 50)),
    }


def _train_folders(root: Path, home: Path) -> Piece | None:
    return _class_folders(
        root, home / "train", "train", lambda wnid: f"train/{wnid}/", lambda wnid: f"^{wnid}_[0-9]+\\.JPEG$"
    )


def _val_folders(root: Path, home: Path) -> Piece | None:
    return _class_folders(root, home / "val", "val", lambda _: "val/", lambda _: _VAL_PATTERN)


def _class_folders(
    root: Path, folder: Path, partition: str, prefix: Callable[[str], str], pattern: Callable[[str], str]
) -> Piece | None:
    if not folder.is_dir():
        return None
    wnids = [name for name in child_names(folder) if _WNID.fullmatch(name)]
    if not wnids:
        return None
    _refuse_unknown(wnids, folder)
    table, strays = scan_class_folders(
        root,
        [ClassFolder(wnid, folder / wnid, prefix(wnid), pattern(wnid)) for wnid in wnids],
        tuple(classes()),
        functools.partial(_explain, partition),
    )
    strays += stray_children(folder, root, wnids, "a class folder")
    return Piece(partition, f"class folders in {relative(folder, root)}", "file", table, tuple(strays))


def _refuse_unknown(wnids: list[str], place: Path) -> None:
    unknown = [wnid for wnid in wnids if wnid not in classes()]
    if unknown:
        raise BuildError(
            f"{_TITLE}: expected its 1,000 classes, found {len(unknown):,} of another ImageNet edition in {place}, "
            f"first {unknown[0]}; {_FLAG}."
        )


def _explain(partition: str, folder: ClassFolder, name: str) -> str:
    _refuse_2010(name, folder.path)
    _refuse_blurred(name, folder.path)
    other = _TRAIN_NAME.fullmatch(name)
    if partition == "train" and other and other[1] != folder.class_id:
        raise BuildError(
            f"{_TITLE}: expected only images of {folder.class_id}, found {name} of class {other[1]} in {folder.path}; "
            "move it to its own class folder."
        )
    return plain_reason(folder.path, name, _WANTED[partition])


def _refuse_2010(name: str, place: Path) -> None:
    if name.startswith("ILSVRC2010_"):
        raise BuildError(
            f"{_TITLE}: expected images of the 2012 edition, found {name} of the 2010 edition in {place}; {_FLAG}."
        )


def _refuse_blurred(name: str, place: Path) -> None:
    if _BLURRED_NAME.fullmatch(name):
        raise BuildError(
            f"{_TITLE}: {name} in {place} is named as in the edition with blurred faces (.jpg, and 101 training and 3 "
            f"validation images fewer). Give a copy with the original images with --imagenet."
        )


def _val_flat(root: Path, home: Path) -> Piece | None:
    folder = home / "val"
    if not folder.is_dir():
        return None
    names = match_names(child_names(folder), _VAL_PATTERN)
    for name in names.others:
        _refuse_2010(name, folder)
        _refuse_blurred(name, folder)
    if not len(names.images):
        return None
    column, truth = _val_classes(names.images, home, folder)
    place = relative(folder, root) + "/"
    table = piece_table(column, joined("val/", names.images), joined(place, names.images))
    strays = tuple(Stray(place + shown(name), plain_reason(folder, name, _WANTED["val"])) for name in names.others)
    return Piece("val", f"flat {relative(folder, root)} with {truth}", "file", table, strays)


def _val_classes(names: pa.Array, home: Path, place: Path) -> tuple[pa.DictionaryArray, str]:
    """Give flat validation images their classes: the image with number k is line k of the ground truth."""
    truth = ilsvrc_devkit.ground_truth(home)
    if truth is None:
        raise BuildError(
            f"{_TITLE}: expected the classes of the flat validation images in {place}, found neither "
            f"{' nor '.join(ilsvrc_devkit.ACCEPTED)} in {home} or the three folders above it; put one of them there."
        )
    numbers = pc.cast(pc.utf8_slice_codeunits(names, len("ILSVRC2012_val_"), len("ILSVRC2012_val_") + 8), pa.int64())
    lines = pc.index_in(numbers, truth.numbers)
    unlabelled = pc.is_null(lines)
    if pc.any(unlabelled).as_py():
        raise BuildError(
            f"{_TITLE}: expected a line of ground truth for each validation image, found {len(truth.numbers):,} lines "
            f"in {truth.place} and none for {names.filter(unlabelled)[0]}; take the ground truth of the 2012 edition."
        )
    wnids = truth.wnids.take(lines)
    codes = pc.index_in(wnids, pa.array(list(classes())))
    if codes.null_count:
        _refuse_unknown(wnids.filter(pc.is_null(codes)).unique().to_pylist(), truth.place)
    return class_column(tuple(classes()), codes.to_numpy()), truth.kind


def _train_tar(root: Path, home: Path) -> Piece | None:
    path = home / "ILSVRC2012_img_train.tar"
    if not path.is_file():
        return None
    code_of = class_codes(tuple(classes()))
    ids, offsets, sizes, codes, counts = [], [], [], [], []
    strays: list[Stray] = []
    for wnid, members in tars.nested_members(path):
        if not _WNID.fullmatch(wnid):
            strays.append(Stray(f"{relative(path, root)}:{shown(wnid)}", "not a tar of one class"))
            continue
        _refuse_unknown([wnid], path)
        found = tars.match_members(members, f"^{wnid}_[0-9]+\\.JPEG$")
        folder = ClassFolder(wnid, path / f"{wnid}.tar", "", "")
        strays += [
            Stray(f"{relative(folder.path, root)}:{shown(n)}", _explain("train", folder, n)) for n in found.others
        ]
        ids.append(joined(f"train/{wnid}/", found.names))
        offsets.append(found.offsets)
        sizes.append(found.sizes)
        codes.append(code_of[wnid])
        counts.append(len(found.names))
    if not ids:
        raise BuildError(f"{_TITLE}: expected one tar for each class, found none inside {path}; {_FLAG}.")
    column = class_column(tuple(classes()), np.repeat(np.array(codes, np.int32), counts))
    table = piece_table(
        column,
        pa.concat_arrays(ids),
        pa.repeat(relative(path, root), len(column)),
        pa.concat_arrays(offsets),
        pa.concat_arrays(sizes),
    )
    return Piece("train", f"original archive {relative(path, root)}", "span", table, tuple(strays))


def _val_tar(root: Path, home: Path) -> Piece | None:
    path = home / "ILSVRC2012_img_val.tar"
    if not path.is_file():
        return None
    found = tars.match_members(tars.members(path), _VAL_PATTERN)
    for name in found.others:
        _refuse_2010(name, path)
        _refuse_blurred(name, path)
    if not len(found.names):
        raise BuildError(f"{_TITLE}: expected images named {_WANTED['val']}, found none inside {path}; {_FLAG}.")
    column, truth = _val_classes(found.names, home, path)
    place = relative(path, root)
    table = piece_table(
        column, joined("val/", found.names), pa.repeat(place, len(found.names)), found.offsets, found.sizes
    )
    strays = tuple(Stray(f"{place}:{shown(name)}", f"not named {_WANTED['val']}") for name in found.others)
    return Piece("val", f"original archive {place} with {truth}", "span", table, strays)


def _parquet(partition: str, root: Path, home: Path) -> Piece | None:
    files = parquet.shards(home, _SHARDS[partition])
    if not files:
        return None
    parts = [_parquet_shard(partition, root, path) for path in files]
    table = pa.concat_tables(parts).combine_chunks()
    return Piece(partition, f"Parquet files {relative(files[0].parent, root)}/{_SHARDS[partition]}", "parquet", table)


def _parquet_shard(partition: str, root: Path, path: Path) -> pa.Table:
    """Index one Parquet file; the class stands in it twice, as a label and in the name, and both must agree."""
    shard = parquet.read_shard(_TITLE, path)
    for_edition = pc.starts_with(shard.names, "ILSVRC2010_")
    if pc.any(for_edition).as_py():
        _refuse_2010(shard.names.filter(for_edition)[0].as_py(), path)
    parts = pc.extract_regex(shard.names, _PARQUET_NAME)
    wnids, stems = parts.field("wnid"), parts.field("stem")
    parquet.refuse_rows(
        _TITLE,
        path,
        pc.is_null(parts),
        "image.path like n01440764_10026_n01440764.JPEG (row {row} has {name})",
        shard,
    )
    codes = pc.index_in(wnids, pa.array(list(classes())))
    parquet.refuse_rows(
        _TITLE,
        path,
        pc.fill_null(pc.not_equal(pc.cast(codes, pa.int64()), shard.labels), True),
        "labels that are places in the sorted wnids (row {row}, {name}, has label {label})",
        shard,
    )
    names = pc.binary_join_element_wise(stems, pa.scalar(".JPEG"), pa.scalar(""))
    if partition == "train":
        names = pc.binary_join_element_wise(wnids, names, pa.scalar("/"))
    return parquet.shard_table(root, path, tuple(classes()), codes.to_numpy(), joined(f"{partition}/", names))


_SEARCH = Search(
    key="imagenet",
    title=_TITLE,
    homes=(".", "ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", "imagenet", "ILSVRC2012"),
    layouts=(
        Layout("train", "train/<wnid>/<wnid>_<number>.JPEG (also below ILSVRC/Data/CLS-LOC)", _train_folders),
        Layout("train", "the original archive ILSVRC2012_img_train.tar", _train_tar),
        Layout("train", "the Hub's data/train-*.parquet", functools.partial(_parquet, "train")),
        Layout("val", "val/<wnid>/ILSVRC2012_val_<number>.JPEG (also below ILSVRC/Data/CLS-LOC)", _val_folders),
        Layout("val", f"val/ILSVRC2012_val_<number>.JPEG with one of {', '.join(ilsvrc_devkit.ACCEPTED)}", _val_flat),
        Layout("val", "the original archive ILSVRC2012_img_val.tar with one of the same", _val_tar),
        Layout("val", "the Hub's data/validation-*.parquet", functools.partial(_parquet, "val")),
    ),
    expected=expected,
)


def _scan(root: Path, partitions: Sequence[str]) -> list[Piece]:
    """Find the partitions, and name the edition with blurred faces where only its folders are there."""
    for home, partition in itertools.product(_SEARCH.homes, partitions):
        folder = root / home / _BLURRED[partition]
        if folder.is_dir() and not (root / home / partition).is_dir():
            raise BuildError(
                f"{_TITLE}: {folder} is of the edition with blurred faces (101 training and 3 validation images fewer "
                "than the original). Give a copy with the original images with --imagenet."
            )
    return _SEARCH.scan(root, partitions)


IMAGENET = Source(
    key=_SEARCH.key,
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
    layouts=_SEARCH.descriptions,
    classes=classes,
    expected=expected,
    scan=_scan,
    pixel_sizes=PixelSizes(
        editions={
            (n, n): f"ImageNet resized to {n} x {n} (Chrabaszcz, Loshchilov and Hutter, 2017)" for n in _DOWNSAMPLED
        }
    ),
)
