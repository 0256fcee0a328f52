"""ImageNet-21k, reduced to the images that published lists name.

The lists are SSB-hard as OpenOOD has it (980 classes with 50 images each) and ImageNet-OOD (637 classes); a partition
is a list. Two editions are in circulation. SSB-hard's 1,000 classes are of fall 2011; winter 2021, which alone the
owners still offer, lacks some of them, such as n10506915 (sgvaze/osr_closed_set_all_you_need, issue 12), and so does
OpenOOD's list, which its maintainer probably drew from it. From which one ImageNet-OOD was made is not known to us.
What a copy lacks of a list is counted and named.

Tested by `tests/builders/sources/datasets/test_imagenet21k.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import Expected, Home, PartitionIndex, Source
from builders.sources.datasets.imagenet import IMAGENET
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers import tars
from builders.sources.readers.folders import child_names
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from taxonomy import lists
from taxonomy.wordnet import nouns
from unknown_detection.words import first_few

_FALL = "fall11_whole.tar"

# The MD5 as three independent lists give it, datadings among them; we know of no size.
_WINTER = OwnerFile("winter21_whole.tar.gz", 0, md5="ab313ce03179fd803a401b02c651c0a2")


@functools.cache
def _counts(partition: str) -> Counter[str]:
    """Return how many images a list has of each class."""
    return Counter(lists.load_list(partition).values())


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names of the classes in the lists, by wnid, sorted."""
    wordnet = nouns.load_wordnet()
    wnids = sorted({wnid for name in lists.OF_IMAGENET21K for wnid in _counts(name)})
    return {wnid: ", ".join(wordnet.lemmas(wordnet.row(wnid))) for wnid in wnids}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the numbers of images in the lists."""
    return {name: Expected.of({wnid: _counts(name)[wnid] for wnid in classes()}) for name in lists.OF_IMAGENET21K}


class _ImageNet21kNames(ImageNames):
    """Images of a list, in class folders."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        partition = tree.home.partition
        ids = pc.binary_join_element_wise(tree.column("class_id"), tree.column("image"), "/")
        found = self.index_listed(tree, ids, lists.load_list(partition))
        return dataclasses.replace(found, hint=_lacks(partition, found.missing))


_IMAGES = _ImageNet21kNames(
    r"(?:.*/)?(?P<class_id>n[0-9]{8})/(?P<image>(?P<class_id_again>n[0-9]{8})_[0-9]+\.JPEG)",
    "<wnid>_<number>.JPEG",
)


def _lacks(partition: str, missing: pa.Array) -> str:
    """Say how many of the listed images a copy lacks, and of which classes it has none."""
    if not len(missing):
        return ""
    lacking = pc.value_counts(pc.utf8_slice_codeunits(missing, 0, 9)).to_pylist()
    none = [row["values"] for row in lacking if row["counts"] == _counts(partition)[row["values"]]]
    of_none = f", among them all of {first_few(none, 5)}"
    count = f"the copy lacks {len(missing):,} of the {expected()[partition].total:,} listed images"
    return f"{count}{of_none if none else ''}; the editions of fall 2011 and winter 2021 differ"


def _folders(home: Home) -> Tree | None:
    children = set(child_names(home.folder))
    folders = [wnid for wnid in _counts(home.partition) if wnid in children]
    return _IMAGES.in_folders(home, home.folder, folders, "class folders") if folders else None


def _folder_of_tars(home: Home) -> Tree | None:
    children = set(child_names(home.folder))
    wnids = [wnid for wnid in _counts(home.partition) if f"{wnid}.tar" in children]
    paths = [(wnid, home.folder / f"{wnid}.tar") for wnid in wnids]
    inner = ((wnid, path, tars.members(path)) for wnid, path in paths)
    return _IMAGES.in_tars(home, home.folder, inner) if paths else None


def _tar_of_tars(home: Home) -> Tree | None:
    path = home.folder / _FALL
    if not path.is_file():
        return None
    names = {f"{wnid}.tar" for wnid in _counts(home.partition)}
    inner = ((name.removesuffix(".tar"), path, members) for name, members in tars.nested_members(path, names))
    return _IMAGES.in_tars(home, path, inner)


IMAGENET21K = Source(
    key="imagenet21k",
    title="ImageNet-21k",
    edition="ImageNet, fall 2011 or winter 2021",
    licence=IMAGENET.licence,
    citation="""@inproceedings{deng2009imagenet,
  title = {{ImageNet}: A Large-Scale Hierarchical Image Database},
  author = {Deng, Jia and Dong, Wei and Socher, Richard and Li, Li-Jia and Li, Kai and Fei-Fei, Li},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year = {2009}
}""",
    obtain=Obtain(
        "https://www.image-net.org/download.php",
        f"agree to the terms of access, then download {_WINTER.name} and unpack it once, or only the needed classes, "
        f"winter21_whole/<wnid>.tar each; the edition of fall 2011, {_FALL}, is no longer offered there",
        files=(_WINTER,),
    ),
    classes=classes,
    expected=expected,
    accepted=(
        _IMAGES.layout(
            "<wnid>/<wnid>_<number>.JPEG, as unpacked and as in OpenOOD's images_largescale/ssb_hard", _folders
        ),
        _IMAGES.layout(
            f"the archives of the classes, <wnid>.tar, as unpacked from {_FALL} or {_WINTER.name}", _folder_of_tars
        ),
        _IMAGES.layout(f"the archive {_FALL}, read in place", _tar_of_tars),
    ),
    shared_sides=(),
)
