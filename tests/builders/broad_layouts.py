"""Turn the demo's ImageNet-O into every other accepted layout."""

import os

from tests.builders.facets_layouts import packed
from tests.builders.trees import write_parquet


def imagenet_o_images(imagenet_o):
    """The demo's images, in the order of a listing."""
    return sorted((imagenet_o / "imagenet-o").glob("*/*.JPEG"))


def imagenet_o_inside(imagenet_o, root):
    """The folder of the folders given, with none of the owners' texts in it."""
    for path in imagenet_o_images(imagenet_o):
        target = root / "test" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)
    return root / "test"


def imagenet_o_archive(imagenet_o, root):
    """The archive as downloaded."""
    root.mkdir(exist_ok=True)
    packed(imagenet_o / "imagenet-o", root / "imagenet-o.tar", "w")
    return root


def imagenet_o_converted(imagenet_o, root):
    """The branch refs/convert/parquet of cais/imagenet-o: names without folders, and these as the labels' names."""
    paths = imagenet_o_images(imagenet_o)
    wnids = sorted({path.parent.name for path in paths})
    rows = [(path.name, wnids.index(path.parent.name), path.read_bytes()) for path in reversed(paths)]
    write_parquet(root / "default" / "test" / "0000.parquet", rows, wnids)
    return root


IMAGENET_O = (imagenet_o_inside, imagenet_o_archive, imagenet_o_converted)
