"""ImageNet-C: ImageNet-1k's validation images with 15 corruptions of 5 severities, as its authors published them.

They are 3.75 million. Only the 10,000 that OpenOOD lists are indexed, each of another photograph. OpenOOD's copy has
no folders of classes: an image's class is that of its photograph.

Tested by `tests/builders/sources/datasets/test_imagenet_c.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping

import pyarrow.compute as pc

from builders.sources.base import Expected, Home, Licence, PartitionIndex, Source
from builders.sources.datasets.imagenet import classes
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers import tars
from builders.sources.readers.folders import child_names
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from taxonomy import lists, tables

# MD5s as Zenodo's record has them, by four independent lists (pytorch-ood's among them); the sizes are the rounded
# ones of its page.
_PUBLISHED = tuple(
    OwnerFile(
        f"{group}.tar",
        size * 1_000_000_000,
        url=f"https://zenodo.org/records/2235448/files/{group}.tar",
        md5=md5,
        rounded=True,
    )
    for group, size, md5 in (
        ("noise", 21, "e80562d7f6c3f8834afb1ecf27252745"),
        ("blur", 7, "2d8e81fdd8e07fef67b9334fa635e45c"),
        ("weather", 12, "33ffea4db4d93fe4a428c40a6ce0c25d"),
        ("digital", 7, "89157860d7b10d5797849337ca2e5c03"),
    )
)
_NAMES = tuple(file.name for file in _PUBLISHED)
_GROUPS = tuple(name.removesuffix(".tar") for name in _NAMES)


@functools.cache
def _listed() -> Mapping[str, str]:
    """Return the class of each listed image by its id, which ends with the number of its photograph."""
    rows = tables.read_csv_rows("imagenet_c.csv")
    wnids = {f"{number:0>8}.JPEG": row["wnid"] for row in rows for number in row["images"].split()}
    return {name: wnids[name[-13:]] for name in lists.load_list("openood_imagenet_c")}


@functools.cache
def _needed() -> Mapping[str, set[str]]:
    """Return the classes of the listed images, by corruption and severity such as `fog/3`."""
    needed: dict[str, set[str]] = {}
    for name, wnid in _listed().items():
        needed.setdefault(name.rpartition("/")[0], set()).add(wnid)
    return needed


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the only partition, by OpenOOD's list (benchmark_imglist/imagenet/test_imagenet_c.txt)."""
    counts = Counter(_listed().values())
    return {"openood": Expected.of({wnid: counts[wnid] for wnid in classes()})}


class _ImageNetCNames(ImageNames):
    """Images of OpenOOD's list, in folders of corruptions and severities."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        ids = pc.binary_join_element_wise(tree.column("kind"), tree.column("image"), "/")
        return self.index_listed(tree, ids, _listed())


# brightness/1/n02391049/ILSVRC2012_val_00000806.JPEG; in OpenOOD's copy there is no wnid between.
_IMAGES = _ImageNetCNames(
    r"(?:.*/)?(?P<kind>[a-z_]+/[1-5])/(?:n[0-9]{8}/)?(?P<image>ILSVRC2012_val_[0-9]{8}\.JPEG)",
    "ILSVRC2012_val_<8 digits>.JPEG",
)


def _folders(home: Home) -> Tree | None:
    """List the folders of classes that have listed images, or those of severities without folders of classes."""
    folders: list[str] = []
    above = [group for group in ("", *_GROUPS) if not group or (home.folder / group).is_dir()]
    corruptions = {kind.partition("/")[0] for kind in _needed()}
    places = {
        corruption: [
            place for group in above if (home.folder / (place := f"{group}/{corruption}".lstrip("/"))).is_dir()
        ]
        for corruption in corruptions
    }
    for kind, wnids in _needed().items():
        for place in places[kind.partition("/")[0]]:
            inner = f"{place}/{kind[-1]}"
            if (home.folder / inner).is_dir():
                children = set(child_names(home.folder / inner))
                folders += [f"{inner}/{wnid}" for wnid in sorted(wnids & children)] or [inner]
    return _IMAGES.in_folders(home, home.folder, folders) if folders else None


def _is_listed(path: str) -> bool:
    """Whether a path in an archive, `<corruption>/<severity>/<wnid>/<name>`, is of a listed image."""
    parts = path.split("/")[-4:]
    return "/".join((*parts[:2], parts[-1])) in _listed()


def _archives(home: Home) -> Tree | None:
    paths = [path for name in _NAMES if (path := home.folder / name).is_file()]
    if not paths:
        return None
    tree = _IMAGES.in_tars(home, home.folder, (("", path, tars.members(path, _is_listed)) for path in paths))
    return dataclasses.replace(tree, description=f"archives {', '.join(path.name for path in paths)}")


IMAGENET_C = Source(
    key="imagenet_c",
    title="ImageNet-C",
    edition="ImageNet-C (2019), the images that OpenOOD v1.5 lists",
    licence=Licence(
        name="CC BY 4.0 as listed; images under ImageNet's terms of access",
        url="https://zenodo.org/records/2235448",
        statement=(
            "The archives are listed as CC BY 4.0, which we have not verified. The images were made of ImageNet's, "
            "which does not own their copyright and gives them for non-commercial research and education."
        ),
        publish="ids-only",
    ),
    citation="""@inproceedings{hendrycks2019benchmarking,
  title = {Benchmarking Neural Network Robustness to Common Corruptions and Perturbations},
  author = {Hendrycks, Dan and Dietterich, Thomas},
  booktitle = {International Conference on Learning Representations},
  year = {2019}
}""",
    obtain=Obtain.packed("https://github.com/hendrycks/robustness", *_PUBLISHED),
    classes=classes,
    expected=expected,
    accepted=(
        _IMAGES.layout(
            "<corruption>/<severity>/<wnid>/ILSVRC2012_val_<8 digits>.JPEG, also in folders called as the "
            "archives, or without <wnid> as in OpenOOD's images_largescale/imagenet_c",
            _folders,
        ),
        _IMAGES.layout(f"the original archives {', '.join(_NAMES)}, read in place", _archives),
    ),
    one_size=(224, 224),
)
