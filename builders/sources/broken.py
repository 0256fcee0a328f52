"""Images that are broken in their owners' archives: where they do not decode, no better copy can be had."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taxonomy import tables

RULE = "broken-in-source"
"""Rule of an exclusion for such an image."""


@functools.cache
def broken() -> Mapping[str, str]:
    """Who says it, by the id of the row that the image would be."""
    return {f"{image.source}/{image.source_id}": image.provenance for image in tables.broken_images()}


def known_broken(rows: pa.Table) -> set[int]:
    """Numbers of the rows whose images are known to be broken in their owners' archives."""
    ids = pc.binary_join_element_wise(rows["source"], rows["source_id"], "/")
    return set(np.flatnonzero(pc.is_in(ids, pa.array(list(broken()), pa.string())).to_numpy()).tolist())
