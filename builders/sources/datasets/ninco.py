"""NINCO: 5,879 images of 64 classes that ImageNet-1k lacks; people checked each image for ImageNet's objects.

In the owners' archive two of the class folders, and their files, have spaces in their names; OpenOOD's copy has
underscores there. An image's id is its path with underscores.

Tested by `tests/builders/sources/datasets/test_ninco.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pyarrow.compute as pc

from builders.sources.base import Expected, Licence, PartitionIndex, Source
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers.patterns import ClassFolders
from builders.sources.readers.trees import Tree
from taxonomy import tables

# The address is the one of the owners' README (j-cb/NINCO), the MD5 what pytorch-ood (dataset/img/ninco.py) checks.
# Neither says how large the archive is.
_PUBLISHED = OwnerFile(
    "NINCO_all.tar.gz",
    0,
    url="https://zenodo.org/records/8013288/files/NINCO_all.tar.gz",
    md5="b9ffae324363cd900a81ce3c367cd834",
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the class names by folder, with underscores for spaces, in byte order."""
    return {row["class"]: row["name"] for row in tables.read_csv_rows("ninco.csv")}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the counts of the only partition, from the owners' list of files (data/NINCO_OOD_classes.csv)."""
    counts = {row["class"]: int(row["images"]) for row in tables.read_csv_rows("ninco.csv")}
    return {"images": Expected.of(counts)}


class _Folders(ClassFolders):
    """Class folders whose images have underscores for spaces."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        names = pc.replace_substring(tree.column("image"), " ", "_")
        return super().indexed(tree.with_columns(image=names))


# donuts/donuts_000_1024459.jpg: the class, a number, and the name in the set that the image is from. The endings are
# those of the owners' list.
_IMAGES = _Folders(
    r"(?P<class_id>[^/]+)/(?P<image>(?P<class_id_again>[^/]+?)_[0-9]{3}_[^/]+\.(?:jpe?g|JPE?G|png|gif))",
    "<class>/<class>_<3 digits>_<name>.jpg",
    file_form="{}_<3 digits>_<name>.jpg (or .jpeg, .png, .gif)",
    class_of=lambda folder: name if (name := folder.replace(" ", "_")) in classes() else None,
)

NINCO = Source(
    key="ninco",
    title="NINCO",
    edition=f"NINCO (2023; {_PUBLISHED.name} has the MD5 {_PUBLISHED.md5})",
    # pytorch-ood gives the archive's licence as CC BY 4.0; we have not seen the record itself. What its pictures come
    # from stands in the owners' README and class table: among others Food-101, Places and iNaturalist, whose owners
    # do not let anybody pass them on.
    licence=Licence(
        name="CC BY 4.0 as listed; images under their sources' terms",
        url="https://zenodo.org/records/8013288",
        statement=(
            "The archive is listed as CC BY 4.0, which we have not verified. Its images are from Food-101, Places, "
            "iNaturalist, Caltech-101, MYNursingHome and the web, and remain under the terms of these."
        ),
        publish="ids-only",
    ),
    citation="""@inproceedings{bitterwolf2023ninco,
  title = {In or Out? {Fixing} {ImageNet} Out-of-Distribution Detection Evaluation},
  author = {Bitterwolf, Julian and M{\\"u}ller, Maximilian and Hein, Matthias},
  booktitle = {International Conference on Machine Learning},
  year = {2023}
}""",
    obtain=Obtain.packed("https://github.com/j-cb/NINCO", _PUBLISHED),
    classes=classes,
    expected=expected,
    accepted=_IMAGES.layouts(
        _PUBLISHED,
        "NINCO/NINCO_OOD_classes",
        "the class folders themselves, as in OpenOOD's images_largescale/ninco",
    ),
    shared_sides=(),
)
