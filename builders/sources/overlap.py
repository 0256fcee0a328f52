"""Two columns on out-of-distribution images in which people looked for objects of ImageNet-1k's classes.

They do not say of which class, so that this is a column beside `id_overlap`, which names one.

Bitterwolf, Müller and Hein, "In or Out? Fixing ImageNet Out-of-Distribution Detection Evaluation" (ICML 2023), looked
at 400 images of each set: of ImageNet-O 78 show one, of OpenImage-O 19, of the iNaturalist subset 10.

Tested by `tests/builders/test_broad_benchmark.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from builders.release.schema import Column
from taxonomy import tables

OBJECT_SEEN = Column(
    "known_object_seen",
    "bool",
    "whether an object of an ImageNet-1k class was seen on the image; false also where nobody looked (`examined`)",
    absent=False,
)
EXAMINED = Column(
    "examined",
    "bool",
    "whether the image is one of the 400 of its set that the authors of NINCO looked at for `known_object_seen`",
    absent=False,
)
COLUMNS = (OBJECT_SEEN, EXAMINED)


def overlap_columns(key: str, ids: pa.Array) -> Mapping[str, pa.Array]:
    """Return the two columns for images of a source, given the source's key and the images' ids."""
    examined = {image.source_id: image.decision for image in tables.examined_images() if image.source == key}
    with_object = [name for name, decision in examined.items() if decision == "i"]
    return {
        OBJECT_SEEN.name: pc.is_in(ids, value_set=pa.array(with_object, pa.string())),
        EXAMINED.name: pc.is_in(ids, value_set=pa.array(list(examined), pa.string())),
    }
