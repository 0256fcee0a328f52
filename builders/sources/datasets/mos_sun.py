"""SUN as the authors of MOS published it: 10,000 images of SUN397 in one folder, without their categories.

Names in SUN397 are the same, but SUN397's ids begin with a category, which is known only from a copy of it. So these
images have no class, and ids of their own.

Tested by `tests/builders/sources/test_mos.py`.
"""

from __future__ import annotations

from builders.sources.base import Expected, PartitionIndex, Source
from builders.sources.datasets.inaturalist import UNLISTED
from builders.sources.datasets.sun397 import SUN397
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from taxonomy import lists

_KEY = "mos_sun"
_CLASS = "unlabelled"  # the published files do not say their categories

# The address is in the owners' README (deeplearning-wisc/large_scale_ood), which gives neither size nor checksum;
# another project's loader checks the MD5.
_PUBLISHED = OwnerFile(
    "SUN.tar.gz",
    0,
    url="http://pages.cs.wisc.edu/~huangrui/imagenet_ood_dataset/SUN.tar.gz",
    md5="8469c3ada62211477954ec1be53b12d0",
)


class _MosSunNames(ImageNames):
    """Images of the subset."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        class_of = dict.fromkeys(lists.load_list(_KEY), _CLASS)
        return self.index_listed(tree, tree.column("id"), class_of, unlisted=UNLISTED)


_IMAGES = _MosSunNames(
    r"(?:.*/)?(?P<id>sun_[a-z]{16}\.jpg)",
    "sun_<16 letters>.jpg",
    f"Take the owners' {_PUBLISHED.name}",
)


MOS_SUN = Source(
    key=_KEY,
    title="SUN (subset for out-of-distribution detection)",
    edition=f"the subset of MOS (2021; SUN.tar.gz has the MD5 {_PUBLISHED.md5})",
    licence=SUN397.licence,  # the subset's own page states no terms
    citation=SUN397.citation,
    obtain=Obtain.packed("https://github.com/deeplearning-wisc/large_scale_ood", _PUBLISHED),
    classes=lambda: {_CLASS: _CLASS},
    expected=lambda: {"images": Expected.of({_CLASS: len(lists.load_list(_KEY))})},
    accepted=(_IMAGES.anywhere("SUN/images"), _IMAGES.archive(_PUBLISHED.name)),
    shared_sides=(),
)
