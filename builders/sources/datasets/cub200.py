"""CUB-200-2011: photographs of 200 kinds of birds, of which the Semantic Shift Benchmark takes 100 as known.

`test` is the owners' test set. `train` has the training images of the known classes alone: which images of the other
classes train, no table here says, and no benchmark takes them. An image's id is its path below `images/`, and the
lists of the table hold also in copies without the owners' `train_test_split.txt`.

Tested by `tests/builders/sources/test_ssb.py`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping

from builders.sources.base import Expected, Home, Licence, Source
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers import trees
from builders.sources.readers.folders import child_names
from builders.sources.readers.patterns import ListedNames
from builders.sources.readers.trees import Tree
from taxonomy import tables

_FOLDER = "CUB_200_2011"
# The address, the size and the MD5 are those of CaltechDATA's record 65de6-vp158 as several public repositories check
# them, and so is the SHA-256.
_PUBLISHED = OwnerFile(
    f"{_FOLDER}.tgz",
    1_150_585_339,
    url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
    md5="97eceeb196236b17998738112f37df78",
    sha256="0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the class names by folder, such as `001.Black_footed_Albatross`, in the owners' order."""
    return {row["class"]: row["class"][4:].replace("_", " ") for row in tables.read_csv_rows("cub200.csv")}


@functools.cache
def listed_images(partition: str) -> Mapping[str, str]:
    """Return the class of each image by its id, such as `<class>/Black_Footed_Albatross_0046_18.jpg`."""
    images: dict[str, str] = {}
    for row in tables.read_csv_rows("cub200.csv"):
        folder = row["class"]
        name = "_".join(word[:1].upper() + word[1:] for word in folder[4:].split("_"))
        for image in row[partition].split():
            place, _, number = image.partition("_")
            images[f"{folder}/{name}_{place:0>4}_{number}.jpg"] = folder
    return images


def _expected(partition: str) -> Expected:
    counts = Counter(listed_images(partition).values())
    return Expected.of({name: counts[name] for name in classes()})


_IMAGES = ListedNames(
    r"(?P<image>[0-9]{3}\.[A-Za-z_]+/[A-Za-z_]+_[0-9]{4}_[0-9]+\.jpg)",
    "<class>/<Class>_<4 digits>_<number>.jpg",
    listed=listed_images,
)


def _folders(home: Home) -> Tree | None:
    """List the class folders in `images` or in the home itself."""
    for place in (home.folder / "images", home.folder):
        if place.is_dir() and not classes().keys().isdisjoint(child_names(place)):
            return trees.in_depth(home, place).match(_IMAGES.pattern)
    return None


CUB200 = Source(
    key="cub200",
    title="CUB-200-2011",
    edition=f"Caltech-UCSD Birds-200-2011 (2011; {_PUBLISHED.name} has the MD5 {_PUBLISHED.md5})",
    # We have seen neither the owners' page nor their record; the README in the archive names no licence.
    licence=Licence(
        name="none stated in the archive; images remain their photographers'",
        url="https://www.vision.caltech.edu/datasets/cub_200_2011/",
        statement=(
            "The README of the archive states no licence, and we have not seen the owners' page. The photographs were "
            "found on Flickr and remain their photographers'."
        ),
        publish="ids-only",
    ),
    citation="""@techreport{wah2011cub,
  title = {The {Caltech-UCSD} {Birds-200-2011} Dataset},
  author = {Wah, Catherine and Branson, Steve and Welinder, Peter and Perona, Pietro and Belongie, Serge},
  institution = {California Institute of Technology},
  number = {CNS-TR-2011-001},
  year = {2011}
}""",
    obtain=Obtain.packed("https://www.vision.caltech.edu/datasets/cub_200_2011/", _PUBLISHED),
    classes=classes,
    expected=lambda: {partition: _expected(partition) for partition in ("train", "test")},
    accepted=(
        _IMAGES.layout(f"{_FOLDER}/images/{_IMAGES.name_form}, or the class folders themselves", _folders),
        _IMAGES.archive(_PUBLISHED.name, f"{_FOLDER}/images/"),
    ),
    shared_sides=(),
)
