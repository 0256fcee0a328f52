"""Describable Textures (DTD): 47 textures with 120 images each."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from builders.sources.base import Expected, Licence, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers.patterns import ClassFolders
from taxonomy import tables

# The address and the MD5 are torchvision's (datasets/dtd.py), the size and the SHA-256 those of tensorflow/datasets
# (url_checksums/dtd.txt). The mirror is the owners' other server, as several repositories have it.
_PUBLISHED = OwnerFile(
    "dtd-r1.0.1.tar.gz",
    625_239_812,
    url="https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
    md5="fff73e5086ae6bdbea199a49dfb8a4c1",
    sha256="e42855a52a4950a3b59612834602aa253914755c95b0cff9ead6d07395f8e205",
    mirrors=("https://thor.robots.ox.ac.uk/datasets/dtd/dtd-r1.0.1.tar.gz",),
)

# Mirrors divide the images into two or three splits, or not at all; the division does not matter here. bitmind/dtd has
# the columns image and filename; GATE-engine/describable_textures has label numbers and, according to its card, no
# file names.
_SPLITS = ("train", "validation", "test")
_ADVICE = (
    "Take bitmind/dtd, which has a column of file names (GATE-engine/describable_textures has none), or the owners' "
    "dtd-r1.0.1.tar.gz, unpacked"
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the textures in alphabetical order; their ids are their names."""
    return {name: name for name in tables.dtd()}


_IMAGES = ClassFolders(
    r"(?P<class_id>[a-z-]+)/(?P<image>(?P<class_id_again>[a-z-]+)_[0-9]{4})\.jpg",
    "<texture>/<texture>_<4 digits>.jpg",
    _ADVICE,
    file_form="{}_<4 digits>.jpg",
    child="a texture's folder",
    ending=".jpg",
)

DTD = Source(
    key="dtd",
    title="Describable Textures (DTD)",
    edition="DTD release 1.0.1 (2014)",
    # We have not seen the owners' page itself; two independent descriptions of it (the TensorFlow and the Hub
    # catalogue) have the same words.
    licence=Licence(
        name="for research purposes",
        url="https://www.robots.ox.ac.uk/~vgg/data/dtd/",
        statement=(
            "The data are made available to the computer vision community for research purposes; no licence is named. "
            "The images were found with Google and Flickr."
        ),
        publish="ids-only",
    ),
    citation="""@inproceedings{cimpoi2014describing,
  title = {Describing Textures in the Wild},
  author = {Cimpoi, Mircea and Maji, Subhransu and Kokkinos, Iasonas and Mohamed, Sammy and Vedaldi, Andrea},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year = {2014}
}""",
    obtain=Obtain.packed(
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/",
        _PUBLISHED,
        mirror=Mirror("hf://datasets/bitmind/dtd", {"images": (_SPLITS,)}),
    ),
    classes=classes,
    # 40 training, validation and test images each of every texture.
    expected=lambda: {"images": Expected.each(classes(), 120)},
    accepted=(
        *_IMAGES.layouts(_PUBLISHED, "dtd/images", "the texture folders themselves"),
        _IMAGES.mirror(
            "a Hub mirror's data/train-*.parquet with file names (also validation-*, test-*)",
            _SPLITS,
            lambda shard: shard.in_folders_of_starts(classes()),
            labelled=False,
        ),
    ),
    shared_sides=(),
)
