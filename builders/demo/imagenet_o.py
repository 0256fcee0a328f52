"""The demo's ImageNet-O: under the names of the 400 images that the authors of NINCO looked at.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import tables


def _images() -> Iterator[Drawing]:
    for image in tables.examined_images():
        if image.source == "imagenet_o":
            # Drawn like the class that the network took it for.
            yield Drawing(f"imagenet-o/{image.source_id}", image.source_id, image.source_id.partition("/")[0])


# The owners' copy on the Hub has a README.txt of 4.47 kB beside the archive; inside is one, too.
DEMO = DemoFiles((400, 0), _images, strays=("imagenet-o/README.txt",))
