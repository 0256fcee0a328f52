"""The registry of upstream datasets, which are declared one a module.

Tested by `tests/builders/sources/test_titles.py`.
"""

from __future__ import annotations

from builders.sources.base import Source
from builders.sources.titles import TITLES, source_of

SOURCES: dict[str, Source] = {key: source_of(key) for key in TITLES}
"""Every source by its key, which is also its flag on the command line."""
