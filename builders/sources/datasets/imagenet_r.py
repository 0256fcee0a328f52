"""ImageNet-R: 30,000 renditions (art, cartoons, tattoos, toys) of 200 of ImageNet-1k's classes.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from builders.sources.base import Expected, Licence, Source
from builders.sources.datasets import imagenet
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers.patterns import ClassFolders
from taxonomy import lists

# The address is the one of the owners' README (hendrycks/imagenet-r), size and SHA-256 are those of
# tensorflow/datasets (datasets/imagenet_r/checksums.tsv), and the MD5 is what pytorch-ood checks.
_PUBLISHED = OwnerFile(
    "imagenet-r.tar",
    2_191_079_936,
    url="https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar",
    md5="a61312130a589d0ca1a8fca1f2bd3337",
    sha256="18c6bf493b39a0d975d48e587437f562caab9c52ae6327dcfa9dd8eb54aa1b52",
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names of the 200 classes by wnid, in the order of ImageNet-1k."""
    return {wnid: imagenet.classes()[wnid] for wnid in lists.imagenet_r()}


# n01443537/art_0.jpg: the kind of rendition and a number.
_IMAGES = ClassFolders(
    r"(?P<class_id>n[0-9]{8})/(?P<image>[a-z]+_[0-9]+)\.jpg",
    "<wnid>/<rendition>_<number>.jpg",
    ending=".jpg",
)

IMAGENET_R = Source(
    key="imagenet_r",
    title="ImageNet-R",
    edition="ImageNet-R (2020)",
    licence=Licence(
        name="MIT; images under their makers' terms",
        url="https://github.com/hendrycks/imagenet-r",
        statement=(
            "The owners' repository is under the MIT licence. The images were found on Flickr and other sites and "
            "belong to the people who made them."
        ),
        publish="gated",
    ),
    citation="""@inproceedings{hendrycks2021many,
  title = {The Many Faces of Robustness: A Critical Analysis of Out-of-Distribution Generalization},
  author = {Hendrycks, Dan and Basart, Steven and Mu, Norman and Kadavath, Saurav and Wang, Frank and Dorundo, Evan and
            Desai, Rahul and Zhu, Tyler and Parajuli, Samyak and Guo, Mike and Song, Dawn and Steinhardt, Jacob and
            Gilmer, Justin},
  booktitle = {IEEE/CVF International Conference on Computer Vision},
  year = {2021}
}""",
    obtain=Obtain.packed("https://github.com/hendrycks/imagenet-r", _PUBLISHED),
    classes=classes,
    expected=lambda: {"images": Expected.of(lists.imagenet_r())},
    accepted=_IMAGES.layouts(
        _PUBLISHED,
        "imagenet-r",
        "the class folders themselves, as in OpenOOD's images_largescale/imagenet_r",
    ),
    shared_sides=(),
)
