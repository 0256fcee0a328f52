"""The registry of upstream datasets, each of which one module declares.

Tested by `tests/builders/sources/test_titles.py`.
"""

from __future__ import annotations

from builders.sources.base import Source
from builders.sources.made import MADE
from builders.sources.titles import TITLES, source_of

SOURCES: dict[str, Source] = {key: source_of(key) for key in TITLES}
"""Every source by its key, which is also its flag on the command line."""


def declared_source(key: str) -> Source | None:
    """Return the source of a key in a manifest, even one that this project makes; None if nothing declares it.

    By its licence it is decided who may see images, and not by the manifest's, which anybody can edit.
    """
    return MADE.get(key) or SOURCES.get(key)
