"""Maps spellings of Places365's categories in folders and mirrors to the categories.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from taxonomy import tables

TITLE = "Places365-Standard"


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names by category, in label order."""
    return {row.category: row.name for row in tables.places365()}


def flattened(category: str) -> str:
    """Return a category's name as a folder name of the easy format, which has no nested folders."""
    return category.replace("/", "-").replace("_", "-")


@functools.cache
def easy_names() -> Mapping[str, str]:
    """Return the category by its flattened name."""
    return {flattened(name): category for category, name in classes().items()}


@functools.cache
def spelled() -> Mapping[str, str]:
    """Return the category by each flattened spelling: the name, and the category with and without its first slash."""
    categories = {flattened(text): category for category in classes() for text in (category, category[1:])}
    return {**categories, **easy_names()}
