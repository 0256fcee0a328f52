"""SVHN's full numbers (format 1): the original house-number images, of any size, each with one or more digits."""

from __future__ import annotations

import dataclasses
import operator

import pyarrow.compute as pc

from builders.sources.base import CopyLayout, Expected, Home, PartitionIndex, Source
from builders.sources.datasets import svhn
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree

_CLASS = "number"

# Addresses, sizes and SHA-256 are those of the Hub's loader (huggingface/datasets, datasets/svhn/dataset_infos.json).
_FILES = (
    OwnerFile(
        "train.tar.gz",
        404_141_560,
        url="http://ufldl.stanford.edu/housenumbers/train.tar.gz",
        sha256="4b17bb33b6cd8f963493168f80143da956f28ec406cc12f8e5745a9f91a51898",
    ),
    OwnerFile(
        "test.tar.gz",
        276_555_967,
        url="http://ufldl.stanford.edu/housenumbers/test.tar.gz",
        sha256="57ac9ceb530e4aa85b55d991be8fc49c695b3d71c6f6a88afea86549efde7fb5",
    ),
)

# The other files of the archives: the digits and their boxes (HDF5), and the owners' script that draws the boxes.
# Names and tree are those that many public repositories list.
_BESIDE = ("digitStruct.mat", "see_bboxes.m")


# An image shows several digits, so none of them is its class.
_CLASSES = {_CLASS: "house number"}


class _NumberNames(ImageNames):
    """Numbered images."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        return self.index(tree, _CLASS, pc.binary_join_element_wise(tree.home.partition, tree.column("image"), "/"))


_NAME = r"(?P<image>[1-9][0-9]*\.png)"
_NAME_FORM = "<number>.png"
_IMAGES = _NumberNames(_NAME, _NAME_FORM, beside=_BESIDE)


def _archive(home: Home) -> PartitionIndex | None:
    folder = f"{home.partition}/"
    inside = dataclasses.replace(_IMAGES, pattern=folder + _NAME, name_form=folder + _NAME_FORM)
    tree = inside.in_archive(home, home.partition)
    return None if tree is None else inside.indexed(tree)


def _parquet(home: Home) -> Tree | None:
    """List the Hub's copy, which has the archives' names, in the archives' order."""
    names = operator.attrgetter("file_names")
    return _IMAGES.in_parquet(home, (home.partition,), names, beside="digits", labelled=False)


SVHN_FULL = Source(
    key="svhn_full",
    title="SVHN (full numbers)",
    edition="SVHN, format 1: full numbers (2011)",
    licence=svhn.LICENCE,
    citation=svhn.CITATION,
    obtain=Obtain(
        svhn.LICENCE.url,
        "download format 1, train.tar.gz and test.tar.gz; they can stay packed",
        files=_FILES,
        mirror=Mirror(
            "hf://datasets/ufldl-stanford/svhn/full_numbers", {"train": (("train",),), "test": (("test",),)}
        ),
    ),
    classes=lambda: _CLASSES,
    # From the Hub's copy; the `extra` images are not indexed.
    expected=lambda: {"train": Expected.each(_CLASSES, 33_402), "test": Expected.each(_CLASSES, 13_068)},
    accepted=(
        _IMAGES.layout(f"{{partition}}/{_NAME_FORM}", lambda home: _IMAGES.in_places(home, home.partition)),
        CopyLayout("the original archive {partition}.tar.gz (or {partition}.tar, read in place)", _archive),
        _IMAGES.layout("the Hub's full_numbers/{partition}-*.parquet (also in data/)", _parquet),
    ),
)
