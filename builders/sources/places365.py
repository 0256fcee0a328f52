"""Places365-Standard: training and validation images of 365 scene categories.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from builders.errors import BuildError, one_line
from builders.sources.base import Expected, Licence, OtherDataError, PartitionIndex, PixelSizes, Source, Stray
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet
from builders.sources.readers.class_folders import ClassFolders
from builders.sources.readers.folders import child_names, class_column, relative, with_prefix
from builders.sources.readers.label_names import with_label_folders
from builders.sources.readers.layouts import CopyLayout, Search, alike
from builders.sources.readers.patterns import MatchedFiles, Pattern
from builders.storage.files import open_buffered, require_regular
from taxonomy import tables

_KEY = "places365"
_TITLE = "Places365-Standard"
_PARTITIONS = ("train", "val")
_NAME_FORMS = {"train": "<8 digits>.jpg", "val": "Places365_val_<8 digits>.jpg"}
_EITHER = f"<category>_{_NAME_FORMS['train']} or {_NAME_FORMS['val']}"
_LIST_FOLDER = "filelist_places365-standard"
_LISTS = {"train": "places365_train_standard.txt", "val": "places365_val.txt"}
_OTHER_LIST = "Take the list of Places365-Standard"

# The editions of the images: resized to 256 x 256, or with the shorter side above 512. Both have the same ids. Folders
# of the training images are those that the archives unpack to, and torchvision's names for them.
_EDITIONS = {
    "256 px": ("data_256", "data_256_standard", "val_256"),
    "large": ("data_large", "data_large_standard", "val_large"),
}

# The columns of Andron00e/Places365-custom are image, image_file_path and labels; its one split has 1.84 million rows,
# as many as training and validation images together. The split of dpdl-benchmark/Places365-Validation is named train.
_SPLITS = ("train", "validation", "val")
_ADVICE = (
    "Take Andron00e/Places365-custom, which has file names in the column image_file_path "
    "(dpdl-benchmark/Places365-Validation may have none), or the owners' archives, unpacked"
)

# Sizes and SHA-256 are those of tensorflow/datasets (url_checksums/places365_small.txt), MD5 those that torchvision
# (datasets/places365.py) checks. Both have plain addresses; the owners' page asks to agree to terms first.
_FILES = (
    OwnerFile(
        "train_256_places365standard.tar",
        26_103_685_120,
        md5="53ca1c756c3d1e7809517cc47c5561c5",
        sha256="0ade5d7d38c682aa0203014a2b99ad3bf608bf1de0f151dc0d80efba54660a0a",
    ),
    OwnerFile(
        "val_256.tar",
        525_158_400,
        md5="e27b17d8d44f4af9a78502beb927f808",
        sha256="24b4e639ef12a0012af525bc4cb443e4ab4aaea8369a1fb009b70e4a4aad5d48",
    ),
    OwnerFile(
        f"{_LIST_FOLDER}.tar",
        67_498_496,
        md5="35a0585fee1fa656440f3ab298f8479c",
        sha256="520699e00d69b63ddc29fac54645aa00ce1c10ca42e288960aa1cf791d6e9aa9",
    ),
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names by category, in label order."""
    return {row.category: row.name for row in tables.places365()}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the sizes of the complete partitions.

    The training total is that of places365_train_standard.txt, which tensorflow/datasets and torchvision also state;
    the smallest and the largest category are from the README of the owners' development kit (zhoubolei/places_devkit).
    Some texts say 50 validation images a category; the kit's README and list have 100.
    """
    return {
        "train": Expected(1_803_460, class_sizes=(3_068, 5_000)),
        "val": Expected(100 * len(classes()), dict.fromkeys(classes(), 100)),
    }


def flattened(category: str) -> str:
    """Return a category's name as a folder name of the easy format, which has no nested folders."""
    return category.replace("/", "-").replace("_", "-")


@functools.cache
def _spelled() -> Mapping[str, str]:
    """Return the category by each flattened spelling: the category with and without its first slash, and the name."""
    return {flattened(category[start:]): category for start in (0, 1, 3) for category in classes()}


def _category_of(folder: str) -> str | None:
    return _spelled().get(flattened(folder))


def _images(partition: str, pattern: str, name_form: str) -> ClassFolders:
    return ClassFolders(
        Pattern(_KEY, _TITLE, rf"(?:{pattern})\.jpg", name_form, _ADVICE),
        partition,
        classes,
        name_form=lambda _: name_form,
        child="a category folder",
        class_of=_category_of,
        prefix={"train": "train{}/".format, "val": lambda _: "val/"}[partition],
        ending=".jpg",
    )


