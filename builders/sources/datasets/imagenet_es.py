"""ImageNet-ES: photographs of a screen that shows images of ImageNet, in two lights and many settings of the camera.

Its test set has 1,000 photographs of 200 of ImageNet-1k's classes, those of Tiny ImageNet, each taken again with 27
settings of the camera and five times with automatic exposure. The validation set, of other photographs, is not read.

Tested by `tests/builders/sources/datasets/test_imagenet_es.py`.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from builders.release.schema import Column
from builders.sources.base import Expected, Home, Licence, PartitionIndex, Source
from builders.sources.datasets import tiny_imagenet
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers import trees
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from taxonomy import tables

_FOLDER = "ImageNet-ES"
_TEST = "es-test"
# The address is the one of the owners' README (Edw2n/ImageNet-ES). Size and SHA-256 are what the Hub states of the
# file, as a public repository noted them.
_PUBLISHED = OwnerFile(
    f"{_FOLDER}.zip",
    26_267_837_212,
    url="https://huggingface.co/datasets/Edw2n/ImageNet-ES/resolve/main/ImageNet-ES.zip",
    sha256="ea8e6692bd861bf91c2e37dbe4e12f4f0ce822e41effe8587fcd3fa0889a2b6d",
)

# How often a photograph was taken in each light (configs/datasets.py and settings/grid-options-3x3x3.csv there).
_TIMES = {"param_control": 27, "auto_exposure": 5}
_LIGHTS = {"l1": "on", "l5": "off"}

LIGHT = Column("light", "string", "whether the light was on or off as the screen was photographed", absent="")
SETTING = Column(
    "camera_setting",
    "int64",
    "the number of the camera's setting (`param_control`) or of the shot (`auto_exposure`), or -1 for other rows",
    absent=-1,
)


@functools.cache
def _listed(partition: str) -> Mapping[str, str]:
    """Return the class of each image by its id, such as `param_control/l1/param_1/n01443537/<name>`."""
    rows = tables.read_csv_rows("imagenet_es.csv")
    photographs = [(row["wnid"], number) for row in rows for number in row["images"].split()]
    settings = itertools.product(_LIGHTS, range(1, _TIMES[partition] + 1))
    return {
        f"{partition}/{light}/param_{setting}/{wnid}/ILSVRC2012_val_{number:0>8}.JPEG": wnid
        for light, setting in settings
        for wnid, number in photographs
    }


class _Photographs(ImageNames):
    """Images in folders of a light, a setting and a class."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        partition = tree.home.partition
        ids = pc.binary_join_element_wise(partition, tree.column("image"), "/")
        return self.index_listed(tree, ids, _listed(partition), _columns, "not in the owners' test set")


def _columns(_: str, ids: pa.Array) -> Mapping[str, pa.Array]:
    parts = pc.extract_regex(ids, "/(?P<light>l[15])/param_(?P<setting>[0-9]+)/")
    lights = pc.index_in(pc.struct_field(parts, "light"), pa.array(list(_LIGHTS)))
    return {
        LIGHT.name: pa.array(list(_LIGHTS.values())).take(lights),
        SETTING.name: pc.cast(pc.struct_field(parts, "setting"), pa.int64()),
    }


_IMAGES = _Photographs(
    r"(?P<image>l[15]/param_[1-9][0-9]?/n[0-9]{8}/ILSVRC2012_val_[0-9]{8}\.JPEG)",
    "l1/param_<number>/<wnid>/ILSVRC2012_val_<8 digits>.JPEG",
)


def _folders(home: Home) -> Tree | None:
    """List the partition's folder; that of the validation set has the same name, so the one above it counts."""
    test = home.folder if home.folder.name == _TEST else home.folder / _TEST
    place = test / home.partition
    return trees.in_depth(home, place).match(_IMAGES.pattern) if place.is_dir() else None


IMAGENET_ES = Source(
    key="imagenet_es",
    title="ImageNet-ES",
    edition="ImageNet-ES (2024), the test set",
    # The licence is that of the owners' card on the Hub. The screen showed ImageNet's images.
    licence=Licence(
        name="CC BY 4.0; images under ImageNet's terms of access",
        url="https://huggingface.co/datasets/Edw2n/ImageNet-ES",
        statement=(
            "The owners' copy on the Hub is under CC BY 4.0. The photographs show images of ImageNet, which does not "
            "own their copyright and gives them for non-commercial research and education."
        ),
        publish="gated",
    ),
    citation="""@inproceedings{baek2024unexplored,
  title = {Unexplored Faces of Robustness and Out-of-Distribution: Covariate Shifts in Environment and Sensor Domains},
  author = {Baek, Eunsu and Park, Keondo and Kim, Jiyoon and Kim, Hyung-Sin},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year = {2024}
}""",
    obtain=Obtain.packed("https://github.com/Edw2n/ImageNet-ES", _PUBLISHED),
    classes=tiny_imagenet.classes,
    expected=lambda: {partition: Expected.of(Counter(_listed(partition).values())) for partition in _TIMES},
    accepted=(
        _IMAGES.layout(f"{_TEST}/{{partition}}/{_IMAGES.name_form}", _folders),
        _IMAGES.layout(
            f"the archive {_PUBLISHED.name}",
            lambda home: _IMAGES.in_archive(home, _PUBLISHED.name, f"{_FOLDER}/{_TEST}/{home.partition}/"),
        ),
    ),
    columns=(LIGHT, SETTING),
)
