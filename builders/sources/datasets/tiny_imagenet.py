"""Tiny ImageNet: 64 x 64 pixels of 200 of ImageNet-1k's classes, 500 training and 50 validation images of each.

Its 10,000 test images are not read, since their classes were never published. A validation image's class follows from
its number (`tiny_imagenet_val.csv`), also in copies without the owner's list; a list that is there is compared.

Tested by `tests/builders/sources/datasets/test_tiny_imagenet.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import one_line
from builders.sources.base import CopyLayout, Expected, Home, Licence, PartitionIndex, Source
from builders.sources.datasets import imagenet
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import zips
from builders.sources.readers.folders import child_names
from builders.sources.readers.patterns import ClassFolders, ImageNames
from builders.sources.readers.trees import Tree
from builders.storage.files import read_regular
from taxonomy import tables

_FOLDER = "tiny-imagenet-200"
# The address is the one of Stanford's course CS231n, the MD5 what Avalanche and others check
# (avalanche/benchmarks/datasets/tiny_imagenet), and the size what several public logs of downloads have. ImageNet's
# own site, of which some projects take it, has it too.
_PUBLISHED = OwnerFile(
    f"{_FOLDER}.zip",
    248_100_043,
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    md5="90528d7ca1a48142e341f4ef8d21d0de",
    mirrors=("https://image-net.org/data/tiny-imagenet-200.zip",),
)

# The owner's lists of boxes, one in each class's folder, and of the validation images' classes.
_LIST = "val_annotations.txt"
_BESIDE = ("_boxes.txt", _LIST)

_NAMED = " with file names"
_ADVICE = f"Take the owner's {_PUBLISHED.name}, or a mirror with its file names"
_SPLITS = {"train": ("train",), "val": ("valid", "validation", "val")}
"""Names of splits in mirrors, in the order in which they are tried."""


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names of the 200 classes by wnid, sorted, as ImageNet-1k has them."""
    return {wnid: imagenet.classes()[wnid] for wnid in tables.tiny_imagenet200()}


@functools.cache
def validation_classes() -> Mapping[str, str]:
    """Return the class of each validation image by its id, such as `val/val_0.JPEG`, in the order of their numbers."""
    wnids = {
        int(n): row["wnid"] for row in tables.read_csv_rows("tiny_imagenet_val.csv") for n in row["images"].split()
    }
    return {f"val/val_{number}.JPEG": wnids[number] for number in sorted(wnids)}


def _of_folder(folder: str) -> str | None:
    wnid = folder.removesuffix("/images")
    return wnid if wnid in classes() else None


# n01443537/images/n01443537_0.JPEG; some copies lack the folder between.
_TRAINING = ClassFolders(
    r"(?P<class_id>n[0-9]{8}(?:/images)?)/(?P<image>n[0-9]{8}_[0-9]+)\.JPEG",
    "<wnid>/images/<wnid>_<number>.JPEG",
    _ADVICE,
    _BESIDE,
    file_form="{}_<number>.JPEG",
    class_of=_of_folder,
    prefix="train/{}/".format,
    ending=".JPEG",
)


