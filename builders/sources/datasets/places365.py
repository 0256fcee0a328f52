"""Places365-Standard: training and validation images of 365 scene categories.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from builders.errors import BuildError, one_line
from builders.sources.base import CopyLayout, Expected, Home, Licence, OtherDataError, PartitionIndex, Source, Stray
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import tars
from builders.sources.readers.folders import by_spelling, child_names, relative
from builders.sources.readers.parquet import Shard
from builders.sources.readers.patterns import ClassFolders
from builders.sources.readers.trees import Tree
from builders.storage.files import open_buffered, read_regular
from taxonomy import tables

_KEY = "places365"
_TITLE = "Places365-Standard"
_NAME_FORMS = {"train": "<8 digits>.jpg", "val": "Places365_val_<8 digits>.jpg"}
_LIST_FOLDER = "filelist_places365-standard"
_LISTS = {"train": "places365_train_standard.txt", "val": "places365_val.txt"}
_OTHER_LIST = "Take the list of Places365-Standard"

# The editions of the images: resized to 256 x 256, or with the shorter side above 512. Both have the same ids. Folders
# of the training images are those that the archives unpack to, and torchvision's names for them.
_LARGE = "large"
_EDITIONS = {
    "256 px": ("data_256", "data_256_standard", "val_256"),
    _LARGE: ("data_large", "data_large_standard", "val_large"),
}

# The columns of Andron00e/Places365-custom are image, image_file_path and labels; its one split has 1.84 million rows,
# as many as training and validation images together. The split of dpdl-benchmark/Places365-Validation is named train.
_SPLITS = ("train", "validation", "val")
_ADVICE = (
    "Take Andron00e/Places365-custom, which has file names in the column image_file_path "
    "(dpdl-benchmark/Places365-Validation may have none), or the owners' archives, unpacked"
)

# Sizes and SHA-256 are those of tensorflow/datasets (url_checksums/places365_small.txt), MD5 those that torchvision
# (datasets/places365.py) checks. Both get them from plain addresses. The owners' page asks for access first, so that
# here those of the validation images alone are given, with a note (`terms`).
_FILES = (
    OwnerFile(
        "train_256_places365standard.tar",
        26_103_685_120,
        md5="53ca1c756c3d1e7809517cc47c5561c5",
        sha256="0ade5d7d38c682aa0203014a2b99ad3bf608bf1de0f151dc0d80efba54660a0a",
        partitions=("train",),
    ),
    OwnerFile(
        "val_256.tar",
        525_158_400,
        url="http://data.csail.mit.edu/places/places365/val_256.tar",
        md5="e27b17d8d44f4af9a78502beb927f808",
        sha256="24b4e639ef12a0012af525bc4cb443e4ab4aaea8369a1fb009b70e4a4aad5d48",
        partitions=("val",),
    ),
    OwnerFile(
        f"{_LIST_FOLDER}.tar",
        67_498_496,
        url="http://data.csail.mit.edu/places/places365/filelist_places365-standard.tar",
        md5="35a0585fee1fa656440f3ab298f8479c",
        sha256="520699e00d69b63ddc29fac54645aa00ce1c10ca42e288960aa1cf791d6e9aa9",
    ),
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names by category, in label order."""
    return {row.category: row.name for row in tables.places365()}


def _expected() -> Mapping[str, Expected]:
    """Return the sizes of the complete partitions.

    The training total is that of places365_train_standard.txt, which tensorflow/datasets and torchvision also state;
    the smallest and the largest category are from the README of the owners' development kit (zhoubolei/places_devkit).
    Some texts say 50 validation images a category; the kit's README and list have 100.
    """
    return {"train": Expected(1_803_460, class_sizes=(3_068, 5_000)), "val": Expected.each(classes(), 100)}


def category_of(folder: str) -> str | None:
    """Return the category of a folder's name, with or without the letter; None for any other name."""
    return _spelled()(folder)


@functools.cache
def _spelled() -> Callable[[str], str | None]:
    return by_spelling(classes())


