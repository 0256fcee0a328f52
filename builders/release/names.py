"""Which texts name a file of a release's source, and which are paths of a machine that a release must not have.

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
    """Return for each text whether it is an absolute path on any system; `classes`: they are ids or names of classes.

    `~x.png`, `C:x.png` and `file:x.png` are none, as long as no slash follows.
    """
    return pc.fill_null(pc.match_substring_regex(texts, _ABSOLUTE_CLASS if classes else _ABSOLUTE), False)


def is_file_name(name: str) -> bool:
    """Whether a text is the name of a file, and on no system a path: a reader may write the image under this name."""
    return name not in ("", ".", "..") and "/" not in name and "\\" not in name
