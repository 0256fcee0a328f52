"""Places365-Standard: training and validation images of 365 scene categories.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from builders.errors import BuildError, one_line
from builders.sources import places365_mirrors
from builders.sources.base import Expected, Licence, PartitionIndex, PixelSizes, Source, Stray
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.places365_names import TITLE, classes, easy_names, flattened, spelled
from builders.sources.readers.class_folders import ClassFolders
from builders.sources.readers.folders import child_names, class_column, relative, with_prefix
from builders.sources.readers.layouts import CopyLayout, Search, alike
from builders.sources.readers.patterns import MatchedFiles, Pattern
from builders.storage.files import open_buffered, require_regular

_NAME_FORMS = {"train": "<8 digits>.jpg", "val": "Places365_val_<8 digits>.jpg"}
_NAME_FORMS["mos"] = f"<category>_{_NAME_FORMS['train']} or {_NAME_FORMS['val']}"
_CATEGORIES = "categories_places365.txt"
_TRAIN_LIST = "places365_train_standard.txt"
_VAL_LIST = "places365_val.txt"
_LIST_FOLDER = "filelist_places365-standard"

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


@dataclass(frozen=True)
class _Edition:
    """An edition of the images: resized to 256 x 256, or with the shorter side above 512. Both have the same ids."""

    name: str
    train: tuple[str, ...]
    val: str


# The folders that the archives unpack to, and torchvision's names for them (`data_..._standard`).
_SMALL = _Edition("256 px", ("data_256", "data_256_standard"), "val_256")
_LARGE = _Edition("large", ("data_large", "data_large_standard"), "val_large")


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


def _images(partition: str, name: str, prefix: Callable[[str], str]) -> ClassFolders:
    return ClassFolders(
        Pattern("places365", TITLE, rf"(?:(?P<class_id>.*)/)?(?P<file>{name})\.jpg", _NAME_FORMS[partition]),
        partition,
        classes,
        name_form=lambda _: _NAME_FORMS[partition],
        child="a category folder",
        class_of=lambda folder: spelled().get(flattened(folder)),
        prefix=prefix,
        ending=".jpg",
    )


_IMAGES = {
    "train": _images("train", "[0-9]{8}", "train{}/".format),
    "val": _images("val", "Places365_val_[0-9]{8}", lambda _: "val/"),
}

_MOS = dataclasses.replace(
    _IMAGES["train"],
    pattern=Pattern(
        "places365",
        TITLE,
        r"(?:.*/)?(?:(?P<class_id>[a-z]_[a-z_]+)_(?P<file>[0-9]{8})|(?P<file_again>Places365_val_[0-9]{8}))\.jpg",
        _NAME_FORMS["mos"],
    ),
    name_form=lambda _: _NAME_FORMS["mos"],
)
"""Images of MOS's archive, which lie in one folder and have their category in their names, such as b_badlands."""


def _train_tree(edition: _Edition, root: Path, home: Path) -> PartitionIndex | None:
    for folder in (home / name for name in edition.train):
        categories = [c[1:] for c in classes() if (folder / c[1:]).is_dir()] if folder.is_dir() else []
        if categories:
            return _scanned("train", root, home, folder, categories, _layout(edition, relative(folder, root), home))
    return None