def _images(partition: str, pattern: str, name_form: str) -> ClassFolders:
    return ClassFolders(
        rf"(?:{pattern})\.jpg",
        name_form,
        _ADVICE,
        child="a category folder",
        class_of=category_of,
        prefix={"train": "train{}/".format, "val": lambda _: "val/"}[partition],
        ending=".jpg",
    )


_IMAGES = {
    "train": _images("train", "(?:(?P<class_id>.*)/)?(?P<image>[0-9]{8})", _NAME_FORMS["train"]),
    "val": _images("val", "(?:(?P<class_id>.*)/)?(?P<image>Places365_val_[0-9]{8})", _NAME_FORMS["val"]),
}

_MIRROR = _images(
    "train",
    "(?:.*/)?(?P<class_id>[^/]+)/(?P<image>(?P<val>Places365_val_)?[0-9]{8})",
    "00000001.jpg or Places365_val_00000001.jpg",
)

_MOS = _images(
    "train",
    "(?:.*/)?(?:(?P<class_id>[a-z]_[a-z_]+)_(?P<image>[0-9]{8})|(?P<image_again>Places365_val_[0-9]{8}))",
    f"<category>_{_NAME_FORMS['train']} or {_NAME_FORMS['val']}",
)
"""Images of MOS's archive, which lie in one folder and have their category in their names, such as b_badlands."""


def _train_tree(home: Home, edition: str) -> PartitionIndex | None:
    for name in _EDITIONS[edition][:2]:
        place = home.folder / name
        folders = [c[1:] for c in classes() if (place / c[1:]).is_dir()] if place.is_dir() else []
        if folders:
            return _scanned(home, place, folders, f"{edition} edition", edition if edition == _LARGE else "")
    return None


def _easy(home: Home) -> PartitionIndex | None:
    place = home.folder / home.partition
    folders = [name for name in child_names(place) if category_of(name)] if place.is_dir() else []
    return _scanned(home, place, folders, "easy format") if folders else None


def _scanned(home: Home, place: Path, folders: Sequence[str], form: str, edition: str = "") -> PartitionIndex:
    """Index category folders.

    Where the partition's list is there, images that it lacks are left out: Places365-Challenge has the same folders
    with four times the images.
    """
    found = _IMAGES[home.partition].of_folders(home, place, folders)
    found = dataclasses.replace(found, layout=f"{form}, {relative(place, home.root)}", edition=edition)
    listing = _find_list(home)
    if listing is None:
        return found
    listed, labels = _listed(listing, home.partition)
    ids = found.table["source_id"].combine_chunks()
    is_listed = pc.is_in(ids, listed)
    unlisted = found.table.filter(pc.invert(is_listed))["file"].to_pylist()
    return dataclasses.replace(
        found,
        table=found.table.filter(is_listed) if unlisted else found.table,
        strays=(*(Stray(name, f"not in {listing.path.name}") for name in unlisted), *found.strays),
        missing=listed.filter(pc.invert(pc.is_in(listed, ids))),
        listed=dict(zip(classes(), np.bincount(labels, minlength=len(classes())).tolist(), strict=True)),
    )


def _val_flat(home: Home, edition: str) -> PartitionIndex | None:
    name = _EDITIONS[edition][2]
    tree = _IMAGES["val"].in_places(home, name)
    if tree is None and (home.folder / f"{name}.tar").is_file() and _find_list(home) is not None:
        tree = _IMAGES["val"].in_archive(home, name)
    if tree is None:
        return None
    layout = f"{edition} edition, {relative(tree.place, home.root)}"
    return dataclasses.replace(_by_list(tree), layout=layout, edition=edition if edition == _LARGE else "")


