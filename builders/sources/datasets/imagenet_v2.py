"""ImageNetV2, matched frequency: 10,000 new images of ImageNet-1k's classes, gathered as those were.

Its folders are called by class index, 0 to 999, which is not the order of their sorted names. The archive changed
twice under one address (tensorflow/datasets, issue 2888): for a while it had 20 images a class under other names, in
folders by wnid. A complete copy is therefore compared with OpenOOD's list of files, by a digest of the names.

Tested by `tests/builders/sources/datasets/test_imagenet_v2.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping

from builders.sources.base import CopyLayout, Expected, Home, Licence, OtherDataError, PartitionIndex, Source
from builders.sources.datasets.imagenet import class_indices, classes
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers.patterns import ClassFolders

_KEY = "imagenet_v2"
_TITLE = "ImageNetV2 (matched frequency)"

# Address, size and SHA-256 are those of tensorflow/datasets (datasets/imagenet_v2/checksums.tsv). The size is a
# multiple of a tar's blocks: in spite of its name the archive is not compressed.
_PUBLISHED = OwnerFile(
    "imagenetv2-matched-frequency.tar.gz",
    1_264_079_360,
    url="https://huggingface.co/datasets/vaishaal/ImageNetV2/resolve/main/imagenetv2-matched-frequency.tar.gz",
    sha256="f0c37fdf925916b19ea1323cd9a2208cdb6959ba2c32eef2a7fc393835c9ca7c",
)

# SHA-256 over the sorted ids, joined by newlines, of OpenOOD's list (benchmark_imglist/imagenet/test_imagenet_v2.txt).
_DIGEST = "945815cb894f1560135bdcd6cb63f60e7fc6b41442cf9e847db1c8124070fdc0"


@functools.cache
def _of_folder() -> Mapping[str, str]:
    return {str(index): wnid for wnid, index in class_indices().items()}


_IMAGES = ClassFolders(
    r"(?P<class_id>[0-9]+)/(?P<image>[0-9a-f]{40})\.jpeg",
    "<0 to 999>/<40 hexadecimal digits>.jpeg",
    class_of=lambda folder: _of_folder().get(folder),
    prefix=lambda wnid: f"{class_indices()[wnid]}/",
    ending=".jpeg",
)


def _checked(layout: CopyLayout) -> CopyLayout:
    """Refuse the owners' two other sets, which have as many images under other names."""

    def find(home: Home) -> PartitionIndex | None:
        found = layout.find(home)
        ids = sorted(found.table["source_id"].to_pylist()) if found else []
        if (
            found
            and len(ids) == 10 * len(classes())
            and hashlib.sha256("\n".join(ids).encode()).hexdigest() != _DIGEST
        ):
            raise OtherDataError(
                f"{_TITLE}: the {len(ids):,} images in {home.root} ({found.layout}) are not those of the "
                "matched-frequency set as OpenOOD lists them; the owners' sets threshold0.7 and top-images look "
                f"alike. Give a copy of {_PUBLISHED.name} with --{_KEY}."
            )
        return found

    return dataclasses.replace(layout, find=find)


IMAGENET_V2 = Source(
    key=_KEY,
    title=_TITLE,
    edition="ImageNetV2, matched frequency (2019), under the names of the Hub's archive of 2023",
    licence=Licence(
        name="MIT; images under their photographers' terms",
        url="https://huggingface.co/datasets/vaishaal/ImageNetV2",
        statement=(
            "The owners' copy on the Hub is under the MIT licence. The images were found on Flickr and belong to the "
            "people who took them."
        ),
        publish="gated",
    ),
    citation="""@inproceedings{recht2019imagenet,
  title = {Do {ImageNet} Classifiers Generalize to {ImageNet}?},
  author = {Recht, Benjamin and Roelofs, Rebecca and Schmidt, Ludwig and Shankar, Vaishaal},
  booktitle = {International Conference on Machine Learning},
  year = {2019}
}""",
    obtain=Obtain.packed("https://github.com/modestyachts/ImageNetV2", _PUBLISHED),
    classes=classes,
    # Ten images of each class.
    expected=lambda: {"images": Expected.each(classes(), 10)},
    accepted=tuple(
        _checked(layout)
        for layout in _IMAGES.layouts(
            _PUBLISHED,
            "imagenetv2-matched-frequency-format-val",
            "the class folders themselves, as in OpenOOD's images_largescale/imagenet_v2",
        )
    ),
    shared_sides=(),
)
