"""OpenImage-O: 17,632 pictures from the test set of Open Images that show none of ImageNet-1k's classes.

OpenOOD divides them into 15,869 for testing and 1,763 for validation. Names say nothing, so a copy needs OpenOOD's
list of a partition, unless it holds exactly the partition's images.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path

from builders.errors import BuildError
from builders.sources.base import Expected, Licence, OtherDataError, PartitionIndex, Source
from builders.sources.obtain import Obtain
from builders.sources.overlap import COLUMNS, overlap_columns
from builders.sources.readers.folders import with_folders_above
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from builders.sources.sizes import sampled_sizes

_KEY = "openimage_o"
_TITLE = "OpenImage-O"
_CLASS = "unlabelled"  # the set has no labels of its own
_SIZES = {"test": 15_869, "val": 1_763}
_NAME = r"[0-9a-f]{16}\.jpg"
_NAME_FORM = "<16 hexadecimal digits>.jpg"

# SHA-256 over the sorted file names, joined by newlines. The lists are OpenOOD's (benchmark_imglist/imagenet), and
# together they have the names of ViM's datalists/openimage_o.txt.
_DIGESTS = {
    "test": "50a22773364cff1fd17e67f62d8621b94e676843dd77197ba2c0e30b10f3be40",
    "val": "de3f75dace88435f73f797dc55319098d94b51016c472ca7a66eeebc415e4487",
}

# Where people have the lists: beside the images, in OpenOOD's tree, and in a folder named as ViM's.
_LIST_FOLDERS = (".", "benchmark_imglist/imagenet", "benchmark_imglist/imagenet200", "datalists")


def _list_of(partition: str, home: Path) -> tuple[Path, list[str]] | None:
    """Return path and names of a partition's list, in a folder, where OpenOOD has it, or in the three folders above.

    Raises:
        BuildError: a line has no such name, or the list is as long as OpenOOD's and has other names.
    """
    folders = [folder / inner for folder in with_folders_above(home) for inner in _LIST_FOLDERS]
    paths = [folder / f"{partition}_openimage_o.txt" for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    # OpenOOD's lines are a path and -1, ViM's a name alone.
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names = [line.split()[0].rpartition("/")[2] for line in lines if line.strip()]
    wrong = next((name for name in names if not re.fullmatch(_NAME, name, re.ASCII)), None)
    complete = len(names) == _SIZES[partition]
    if wrong is not None or not names or (complete and _digest(names) != _DIGESTS[partition]):
        problem = "it has other names" if wrong is None and names else ascii(wrong) if wrong else "it has no lines"
        raise BuildError(
            f"{_TITLE}: {path} is not OpenOOD's list of {partition}: {problem}. Take the list from OpenOOD's "
            "benchmark_imglist.zip again."
        )
    return path, names


def _digest(names: list[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


class _OpenImageNames(ImageNames):
    """Images that a partition's list names; without a list all, if they are exactly the partition's."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        root, partition = tree.home.root, tree.home.partition
        ids, layout = tree.column("id"), tree.description
        listed = _list_of(partition, tree.place if tree.place.is_dir() else tree.place.parent)
        if listed is not None:
            path, names = listed
            found = self.index_listed(tree, ids, dict.fromkeys(names, _CLASS), overlap_columns)
            layout = f"{layout}, {found.table.num_rows:,} of {len(ids):,} by {path.name}"
        elif _digest(ids.to_pylist()) == _DIGESTS[partition]:
            found = self.index(tree, _CLASS, ids, overlap_columns(_KEY, ids))
        else:
            raise OtherDataError(
                f"{_TITLE}: which of the {len(ids):,} images in {root} ({layout}) are its {partition} images is not "
                f"known: there is no {partition}_openimage_o.txt beside them. Put OpenOOD's list there, from "
                "benchmark_imglist/imagenet in its benchmark_imglist.zip."
            )
        # Copies have 512 or 1,024 pixels, the originals more.
        longest = [max(size) for size in sampled_sizes(root, found)]
        sides = (
            f"longest side up to {max(longest):,} pixels in {len(longest)} examined" if longest else "sizes unknown"
        )
        return dataclasses.replace(found, layout=f"{layout}; {sides}")


_IMAGES = _OpenImageNames(
    rf"(?:.*/)?(?P<id>{_NAME})",
    _NAME_FORM,
    "Take a mirror that kept the file names, or the images themselves in a folder",
)


OPENIMAGE_O = Source(
    key=_KEY,
    title=_TITLE,
    edition="OpenImage-O (2022), divided as in OpenOOD",
    licence=Licence(
        name="CC BY 2.0 as listed, to be verified for each image",
        url="https://github.com/openimages/dataset/blob/main/READMEV3.md",
        statement=(
            "Open Images lists its images as CC BY 2.0, warrants that for none of them, and asks to verify each. "
            "Their authors are listed there by the image's id."
        ),
        publish="gated",
    ),
    citation="""@inproceedings{wang2022vim,
  title = {{ViM}: Out-of-Distribution with Virtual-logit Matching},
  author = {Wang, Haoqi and Li, Zhizhong and Feng, Litong and Zhang, Wayne},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year = {2022}
}

@article{kuznetsova2020openimages,
  title = {The Open Images Dataset {V4}: Unified image classification, object detection, and visual relationship
           detection at scale},
  author = {Kuznetsova, Alina and Rom, Hassan and Alldrin, Neil and Uijlings, Jasper and Krasin, Ivan and
            Pont-Tuset, Jordi and Kamali, Shahab and Popov, Stefan and Malloci, Matteo and Kolesnikov, Alexander and
            Duerig, Tom and Ferrari, Vittorio},
  journal = {International Journal of Computer Vision},
  volume = {128},
  pages = {1956--1981},
  year = {2020}
}""",
    obtain=Obtain(
        "https://github.com/Jingkang50/OpenOOD",
        "download openimage_o and benchmark_imglist with its script scripts/download/download.py",
    ),
    classes=lambda: {_CLASS: _CLASS},
    # OpenOOD's partitions, which together are all images.
    expected=lambda: {name: Expected.of({_CLASS: size}) for name, size in _SIZES.items()},
    accepted=(
        _IMAGES.anywhere("openimage_o/images", ", with {partition}_openimage_o.txt"),
        _IMAGES.archive("openimage_o.tar", beside=" with the same list"),
        _IMAGES.mirror(
            "a Hub mirror's Parquet files with file names, with the same list",
            ("train", "validation", "test"),
            labelled=False,
        ),
    ),
    shared_sides=(),
    columns=COLUMNS,
)
