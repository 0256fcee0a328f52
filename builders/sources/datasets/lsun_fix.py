"""LSUN-FIX as its authors published it: 10,000 images of 32 x 32, 1,000 of each of LSUN's ten scenes.

Tack et al. (CSI, NeurIPS 2020) made them from LSUN's training sets. The script in their repository (alinlab/CSI,
`datasets/lsun_fix_preprocess.py`) takes 1,000 shuffled images of each scene, scene after scene in the order of
`SCENES`, resizes and crops them (`builders.generate.exact.resize.lsun_fix`) and numbers the files from 0, so that the
scene follows from the number. Which images of LSUN they are is not published. Their loader reads the folder LSUN_fix
with torchvision's `ImageFolder`, which needs one more level of folders, whatever its name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import RGB32, Expected, Home, Licence, OtherDataError, PartitionIndex, Source
from builders.sources.datasets.lsun import LSUN
from builders.sources.obtain import Obtain
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from builders.sources.sizes import sampled_sizes

_KEY = "lsun_fix"
_TITLE = "LSUN-FIX"
_OF_A_SCENE = 1_000
_SIDE = 32
_START, _END = "correct_resize_", ".png"
_NAME_FORM = f"{_START}<0 to 9999>{_END}"

# The two innermost folders of the authors' other set: "Imagenet_fix" without "LSUN".
_IMAGENET_FIX = re.compile(r"(?!.*lsun).*image[-_]?net", re.IGNORECASE | re.DOTALL)

SCENES = (
    "bedroom",
    "bridge",
    "church_outdoor",
    "classroom",
    "conference_room",
    "dining_room",
    "kitchen",
    "living_room",
    "restaurant",
    "tower",
)
"""LSUN's scenes in the order of the authors' script, which is that of torchvision."""


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the scenes with their names."""
    return {scene: scene.replace("_", " ") for scene in SCENES}


class _LsunFixNames(ImageNames):
    """Images whose number says the scene."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        home = tree.home
        # ImageNet-FIX of the same authors has files of the same names.
        if _IMAGENET_FIX.match(" ".join(home.folder.resolve().parts[-2:])):
            raise _other(home, "holds ImageNet-FIX by its name; the files of both sets have the same names")
        numbers = pc.cast(tree.column("number"), pa.int64())
        scenes = pa.array(SCENES).take(pc.divide(numbers, _OF_A_SCENE))
        found = self.index(tree, scenes, tree.column("id"))
        # A few images are looked at here, and each that the build takes.
        for width, height in sampled_sizes(home.root, found):
            if (width, height) != (_SIDE, _SIDE):
                sizes = f"{width:,} x {height:,} pixels, and those of {_TITLE} have {_SIDE} x {_SIDE}"
                raise _other(home, f"has images of {sizes}")
        return found


_IMAGES = _LsunFixNames(rf"(?P<id>{_START}(?P<number>0|[1-9][0-9]{{0,3}})\{_END})", _NAME_FORM)


def _other(home: Home, problem: str) -> OtherDataError:
    return OtherDataError(f"{_TITLE}: {home.folder} {problem}. Give the authors' folder with --{_KEY}.")


LSUN_FIX = Source(
    key=_KEY,
    title=_TITLE,
    edition="CSI's LSUN_fix (2020)",
    licence=Licence(
        name="none stated",
        url="https://github.com/alinlab/CSI",
        statement=(
            "No licence for the images was found: neither the authors of LSUN-FIX nor the owners of LSUN, from whose "
            "images they are made, state one."
        ),
        publish="ids-only",
    ),
    citation="""@inproceedings{tack2020csi,
  title = {{CSI}: Novelty Detection via Contrastive Learning on Distributionally Shifted Instances},
  author = {Tack, Jihoon and Mo, Sangwoo and Jeong, Jongheon and Shin, Jinwoo},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2020}
}

"""
    + LSUN.citation,
    obtain=Obtain(
        "https://github.com/alinlab/CSI",
        "download LSUN_fix with the link in section 1 of its README and unpack it",
    ),
    classes=classes,
    expected=lambda: {"images": Expected.each(SCENES, _OF_A_SCENE)},
    accepted=(
        _IMAGES.layout(
            f"LSUN_fix/{_START}0{_END} to {_START}9999{_END}, or these in any folder",
            lambda home: _IMAGES.in_folders(home, home.folder, description="CSI's images"),
        ),
    ),
    arrays=RGB32,
)
