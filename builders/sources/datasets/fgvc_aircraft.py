"""FGVC-Aircraft: photographs of 100 variants of aircraft, of which the Semantic Shift Benchmark takes 50 as known.

`test` is the owners' test set. `train` has the training and validation images of the known variants alone, with which
that benchmark trains. The files lie in one folder under numbers that say nothing; the table has the variant of each,
as the owners' `images_variant_*.txt` have it, which a copy may lack. Every image has a banner of 20 pixels at its foot
with its copyright, which its bytes keep.

Tested by `tests/builders/sources/test_ssb.py`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping

from builders.sources.base import Expected, Licence, Source
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers.patterns import ListedNames
from taxonomy import tables

_FOLDER = "fgvc-aircraft-2013b"
# The address is torchvision's (datasets/fgvc_aircraft.py), the MD5 that of torchvision's port to R and others, the
# size what two public repositories check, and the SHA-256 what one of them does.
_PUBLISHED = OwnerFile(
    f"{_FOLDER}.tar.gz",
    2_753_340_328,
    url="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
    md5="d4acdd33327262359767eeaa97a4f732",
    sha256="e4e323d410e29f0370c81eabdcbb0e2b813acea1de22891b70b58ff41bfc9834",
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the variants in byte order, such as `A318`; their ids are their names."""
    return {row["variant"]: row["variant"] for row in tables.read_csv_rows("fgvc_aircraft.csv")}


@functools.cache
def listed_images(partition: str) -> Mapping[str, str]:
    """Return the variant of each image by its id, such as `1514522.jpg`."""
    rows = tables.read_csv_rows("fgvc_aircraft.csv")
    return {f"{number}.jpg": row["variant"] for row in rows for number in row[partition].split()}


def _expected(partition: str) -> Expected:
    counts = Counter(listed_images(partition).values())
    return Expected.of({name: counts[name] for name in classes()})


_IMAGES = ListedNames(r"(?P<image>[0-9]{7}\.jpg)", "<7 digits>.jpg", listed=listed_images)

FGVC_AIRCRAFT = Source(
    key="fgvc_aircraft",
    title="FGVC-Aircraft",
    edition=f"FGVC-Aircraft 2013b ({_PUBLISHED.name} has the MD5 {_PUBLISHED.md5})",
    licence=Licence(
        name="non-commercial research",
        url="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
        statement=(
            "The photographers make the images available for non-commercial research only and keep their copyright. "
            "The owners ask that the banner at the foot of each image, which names the photographer, be taken off "
            "before algorithms are trained or evaluated."
        ),
        publish="ids-only",
    ),
    citation="""@article{maji2013aircraft,
  title = {Fine-Grained Visual Classification of Aircraft},
  author = {Maji, Subhransu and Kannala, Juho and Rahtu, Esa and Blaschko, Matthew and Vedaldi, Andrea},
  year = {2013},
  eprint = {1306.5151},
  archivePrefix = {arXiv}
}""",
    obtain=Obtain.packed("https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/", _PUBLISHED),
    classes=classes,
    expected=lambda: {partition: _expected(partition) for partition in ("train", "test")},
    accepted=(
        _IMAGES.anywhere("data/images"),
        _IMAGES.archive(_PUBLISHED.name, f"{_FOLDER}/data/images/"),
    ),
    shared_sides=(),
)
