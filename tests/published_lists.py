"""The published lists of images, from the folder `shared` beside the repository where there is one."""

import functools
import gzip
import os
import re
from pathlib import Path

import pytest

PUBLISHED = Path(__file__).parents[2] / "shared" / "reference" / "published"

needs_lists = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="no published lists beside this checkout")

_OPENOOD = "openood_v1_5/imagenet_{}.txt.gz"
FILES = {
    "openood_validation": _OPENOOD.format("val_imagenet"),
    "openood_test": _OPENOOD.format("test_imagenet"),
    "openood_imagenet_c": _OPENOOD.format("test_imagenet_c"),
    "imagenet_r": _OPENOOD.format("test_imagenet_r"),
    "imagenet_v2": _OPENOOD.format("test_imagenet_v2"),
    "inaturalist": _OPENOOD.format("test_inaturalist"),
    "ninco": _OPENOOD.format("test_ninco"),
    "openimage_o": _OPENOOD.format("test_openimage_o"),
    "openimage_o_validation": _OPENOOD.format("val_openimage_o"),
    "ssb_hard": _OPENOOD.format("test_ssb_hard"),
    "textures": _OPENOOD.format("test_textures"),
    "imagenet200_validation": "openood_v1_5/imagenet200_val.txt.gz",
    "imagenet200_test": "openood_v1_5/imagenet200_test.txt.gz",
    "imagenet_ood": "imagenet_ood.txt.gz",
    **{
        f"openood_{of}_{ours}": f"openood_v1_5/{of}_{theirs}.txt.gz"
        for of, ours, theirs in (
            ("cifar10", "validation", "val_cifar10"),
            ("cifar10", "test", "test_cifar10"),
            ("cifar10", "cifar100", "test_cifar100"),
            ("cifar10", "tin", "test_tin"),
            ("cifar10", "tin_validation", "val_tin"),
            ("cifar10", "mnist", "test_mnist"),
            ("cifar10", "svhn", "test_svhn"),
            ("cifar10", "texture", "test_texture"),
            ("cifar10", "places", "test_places365"),
            ("cifar100", "validation", "val_cifar100"),
            ("cifar100", "test", "test_cifar100"),
            ("cifar100", "cifar10", "test_cifar10"),
            ("cifar100", "tin", "test_tin"),
            ("cifar100", "tin_validation", "val_tin"),
            ("cifar100", "places", "test_places365"),
        )
    },
    "mos_sun": "mos/SUN.txt.gz",
    "mos_places": "mos/Places.txt.gz",
}
"""The lists' files in that folder."""

OF_200_CLASSES = {
    "imagenet200_v2": "imagenet_v2",
    "imagenet200_r": "imagenet_r",
    "imagenet200_c": "openood_imagenet_c",
}
"""The lists of ImageNet-200's shifted images, whose files are not there: those of ImageNet-1k that have them all."""

_OF_OPENOOD = ("imagenet_1k/val/", "imagenet_c/", "imagenet_r/", "imagenet_v2/", "inaturalist/images/", "ninco/")
_SETS = (*_OF_OPENOOD, "openimage_o/images/", "ssb_hard/", "texture/")


@functools.cache
def published(name):
    """The images of a list, sorted: their paths in OpenOOD's tree below the set's folder, or their names."""
    return sorted(_below(line.split(" ")[0]) for line in lines(name))


def labels(name):
    """The label of each image of a list of known classes, by the path of `published`."""
    return {_below(path): int(label) for path, label in (line.split(" ") for line in lines(name))}


def content(name):
    """The text of a list. Those of ImageNet-200's known classes came to us with names alone, without their folder."""
    if name in OF_200_CLASSES:
        return _of_200_classes(OF_200_CLASSES[name])
    text = gzip.decompress((PUBLISHED / FILES[name]).read_bytes()).decode()
    return re.sub("^", _OF_OPENOOD[0], text[:-1], flags=re.M) + "\n" if name.startswith("imagenet200") else text


def _of_200_classes(name):
    """The lines of a list of ImageNet-1k whose classes ImageNet-200 has, with the label that its test list gives."""
    of_1k, of_200 = labels("openood_test"), labels("imagenet200_test")
    numbers = {str(of_1k[path]): label for path, label in of_200.items()}
    pairs = (line.split(" ") for line in lines(name))
    return "".join(sorted(f"{path} {numbers[label]}\n" for path, label in pairs if label in numbers))


def lines(name):
    """The lines of a list."""
    return content(name).split("\n")[:-1]


def _below(path):
    return next((path.removeprefix(of) for of in _SETS if path.startswith(of)), path)


def touched(root, names):
    """Make empty files, of which there may be many thousand."""
    for folder in {name.rpartition("/")[0] for name in names}:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        os.close(os.open(f"{root}/{name}", os.O_CREAT))
    return root