def _easy(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    folder = home / partition
    names = [name for name in child_names(folder) if flattened(name) in easy_names()] if folder.is_dir() else []
    if not names:
        return None
    return _scanned(partition, root, home, folder, names, f"easy format, {relative(folder, root)}")


def _scanned(
    partition: str, root: Path, home: Path, place: Path, folders: Sequence[str], layout: str
) -> PartitionIndex:
    """Index category folders; where the partition's list is there, images that it lacks are left out."""
    piece = dataclasses.replace(_IMAGES[partition].in_folders(root, place, folders), layout=layout)
    listing = _find_list(root, home, {"train": _TRAIN_LIST, "val": _VAL_LIST}[partition])
    if listing is None:
        return piece
    ids, labels = _listed(listing, partition)
    table, unlisted, missing = _compared(piece.table, ids)
    strays = (*(Stray(name, f"not in {listing.name}") for name in unlisted), *piece.strays)
    counts = dict(zip(classes(), np.bincount(labels, minlength=len(classes())).tolist(), strict=True))
    return dataclasses.replace(piece, table=table, strays=strays, missing=missing, listed=counts)


def _compared(table: pa.Table, listed: pa.Array) -> tuple[pa.Table, list[str], pa.Array]:
    """Keep the listed images: Places365-Challenge has the same folders with four times the images."""
    ids = table["source_id"].combine_chunks()
    missing = listed.filter(pc.invert(pc.is_in(listed, ids)))
    if len(listed) - len(missing) == len(ids):
        return table, [], missing
    is_listed = pc.is_in(ids, listed)
    unlisted = table.filter(pc.invert(is_listed))["file"].to_pylist()
    return table.filter(is_listed), unlisted, missing


def _val_flat(edition: _Edition, root: Path, home: Path) -> PartitionIndex | None:
    folder = home / edition.val
    if not folder.is_dir():
        return None
    files = _IMAGES["val"].pattern.in_folders(root, folder)
    if not files.rows.num_rows:
        return None
    piece, listed = _by_list(root, home, files)
    missing = listed.filter(pc.invert(pc.is_in(listed, piece.table["source_id"].combine_chunks())))
    return dataclasses.replace(piece, layout=_layout(edition, relative(folder, root), home), missing=missing)


def _by_list(root: Path, home: Path, files: MatchedFiles) -> tuple[PartitionIndex, pa.Array]:
    """Index validation images, whose categories only the owners' list says; also returns all ids of the list."""
    place, listing = files.tree.place, _find_list(root, home, _VAL_LIST)
    if listing is None:
        raise BuildError(
            f"{TITLE}: the categories of the flat validation images in {place} are unknown: {_VAL_LIST} is neither "
            f"in {home} nor in {home / _LIST_FOLDER}. Unpack {_LIST_FOLDER}.tar there."
        )
    _check_categories(root, home)
    listed, labels = _listed(listing, "val")
    ids = pc.binary_join_element_wise("val/", files.groups["file"], ".jpg", "")
    rows = pc.index_in(ids, listed)
    if rows.null_count:
        raise BuildError(
            f"{TITLE}: {listing} has no line for {files.groups['file'].filter(pc.is_null(rows))[0]}.jpg in {place}. "
            "Take the list of Places365-Standard."
        )
    column = class_column(tuple(classes()), labels.take(rows).to_numpy())
    return _IMAGES["val"].pattern.partition("val", files, files.table(column, ids)), listed


def _mos(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    """Index a partition's images among MOS's 10,000, in their archive or unpacked."""
    pattern = _MOS.pattern
    files = pattern.in_archive(root, home, "Places") or pattern.in_places(root, home, ("Places/images", "images"))
    if files is None:
        return None
    of_partition = pc.not_equal if partition == "train" else pc.equal
    files = files.select(of_partition(files.groups["class_id"], ""))
    if not files.rows.num_rows:
        return None
    return _MOS.index(files) if partition == "train" else _by_list(root, home, files)[0]


def _layout(edition: _Edition, place: str, home: Path) -> str:
    """Describe the layout; where both editions are there, it names the folders of the large one as not used."""
    large = [name for name in (*_LARGE.train, _LARGE.val) if (home / name).is_dir()]
    unused = f"; {' and '.join(large)} not used" if large and edition is _SMALL else ""
    return f"{edition.name} edition, {place}{unused}"


def _find_list(root: Path, home: Path, name: str) -> Path | None:
    """Look for a list beside the images, in the folders above up to the user's, and beside the user's folder."""
    above = [home, *home.parents[: len(Path(relative(home, root)).parts)]]
    candidates = [place for folder in above for place in (folder / name, folder / _LIST_FOLDER / name)]
    candidates.append(root.parent / _LIST_FOLDER / name)
    return next((path for path in candidates if path.is_file()), None)


def _read_list(path: Path) -> pa.Table:
    options = pacsv.ParseOptions(delimiter=" ", quote_char=False)
    columns = pacsv.ReadOptions(column_names=["name", "label"])
    types = pacsv.ConvertOptions(column_types={"name": pa.string(), "label": pa.int32()}, null_values=[])
    require_regular(path)
    try:
        with open_buffered(path) as file:
            return pacsv.read_csv(file, columns, options, types).combine_chunks()
    except pa.ArrowInvalid as error:
        raise BuildError(
            f"{TITLE}: {path} has lines other than a name and a number ({one_line(error)}). Unpack "
            f"{_LIST_FOLDER}.tar again."
        ) from error


def _listed(path: Path, partition: str) -> tuple[pa.Array, pa.Array]:
    """Return the ids and labels of a list of the development kit."""
    table = _read_list(path)
    names, labels = table["name"].combine_chunks(), table["label"].combine_chunks()
    in_range = pc.and_(pc.greater_equal(labels, 0), pc.less(labels, len(classes())))
    if not pc.all(in_range).as_py():
        raise BuildError(
            f"{TITLE}: {path} has labels outside 0 to {len(classes()) - 1}, up to {pc.max(labels)}. Take the list of "
            "Places365-Standard."
        )
    repeated = pc.value_counts(names)
    repeated = repeated.filter(pc.greater(repeated.field("counts"), 1))
    if len(repeated):
        raise BuildError(
            f"{TITLE}: {path} lists {one_line(repeated[0]['values'])} more than once. Take the list of "
            "Places365-Standard."
        )
    return with_prefix({"train": "train", "val": "val/"}[partition], names), labels


def _check_categories(root: Path, home: Path) -> None:
    path = _find_list(root, home, _CATEGORIES)
    if path is None:
        return
    listed = dict(zip(*(column.to_pylist() for column in _read_list(path).columns), strict=True))
    expected = {category: number for number, category in enumerate(classes())}
    if listed != expected:
        difference = min(set(listed.items()) ^ set(expected.items()))
        raise BuildError(
            f"{TITLE}: {path} does not list its 365 categories: of {len(listed)}, {one_line(difference[0])} "
            f"{difference[1]} differs. Take the list of Places365-Standard."
        )


class _OneEdition(Search):
    """Finds the partitions, and refuses a copy that has them in different editions."""

    def scan(self, source: Source, root: Path, partitions: Sequence[str]) -> list[PartitionIndex]:
        pieces = super().scan(source, root, partitions)
        large = [piece for piece in pieces if piece.layout.startswith(_LARGE.name)]
        if large and len(large) < len(pieces):
            layouts = " and ".join(f"{piece.partition} as {piece.layout}" for piece in pieces)
            raise BuildError(
                f"{TITLE}: {root} has its partitions in different editions: {layouts}. Add the missing part of one of "
                "the two editions."
            )
        return pieces


PLACES365 = Source(
    key="places365",
    title=TITLE,
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
            dict.fromkeys(("train", "val"), (places365_mirrors.SPLITS,)),
        ),
    ),
    classes=classes,
    expected=expected,
    search=_OneEdition(
        (
            CopyLayout(
                "train",
                "data_256/a/airfield/<8 digits>.jpg (or data_256_standard/)",
                functools.partial(_train_tree, _SMALL),
            ),
            CopyLayout("train", "the easy format train/<category>/<8 digits>.jpg", functools.partial(_easy, "train")),
            CopyLayout(
                "train",
                "data_large/a/airfield/<8 digits>.jpg (or data_large_standard/)",
                functools.partial(_train_tree, _LARGE),
            ),
            CopyLayout("val", f"val_256/ with {_VAL_LIST}", functools.partial(_val_flat, _SMALL)),
            CopyLayout(
                "val", "the easy format val/<category>/Places365_val_<8 digits>.jpg", functools.partial(_easy, "val")
            ),
            CopyLayout("val", f"val_large/ with {_VAL_LIST}", functools.partial(_val_flat, _LARGE)),
            *alike(
                ("train", "val"),
                ("a Hub mirror's data/train-*.parquet with file names", places365_mirrors.index_mirror),
            ),
            *alike(
                ("train", "val"), (f"MOS's Places.tar.gz (or Places.tar), or Places/images/, with {_VAL_LIST}", _mos)
            ),
        )
    ),
    # The large edition has many images whose shorter side is 512, the small one only 256 x 256.
    pixel_sizes=PixelSizes(shared=(256, 512)),
)
