"""Caltech-256: 256 object classes and clutter.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from builders.sources.base import Expected, Licence, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers.patterns import ClassFolders
from taxonomy import tables

_FOLDER = "256_ObjectCategories"

# The address and the MD5 are torchvision's (datasets/caltech.py); voxel51/fiftyone's catalogue gives 1.16 GB.
_PUBLISHED = OwnerFile(
    f"{_FOLDER}.tar",
    1_160_000_000,
    url="https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
    md5="67b4f42ca05d46448c6bb8ecd2220f6d",
    rounded=True,
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the class names by folder in the archive, such as `133.lightning`."""
    return {row.folder: row.name for row in tables.caltech256()}


# bitmind/caltech-256 has the columns image and filename and one split; ilee0022/Caltech-256 has three splits, label
# numbers and, according to its card, no file names.
_SPLITS = ("train", "validation", "test")
_ADVICE = (
    "Take bitmind/caltech-256, which has a column of file names (ilee0022/Caltech-256 has none), or the owner's "
    f"{_FOLDER}.tar, unpacked"
)

_IMAGES = ClassFolders(
    r"(?P<class_id>(?P<number>[0-9]{3})\.[^/]*)/(?P<image>(?P<number_again>[0-9]{3})_[0-9]{4}\.jpg)",
    "<number>.<class>/<number>_<4 digits>.jpg",
    _ADVICE,
    file_form="{:.3}_<4 digits>.jpg",
)

CALTECH256 = Source(
    key="caltech256",
    title="Caltech-256",
    edition="CaltechDATA version 1.0 (2022; collected 2007)",
    # We have not seen the rights field itself: two independent inventories of datasets quote it as CC BY 4.0, and no
    # stored copy of the record's page shows it. The record's own description says how the images were collected.
    licence=Licence(
        name="CC BY 4.0",
        url="https://data.caltech.edu/records/nyy15-4j048",
        statement=(
            "CaltechDATA lists the collection under the Creative Commons Attribution 4.0 International licence. The "
            "images were downloaded from image search and then screened by hand."
        ),
        publish="open",
    ),
    citation="""@techreport{griffin2007caltech256,
  title = {{Caltech-256} Object Category Dataset},
  author = {Griffin, Gregory and Holub, Alex and Perona, Pietro},
  institution = {California Institute of Technology},
  number = {CNS-TR-2007-001},
  year = {2007},
  doi = {10.22002/D1.20087}
}""",
    obtain=Obtain.packed(
        "https://data.caltech.edu/records/nyy15-4j048",
        _PUBLISHED,
        mirror=Mirror("hf://datasets/bitmind/caltech-256", {"images": (_SPLITS,)}),
    ),
    classes=classes,
    # All images, clutter included.
    expected=lambda: {"images": Expected.of({row.folder: row.images for row in tables.caltech256()})},
    accepted=(
        *_IMAGES.layouts(_PUBLISHED, _FOLDER),
        _IMAGES.mirror(
            "a Hub mirror's data/train-*.parquet with file names (also validation-*, test-*)",
            _SPLITS,
            lambda shard: shard.in_folders_of_starts({folder[:3]: folder for folder in classes()}),
            labelled=False,
        ),
    ),
    shared_sides=(),
)
