"""Caltech-256: 256 object classes and clutter."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from builders.sources.base import Expected, Licence, PixelSizes, Source
from builders.sources.folders import SideBySide
from builders.sources.search import Layout, Search
from taxonomy import tables

_TITLE = "Caltech-256"
_PARTITION = "images"
_FOLDER = "256_ObjectCategories"


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the name of each class by its folder in the archive, such as `133.lightning`."""
    return {row.folder: row.name for row in tables.caltech256()}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the only partition, all images, clutter included."""
    counts = {row.folder: row.images for row in tables.caltech256()}
    return {_PARTITION: Expected(sum(counts.values()), counts)}


_FOLDERS = SideBySide(
    _PARTITION,
    classes,
    pattern=lambda folder: rf"^{folder[:3]}_[0-9]{{4}}\.jpg$",
    wanted=lambda folder: f"{folder[:3]}_<4 digits>.jpg",
)

_SEARCH = Search(
    key="caltech256",
    title=_TITLE,
    homes=(".", "caltech256"),
    layouts=(
        Layout(_PARTITION, f"{_FOLDER}/<number>.<class>/<number>_<4 digits>.jpg", _FOLDERS.below(_FOLDER)),
        Layout(_PARTITION, "the class folders themselves", _FOLDERS.scan),
    ),
    expected=expected,
)

CALTECH256 = Source(
    key=_SEARCH.key,
    title=_TITLE,
    edition="CaltechDATA version 1.0 (2022; collected 2007)",
    # The rights field was not seen itself: two independent inventories of datasets quote it as CC BY 4.0, and no
    # stored copy of the record's page shows it. How the images were collected is in the record's own description.
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
    layouts=_SEARCH.descriptions,
    classes=classes,
    expected=expected,
    scan=_SEARCH.scan,
    pixel_sizes=PixelSizes(),
)
