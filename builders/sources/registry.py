"""The registry of upstream datasets, which are declared one a module.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from builders.sources.base import Source
from builders.sources.caltech256 import CALTECH256
from builders.sources.cifar100 import CIFAR100
from builders.sources.coco2017 import COCO2017
from builders.sources.dtd import DTD
from builders.sources.food101 import FOOD101
from builders.sources.imagenet import IMAGENET
from builders.sources.imagenet_o import IMAGENET_O
from builders.sources.inaturalist import INATURALIST
from builders.sources.lsun import LSUN
from builders.sources.lsun_fix import LSUN_FIX
from builders.sources.openimage_o import OPENIMAGE_O
from builders.sources.partial_broad import PARTIAL_BROAD
from builders.sources.places365 import PLACES365
from builders.sources.sun397 import SUN397
from builders.sources.svhn import SVHN
from builders.sources.svhn_full import SVHN_FULL

SOURCES: dict[str, Source] = {
    source.key: source
    for source in (
        IMAGENET,
        FOOD101,
        CALTECH256,
        PLACES365,
        CIFAR100,
        SVHN,
        LSUN,
        LSUN_FIX,
        DTD,
        SUN397,
        SVHN_FULL,
        INATURALIST,
        IMAGENET_O,
        OPENIMAGE_O,
        COCO2017,
        PARTIAL_BROAD,
    )
}
"""Every source by its key, which is also its flag on the command line."""
