"""The iNaturalist subset for out-of-distribution detection: 10,000 pictures of 110 plants, chosen by Huang and Li.

The images lie in one folder under names that say nothing. Their species are known from a table that NINCO's authors
made (`taxonomy.tables.inaturalist`).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping

from builders.sources.base import Expected, Licence, PartitionIndex, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.overlap import COLUMNS, overlap_columns
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from taxonomy import tables

_SPLITS = ("train", "validation", "test")

# The address is in the owners' README (deeplearning-wisc/large_scale_ood), which gives neither size nor checksum;
# other projects' loaders check the MD5.
_PUBLISHED = OwnerFile(
    "iNaturalist.tar.gz",
    0,
    url="http://pages.cs.wisc.edu/~huangrui/imagenet_ood_dataset/iNaturalist.tar.gz",
    md5="5be6ea8aa027d7b631916427b32cb335",
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the species in alphabetical order; their ids are their names."""
    return {name: name for name in sorted(set(tables.inaturalist().values()))}


def _expected() -> Mapping[str, Expected]:
    counts = Counter(tables.inaturalist().values())
    return {"images": Expected.of({name: counts[name] for name in classes()})}


UNLISTED = "not one of the 10,000 images of the subset"
"""Why an image is left out: the whole of the dataset has images under such names, too."""


class _INaturalistNames(ImageNames):
    """Images of the subset."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        return self.index_listed(tree, tree.column("id"), tables.inaturalist(), overlap_columns, UNLISTED)


_IMAGES = _INaturalistNames(
    r"(?:.*/)?(?P<id>[0-9a-f]{32}\.jpg)",
    "<32 hexadecimal digits>.jpg",
    "Take a mirror that kept the file names, or the owners' iNaturalist.tar.gz",
)


INATURALIST = Source(
    key="inaturalist",
    title="iNaturalist (subset for out-of-distribution detection)",
    edition=f"the subset of MOS (2021; iNaturalist.tar.gz has the MD5 {_PUBLISHED.md5})",
    # The subset's own page states no terms; these are those of the dataset that it was taken from
    # (visipedia/inat_comp, 2017/README.md).
    licence=Licence(
        name="iNaturalist 2017 terms of use",
        url="https://github.com/visipedia/inat_comp/tree/master/2017#terms-of-use",
        statement=(
            "Only for non-commercial research and education, and the images may not be passed on. They belong to the "
            "people who took them."
        ),
        publish="ids-only",
    ),
    citation="""@inproceedings{huang2021mos,
  title = {{MOS}: Towards Scaling Out-of-Distribution Detection for Large Semantic Space},
  author = {Huang, Rui and Li, Yixuan},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year = {2021}
}

@inproceedings{vanhorn2018inaturalist,
  title = {The {iNaturalist} Species Classification and Detection Dataset},
  author = {Van Horn, Grant and Mac Aodha, Oisin and Song, Yang and Cui, Yin and Sun, Chen and Shepard, Alex and
            Adam, Hartwig and Perona, Pietro and Belongie, Serge},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year = {2018}
}""",
    obtain=Obtain.packed(
        "https://github.com/deeplearning-wisc/large_scale_ood", _PUBLISHED, mirror=Mirror("", {"images": (_SPLITS,)})
    ),
    classes=classes,
    expected=_expected,
    accepted=(
        _IMAGES.anywhere("iNaturalist/images"),
        _IMAGES.archive(_PUBLISHED.name),
        _IMAGES.mirror(
            "a Hub mirror's Parquet files with file names (train-*, validation-* or test-*)", _SPLITS, labelled=False
        ),
    ),
    shared_sides=(),
    columns=COLUMNS,
)