_IMAGES = {
    "train": _images("train", "(?:(?P<class_id>.*)/)?(?P<file>[0-9]{8})", _NAME_FORMS["train"]),
    "val": _images("val", "(?:(?P<class_id>.*)/)?(?P<file>Places365_val_[0-9]{8})", _NAME_FORMS["val"]),
}

_MIRROR = Pattern(
    _KEY,
    _TITLE,
    r"(?:.*/)?(?P<class_id>[^/]+)/(?P<file>(?P<val>Places365_val_)?[0-9]{8})\.jpg",
    "00000001.jpg or Places365_val_00000001.jpg",
    _ADVICE,
)

_NONE = pa.array([], pa.string())

_MOS = _images(
    "train",
    "(?:.*/)?(?:(?P<class_id>[a-z]_[a-z_]+)_(?P<file>[0-9]{8})|(?P<file_again>Places365_val_[0-9]{8}))",
    _EITHER,
)
"""Images of MOS's archive, which lie in one folder and have their category in their names, such as b_badlands."""


def _train_tree(edition: str, root: Path, home: Path) -> PartitionIndex | None:
    for folder in (home / name for name in _EDITIONS[edition][:2]):
        categories = [c[1:] for c in classes() if (folder / c[1:]).is_dir()] if folder.is_dir() else []
        if categories:
            return _scanned("train", root, home, folder, categories, f"{edition} edition")
    return None


