"""The iNaturalist subset for out-of-distribution detection: 10,000 pictures of 110 plants, chosen by Huang and Li.

The images lie in one folder under names that say nothing. Their species are known from a table that NINCO's authors
made (`taxonomy.tables.inaturalist`).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import Expected, Licence, PartitionIndex, PixelSizes, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.overlap import COLUMNS, overlap_columns
from builders.sources.readers.folders import class_column
from builders.sources.readers.layouts import CopyLayout, Search
from builders.sources.readers.patterns import MatchedFiles, Pattern
from taxonomy import tables

_KEY = "inaturalist"
_TITLE = "iNaturalist (subset for out-of-distribution detection)"
_PARTITION = "images"
_ARCHIVE = "iNaturalist"
_SPLITS = ("train", "validation", "test")

# The address is in the owners' README (deeplearning-wisc/large_scale_ood), which gives neither size nor checksum;
# other projects' loaders check the MD5.
_PUBLISHED = OwnerFile(
    f"{_ARCHIVE}.tar.gz",
    0,
    url="http://pages.cs.wisc.edu/~huangrui/imagenet_ood_dataset/iNaturalist.tar.gz",
    md5="5be6ea8aa027d7b631916427b32cb335",
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the species in alphabetical order; their ids are their names."""
    return {name: name for name in sorted(set(tables.inaturalist().values()))}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the only partition."""
    counts = Counter(tables.inaturalist().values())
    return {_PARTITION: Expected(sum(counts.values()), {name: counts[name] for name in classes()})}


_IMAGES = Pattern(
    _KEY,
    _TITLE,
    r"(?:.*/)?(?P<id>[0-9a-f]{32}\.jpg)",
    "<32 hexadecimal digits>.jpg",
    "Take a mirror that kept the file names, or the owners' iNaturalist.tar.gz",
)


def _indexed(files: MatchedFiles | None) -> PartitionIndex | None:
    """Index images by their species. The whole of iNaturalist has images under such names, too."""
    if files is None:
        return None
    species = tables.inaturalist()
    known = pa.array(list(species), pa.string())
    files = _IMAGES.keep_known(files, files.groups["id"], known, "not one of the 10,000 images of the subset")
    names, ids = tuple(classes()), files.groups["id"]
    of_image = pa.array(list(species.values()), pa.string()).take(pc.index_in(ids, value_set=known))
    codes = pc.index_in(of_image, value_set=pa.array(names, pa.string())).to_numpy()
    return _IMAGES.partition(
        _PARTITION, files, files.table(class_column(names, codes), ids, overlap_columns(_KEY, ids))
    )


def folder_and_archive(
    pattern: Pattern, archive: str, indexed: Callable[[MatchedFiles | None], PartitionIndex | None]
) -> tuple[CopyLayout, ...]:
    """Declare the layouts of an archive of MOS's authors: its images in any folder, and packed."""
    return (
        CopyLayout(
            _PARTITION,
            f"{archive}/images/{pattern.name_form}, or these files in any folder",
            lambda root, home: indexed(pattern.in_places(root, home, (f"{archive}/images", "images"))),
        ),
        CopyLayout(
            _PARTITION,
            f"the archive {archive}.tar.gz (or {archive}.tar, read in place)",
            lambda root, home: indexed(pattern.in_archive(root, home, archive)),
        ),
    )


INATURALIST = Source(
    key=_KEY,
    title=_TITLE,
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
        "https://github.com/deeplearning-wisc/large_scale_ood", _PUBLISHED, mirror=Mirror("", {_PARTITION: (_SPLITS,)})
    ),
    classes=classes,
    expected=expected,
    search=Search(
        (
            *folder_and_archive(_IMAGES, _ARCHIVE, _indexed),
            CopyLayout(
                _PARTITION,
                "a Hub mirror's Parquet files with file names (train-*, validation-* or test-*)",
                lambda root, home: _indexed(_IMAGES.in_parquet(root, home, _SPLITS)),
            ),
        )
    ),
    pixel_sizes=PixelSizes(),
    columns=COLUMNS,
)