class _ValidationNames(ImageNames):
    """Validation images, whose numbers say their classes."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        ids = pc.binary_join_element_wise("val/", tree.column("image"), "")
        wnids = tree.column("wnid")
        truth = pa.array(validation_classes().values()).take(
            pc.index_in(ids, value_set=pa.array(validation_classes().keys()))
        )
        wrong = pc.index(pc.and_(pc.not_equal(wnids, ""), pc.not_equal(wnids, truth)), True).as_py()
        if wrong >= 0:
            raise tree.home.other_data(
                f"{tree.home.root} ({tree.description}) has {tree.column('image')[wrong]} in the folder of the class "
                f"{wnids[wrong]}, and the owner's list gives it {truth[wrong]}"
            )
        return self.index_listed(tree, ids, validation_classes())


# images/val_0.JPEG, or what scripts make of it: n03444034/val_0.JPEG, n03444034/images/val_0.JPEG.
_VALIDATION = _ValidationNames(
    r"(?:(?P<wnid>n[0-9]{8})/)?(?:images/)?(?P<image>val_(?:0|[1-9][0-9]{0,3})\.JPEG)",
    "val_<0 to 9999>.JPEG",
    _ADVICE,
    _BESIDE,
)


def _training_folders(home: Home) -> PartitionIndex | None:
    place = home.folder / "train"
    wnids = [name for name in child_names(place) if name in classes()] if place.is_dir() else []
    if not wnids:
        return None
    inner = "/images" if "images" in child_names(place / wnids[0]) else ""
    return _TRAINING.of_folders(home, place, [wnid + inner for wnid in wnids])


def _validation_folders(home: Home) -> PartitionIndex | None:
    place = home.folder / "val"
    names = child_names(place) if place.is_dir() else []
    of_classes = [name for name in names if name in classes()]
    if of_classes:
        inner = "/images" if "images" in child_names(place / of_classes[0]) else ""
        folders = [name + inner for name in of_classes]
    else:
        folders = [name for name in names if name == "images"]
    if not folders:
        return None
    tree = _VALIDATION.in_folders(home, place, folders)
    if not tree.rows.num_rows:
        return None
    if _LIST in names:
        _refuse_altered(home, place / _LIST, read_regular(place / _LIST))
    return _VALIDATION.indexed(tree)


def _training_archive(home: Home) -> Tree | None:
    return _TRAINING.in_archive(home, _PUBLISHED.name, f"{_FOLDER}/train/")


def _validation_archive(home: Home) -> Tree | None:
    tree = _VALIDATION.in_archive(home, _PUBLISHED.name, f"{_FOLDER}/val/")
    content = zips.read_file(tree.place, f"{_FOLDER}/val/{_LIST}") if tree is not None else None
    if tree is not None and content is not None:
        _refuse_altered(home, tree.place / _LIST, content)
    return tree


def _training_mirror(home: Home) -> Tree | None:
    wnids = {wnid: wnid for wnid in classes()}
    return _TRAINING.in_parquet(
        home, _SPLITS["train"], lambda shard: shard.in_folders_of_starts(wnids), labelled=False
    )


def _validation_mirror(home: Home) -> Tree | None:
    return _VALIDATION.in_parquet(home, _SPLITS["val"], lambda shard: shard.file_names, labelled=False)


def _refuse_altered(home: Home, place: Path, content: bytes) -> None:
    """Refuse a list of validation images that is not the owner's: public copies have 202 classes, for instance."""
    for line in filter(str.strip, content.decode("utf-8", "replace").splitlines()):
        name, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        truth = validation_classes().get(f"val/{name}")
        if wnid != truth:
            raise home.other_data(
                f"{place} gives {one_line(name)} the class {one_line(wnid)}, and the owner's list "
                f"{truth or 'has no such image'}, so that this copy was altered"
            )


TINY_IMAGENET = Source(
    key="tiny_imagenet",
    title="Tiny ImageNet",
    edition=f"Tiny ImageNet (2015; {_PUBLISHED.name} has the MD5 {_PUBLISHED.md5})",
    # The course's page is no longer there, and the archive has no licence.
    licence=Licence(
        name="none stated; images under ImageNet's terms of access",
        url="https://www.image-net.org/download.php",
        statement=(
            "The archive of Stanford's course CS231n states no licence. Its images are ImageNet's, which does not own "
            "their copyright and gives them for non-commercial research and education."
        ),
        publish="ids-only",
    ),
    citation="""@techreport{le2015tiny,
  title = {Tiny {ImageNet} Visual Recognition Challenge},
  author = {Le, Ya and Yang, Xuan},
  institution = {Stanford University, CS 231N},
  year = {2015}
}""",
    obtain=Obtain.packed(
        "http://cs231n.stanford.edu/",
        _PUBLISHED,
        # Of mirrors on the Hub none is known to keep the owner's file names.
        mirror=Mirror("", {partition: tuple((split,) for split in splits) for partition, splits in _SPLITS.items()}),
    ),
    classes=classes,
    expected=lambda: {"train": Expected.each(classes(), 500), "val": Expected.each(classes(), 50)},
    accepted=(
        CopyLayout(f"train/{_TRAINING.name_form} (or without images/)", _training_folders, ("train",)),
        _TRAINING.layout(f"the archive {_PUBLISHED.name}", _training_archive, "train"),
        CopyLayout(
            f"val/images/{_VALIDATION.name_form}, or in class folders val/<wnid>/ or val/<wnid>/images/",
            _validation_folders,
            ("val",),
        ),
        _VALIDATION.layout(f"the archive {_PUBLISHED.name}", _validation_archive, "val"),
        _TRAINING.layout(f"a Hub mirror's data/train-*.parquet{_NAMED}", _training_mirror, "train"),
        _VALIDATION.layout(
            f"a Hub mirror's data/valid-*.parquet (or validation-*, val-*){_NAMED}", _validation_mirror, "val"
        ),
    ),
    one_size=(64, 64),
)
