"""Images that are broken in their owners' archives: where they do not decode, no better copy can be had."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from taxonomy import tables

RULE = "broken-in-source"
"""Rule of an exclusion for such an image."""


@functools.cache
def broken() -> Mapping[str, str]:
    """Who says it, by the id of the row that the image would be."""
    return {f"{image.source}/{image.source_id}": image.provenance for image in tables.broken_images()}
