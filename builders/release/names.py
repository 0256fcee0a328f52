"""Tells which texts are file names, and which are paths of a machine, which a release must not contain.

A build asks here before it takes a person's names, and `verify` before it calls a release whole.

Tested by `tests/builders/release/test_names.py`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Behind a home folder as shells write it (`~`, `~somebody`), on Windows (`\x`, `C:\x`, `C:/x`), and in URLs.
_ROOTED = r"~[^/]*/|\\|[A-Za-z]:[\\/]|file:/"
_ABSOLUTE = rf"^(/|{_ROOTED})"
# Places365 names its classes /a/airfield: a slash, one letter, a slash.
_ABSOLUTE_CLASS = rf"^(/($|[^a-z]|[a-z]($|[^/]))|{_ROOTED})"


def absolute_paths(texts: pa.Array | pa.ChunkedArray, *, classes: bool = False) -> Any:
    """Return for each text whether it is an absolute path on any system; with `classes`, for names of classes.

    `~x.png`, `C:x.png` and `file:x.png` are none, as long as no slash follows.
    """
    return pc.fill_null(pc.match_substring_regex(texts, _ABSOLUTE_CLASS if classes else _ABSOLUTE), False)


def is_file_name(name: str) -> bool:
    """Whether a text is a file name and a path on no system, so that a reader may write the image under it."""
    return name not in ("", ".", "..") and "/" not in name and "\\" not in name