def _easy(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    folder = home / partition
    names = [name for name in child_names(folder) if _category_of(name)] if folder.is_dir() else []
    return _scanned(partition, root, home, folder, names, "easy format") if names else None


def _scanned(partition: str, root: Path, home: Path, place: Path, folders: Sequence[str], form: str) -> PartitionIndex:
    """Index category folders.

    Where the partition's list is there, images that it lacks are left out: Places365-Challenge has the same folders
    with four times the images.
    """
    piece = _IMAGES[partition].in_folders(root, place, folders)
    piece = dataclasses.replace(piece, layout=f"{form}, {relative(place, root)}")
    listing = _find_list(root, home, _LISTS[partition])
    if listing is None:
        return piece
    listed, labels = _listed(listing, partition)
    ids = piece.table["source_id"].combine_chunks()
    is_listed = pc.is_in(ids, listed)
    unlisted = piece.table.filter(pc.invert(is_listed))["file"].to_pylist()
    return dataclasses.replace(
        piece,
        table=piece.table.filter(is_listed) if unlisted else piece.table,
        strays=(*(Stray(name, f"not in {listing.name}") for name in unlisted), *piece.strays),
        missing=listed.filter(pc.invert(pc.is_in(listed, ids))),
        listed=dict(zip(classes(), np.bincount(labels, minlength=len(classes())).tolist(), strict=True)),
    )


def _val_flat(edition: str, root: Path, home: Path) -> PartitionIndex | None:
    folder = home / _EDITIONS[edition][2]
    files = _IMAGES["val"].pattern.in_folders(root, folder) if folder.is_dir() else None
    if files is None or not files.rows.num_rows:
        return None
    return dataclasses.replace(_by_list(root, home, files), layout=f"{edition} edition, {relative(folder, root)}")


def _by_list(root: Path, home: Path, files: MatchedFiles) -> PartitionIndex:
    """Index validation images, whose categories only the owners' list says."""
    place, listing = files.tree.place, _find_list(root, home, _LISTS["val"])
    if listing is None:
        raise BuildError(
            f"{_TITLE}: the categories of the flat validation images in {place} are unknown: {_LISTS['val']} is "
            f"neither in {home} nor in {home / _LIST_FOLDER}. Unpack {_LIST_FOLDER}.tar there."
        )
    listed, labels = _listed(listing, "val")
    ids = pc.binary_join_element_wise("val/", files.groups["file"], ".jpg", "")
    rows = pc.index_in(ids, listed)
    if rows.null_count:
        name = files.groups["file"].filter(pc.is_null(rows))[0]
        raise BuildError(f"{_TITLE}: {listing} has no line for {name}.jpg in {place}. {_OTHER_LIST}.")
    column = class_column(tuple(classes()), labels.take(rows).to_numpy())
    missing = listed.filter(pc.invert(pc.is_in(listed, ids)))
    return _IMAGES["val"].pattern.partition("val", files, files.table(column, ids), missing=missing)


def _mos(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    """Index a partition's images among MOS's 10,000, in their archive or unpacked."""
    pattern = _MOS.pattern
    files = pattern.in_archive(root, home, "Places") or pattern.in_places(root, home, ("Places/images", "images"))
    if files is None:
        return None
    has_category = pc.not_equal(files.groups["class_id"], "")
    files = files.select(has_category if partition == "train" else pc.invert(has_category))
    if not files.rows.num_rows:
        return None
    # Of the list nothing is missing here: the archive has 178 of its images.
    return (
        _MOS.index(files) if partition == "train" else dataclasses.replace(_by_list(root, home, files), missing=_NONE)
    )


def _mirror(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    """Index a partition in a mirror's Parquet files, one set of which may hold both partitions."""
    files = _MIRROR.in_parquet(root, home, _SPLITS, _names_in)
    if files is None:
        return None
    is_val = pc.not_equal(files.groups["val"], "")
    piece = _IMAGES[partition].index(files.select(is_val if partition == "val" else pc.invert(is_val)))
    if not piece.table.num_rows:
        raise OtherDataError(
            f"{_TITLE}: the {files.tree.description} of {root} hold no images of the partition {partition}. Give a "
            f"mirror that has them with --{_KEY}."
        )
    return piece


def _names_in(path: Path) -> pa.Array:
    """Read the names of a mirror's images, with the folder that their label names; else they must have their own."""
    shard = parquet.read_shard(_TITLE, path, labelled=False, advice=_ADVICE)
    if shard.label_names is not None:
        return with_label_folders(_TITLE, _KEY, shard, lambda name: flattened(name) if _category_of(name) else None)
    parts = pc.struct_field(pc.extract_regex(shard.names, r"^(?:.*/)?(?P<folder>[^/]+)/[^/]+$"), "folder")
    folders = parts.dictionary_encode()
    known = pa.array([_category_of(folder) is not None for folder in folders.dictionary.to_pylist()], pa.bool_())
    unknown = pc.invert(pc.fill_null(known.take(folders.indices), False))
    problem = "{name} is in no category's folder, and label numbers without names may be in any order"
    parquet.refuse_rows(_TITLE, path, unknown, problem, shard, _ADVICE)
    return shard.names


def _find_list(root: Path, home: Path, name: str) -> Path | None:
    """Look for a list beside the images, in the folders above up to the user's, and beside the user's folder."""
    above = [home, *home.parents[: len(Path(relative(home, root)).parts)]]
    candidates = [place for folder in above for place in (folder / name, folder / _LIST_FOLDER / name)]
    candidates.append(root.parent / _LIST_FOLDER / name)
    return next((path for path in candidates if path.is_file()), None)


def _listed(path: Path, partition: str) -> tuple[pa.Array, pa.Array]:
    """Return the ids and labels of a list of the development kit."""
    options = pacsv.ParseOptions(delimiter=" ", quote_char=False)
    columns = pacsv.ReadOptions(column_names=["name", "label"])
    types = pacsv.ConvertOptions(column_types={"name": pa.string(), "label": pa.int32()}, null_values=[])
    require_regular(path)
    try:
        with open_buffered(path) as file:
            names, labels = pacsv.read_csv(file, columns, options, types).combine_chunks().columns
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
    return with_prefix({"train": "train", "val": "val/"}[partition], names), labels


class _OneEdition(Search):
    """Finds the partitions, and refuses a copy that has them in different editions."""

    def scan(self, source: Source, root: Path, partitions: Sequence[str]) -> list[PartitionIndex]:
        pieces = super().scan(source, root, partitions)
        if len({piece.layout.startswith("large") for piece in pieces}) > 1:
            layouts = " and ".join(f"{piece.partition} as {piece.layout}" for piece in pieces)
            raise BuildError(
                f"{_TITLE}: {root} has its partitions in different editions: {layouts}. Add the missing "
                "part of one of the two editions."
            )
        return pieces


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
        mirror=Mirror(
            "hf://datasets/Andron00e/Places365-custom",
            dict.fromkeys(_PARTITIONS, (_SPLITS,)),
        ),
    ),
    classes=classes,
    expected=expected,
    search=_OneEdition(
        (
            *(
                layout
                for edition, (folder, of_torchvision, val) in _EDITIONS.items()
                for layout in (
                    CopyLayout(
                        "train",
                        f"{folder}/a/airfield/<8 digits>.jpg (or {of_torchvision}/)",
                        functools.partial(_train_tree, edition),
                    ),
                    CopyLayout("val", f"{val}/ with {_LISTS['val']}", functools.partial(_val_flat, edition)),
                )
            ),
            *(
                CopyLayout(
                    partition,
                    f"the easy format {partition}/<category>/{_NAME_FORMS[partition]}",
                    functools.partial(_easy, partition),
                )
                for partition in _PARTITIONS
            ),
            *alike(
                _PARTITIONS,
                ("a Hub mirror's data/train-*.parquet with file names", _mirror),
                (f"MOS's Places.tar.gz (or Places.tar), or Places/images/, with {_LISTS['val']}", _mos),
            ),
        )
    ),
    # The large edition has many images whose shorter side is 512, the small one only 256 x 256.
    pixel_sizes=PixelSizes(shared=(256, 512)),
)