def _by_list(tree: Tree) -> PartitionIndex:
    """Index validation images, whose categories only the owners' list says."""
    folder, listing = tree.home.folder, _find_list(tree.home)
    if listing is None:
        raise BuildError(
            f"{_TITLE}: the categories of the flat validation images in {tree.place} are unknown: {_LISTS['val']} is "
            f"neither in {folder} nor in {folder / _LIST_FOLDER}. Put {_LIST_FOLDER}.tar there."
        )
    listed, labels = _listed(listing, "val")
    ids = pc.binary_join_element_wise("val/", tree.column("image"), ".jpg", "")
    rows = pc.index_in(ids, listed)
    if rows.null_count:
        name = tree.column("image").filter(pc.is_null(rows))[0]
        raise BuildError(f"{_TITLE}: {listing.path} has no line for {name}.jpg in {tree.place}. {_OTHER_LIST}.")
    missing = listed.filter(pc.invert(pc.is_in(listed, ids)))
    return _IMAGES["val"].index(tree, pa.array(list(classes())).take(labels.take(rows)), ids, missing=missing)


def _mos(home: Home) -> PartitionIndex | None:
    """Index a partition's images among MOS's 10,000, in their archive or unpacked."""
    tree = _MOS.in_archive(home, "Places") or _MOS.in_places(home, "Places/images", "images", "")
    if tree is None:
        return None
    has_category = pc.not_equal(tree.column("class_id"), "")
    tree = tree.keep(has_category if home.partition == "train" else pc.invert(has_category))
    if not tree.rows.num_rows:
        return None
    # Of the list nothing is missing here: the archive has 178 of its images.
    return (
        _MOS.indexed(tree)
        if home.partition == "train"
        else dataclasses.replace(_by_list(tree), missing=pa.array([], pa.string()))
    )


def _mirror(home: Home) -> PartitionIndex | None:
    """Index a partition in a mirror's Parquet files, one set of which may hold both partitions."""
    tree = _MIRROR.in_parquet(home, _SPLITS, _names, labelled=False)
    if tree is None:
        return None
    is_val = pc.not_equal(tree.column("val"), "")
    found = _IMAGES[home.partition].indexed(tree.keep(is_val if home.partition == "val" else pc.invert(is_val)))
    if not found.table.num_rows:
        raise OtherDataError(
            f"{_TITLE}: the {tree.description} of {home.root} hold no images of the partition {home.partition}. Give "
            f"a mirror that has them with --{_KEY}."
        )
    return found


def _names(shard: Shard) -> pa.Array:
    """Return the names of a mirror's images, with the folder that their label names; else they must have their own."""
    if shard.label_names is not None:
        return shard.in_label_folders(_KEY, lambda name: name.replace("/", "-") if category_of(name) else None)
    parts = pc.struct_field(pc.extract_regex(shard.names, r"^(?:.*/)?(?P<folder>[^/]+)/[^/]+$"), "folder")
    folders = parts.dictionary_encode()
    known = pa.array([category_of(folder) is not None for folder in folders.dictionary.to_pylist()], pa.bool_())
    unknown = pc.invert(pc.fill_null(known.take(folders.indices), False))
    shard.refuse(unknown, "{name} is in no category's folder, and label numbers without names may be in any order")
    return shard.names


class _List(NamedTuple):
    """The owners' list of a partition, which may be in its tar (`.../filelist_places365-standard.tar/...`)."""

    path: Path
    content: bytes


def _find_list(home: Home) -> _List | None:
    """Look for a partition's list in the home, in the folders above up to the user's, and beside the user's folder."""
    name = _LISTS[home.partition]
    above = [home.folder, *home.folder.parents[: len(Path(relative(home.folder, home.root)).parts)]]
    folders = [place for folder in above for place in (folder, folder / _LIST_FOLDER)]
    paths = (folder / name for folder in (*folders, home.root.parent / _LIST_FOLDER))
    if path := next((path for path in paths if path.is_file()), None):
        return _List(path, read_regular(path))
    packed = next((path for folder in above if (path := folder / f"{_LIST_FOLDER}.tar").is_file()), None)
    inside = tars.members(packed, lambda member: member.rpartition("/")[2] == name) if packed else []
    if packed is None or not inside:
        return None
    with open_buffered(packed) as file:
        file.seek(inside[0].start)
        return _List(packed / name, file.read(inside[0].size))


