"""Lists the images that are broken in their owners' archives and have no better copy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taxonomy import tables

RULE = "broken-in-source"
"""The rule that excludes such an image."""


def known_broken(rows: pa.Table) -> set[int]:
    """Return the numbers of the rows whose images are known to be broken in their owners' archives."""
    ids = pc.binary_join_element_wise(rows["source"], rows["source_id"], "/")
    return set(np.flatnonzero(pc.is_in(ids, pa.array(list(tables.broken_images()), pa.string())).to_numpy()).tolist())