def _listed(listing: _List, partition: str) -> tuple[pa.Array, pa.Array]:
    """Return the ids and labels of a list of the development kit."""
    path = listing.path
    options = pacsv.ParseOptions(delimiter=" ", quote_char=False)
    columns = pacsv.ReadOptions(column_names=["name", "label"])
    types = pacsv.ConvertOptions(column_types={"name": pa.string(), "label": pa.int32()}, null_values=[])
    try:
        names, labels = pacsv.read_csv(pa.BufferReader(listing.content), columns, options, types).columns
    except pa.ArrowInvalid as error:
        raise BuildError(
            f"{_TITLE}: {path} has lines other than a name and a number ({one_line(error)}). Unpack "
            f"{_LIST_FOLDER}.tar again."
        ) from error
    names, labels = names.combine_chunks(), labels.combine_chunks()
    if not pc.all(pc.and_(pc.greater_equal(labels, 0), pc.less(labels, len(classes())))).as_py():
        raise BuildError(
            f"{_TITLE}: {path} has labels outside 0 to {len(classes()) - 1}, up to {pc.max(labels)}. {_OTHER_LIST}."
        )
    repeated = pc.value_counts(names)
    repeated = repeated.filter(pc.greater(repeated.field("counts"), 1))
    if len(repeated):
        raise BuildError(f"{_TITLE}: {path} lists {one_line(repeated[0]['values'])} more than once. {_OTHER_LIST}.")
    return pc.binary_join_element_wise({"train": "train", "val": "val/"}[partition], names, ""), labels


def _of_edition(edition: str) -> tuple[CopyLayout, ...]:
    folder, of_torchvision, val = _EDITIONS[edition]
    return (
        CopyLayout(
            f"{folder}/a/airfield/<8 digits>.jpg (or {of_torchvision}/)",
            lambda home: _train_tree(home, edition),
            ("train",),
        ),
        CopyLayout(
            f"{val}/ (or {val}.tar) with {_LISTS['val']} (or {_LIST_FOLDER}.tar)",
            lambda home: _val_flat(home, edition),
            ("val",),
        ),
    )


PLACES365 = Source(
    key=_KEY,
    title=_TITLE,
    edition="Places365-Standard (2016)",
    licence=Licence(
        name="none; copyright of the image owners",
        url="http://places2.csail.mit.edu/download.html",
        statement=(
            "The copyright of all the images belongs to the image owners (README of the authors' repository "
            "CSAILVision/places365; its CC BY is for the models). The download page hands the data out for research, "
            "on request."
        ),
        publish="ids-only",
    ),
    citation="""@article{zhou2017places,
  title = {Places: A 10 million Image Database for Scene Recognition},
  author = {Zhou, Bolei and Lapedriza, Agata and Khosla, Aditya and Oliva, Aude and Torralba, Antonio},
  journal = {IEEE Transactions on Pattern Analysis and Machine Intelligence},
  year = {2017},
  publisher = {IEEE}
}""",
    obtain=Obtain(
        "http://places2.csail.mit.edu/download.html",
        "ask for access as the page says, then download train_256_places365standard.tar, val_256.tar (the small "
        "images suffice) and filelist_places365-standard.tar, and unpack them",
        files=_FILES,
        terms="asks for access, and hands the data out for research",
        mirror=Mirror("hf://datasets/Andron00e/Places365-custom", {"train": (_SPLITS,), "val": (_SPLITS,)}),
    ),
    classes=classes,
    expected=_expected,
    accepted=(
        *itertools.chain.from_iterable(map(_of_edition, _EDITIONS)),
        *(
            CopyLayout(f"the easy format {{partition}}/<category>/{form}", _easy, (partition,))
            for partition, form in _NAME_FORMS.items()
        ),
        CopyLayout("a Hub mirror's data/train-*.parquet with file names", _mirror),
        CopyLayout(f"MOS's Places.tar.gz (or Places.tar), or Places/images/, with {_LISTS['val']}", _mos),
    ),
    # The large edition has many images whose shorter side is 512, the small one only 256 x 256.
    shared_sides=(256, 512),
)
