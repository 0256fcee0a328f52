"""Parses paths that a person gives: of this machine, or of a store.

A local path is a `pathlib.Path`, an address such as s3://BUCKET/PREFIX an `ObjectPath`; nothing here imports fsspec
before the first address is given.

Tested by `tests/builders/storage/test_paths.py`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, cast

import click

from builders.errors import BuildError, one_line
from builders.storage.object_path import ObjectPath
from unknown_detection.words import is_printable

INSTALL = "pip install 'unknown-detection[objects]' (in a checkout: pip install -e '.[objects]')"
"""How to get the packages that addresses take."""

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

_REFUSED_PROTOCOLS = {
    "hf": "the Hub is no object storage: releases go there by `python -m hf_scripts.push`",
    "memory": "its files live in one process, and a build has several",
}
"""Protocols of fsspec that are refused, and why."""


def as_path(text: str | Path) -> Path:
    """Return the path that a text names, on this machine or in a store; `BuildError` for an unusable address."""
    match = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return Path(text) if isinstance(text, str) else text
    protocol = match[1].lower()
    _check_address(protocol, match[2])
    try:
        from builders.storage.stores.path import store_path

        return cast(Path, store_path(f"{protocol}://{match[2].rstrip('/')}"))
    except ImportError as error:
        raise BuildError(
            f"{one_line(text)} lies in a store, and a package for it is not installed ({one_line(error)}). Run "
            f"{INSTALL}."
        ) from error
    except ValueError as error:
        raise BuildError(
            f"{one_line(text)} cannot be used: {one_line(error)}. Give it as s3://BUCKET/PREFIX."
        ) from error


def _check_address(protocol: str, location: str) -> None:
    """Refuse what is no address of a store; no message repeats credentials."""
    if protocol in _REFUSED_PROTOCOLS:
        raise BuildError(f"{protocol}:// cannot be used here: {_REFUSED_PROTOCOLS[protocol]}. Give a folder or s3://.")
    if "@" in location.partition("/")[0] or "?" in location:
        raise BuildError(
            f"An address of {protocol}:// has a user, a password or a signature in it, and these tools take "
            "credentials from the environment or a profile alone. Give the address without what is before @ and "
            "after ?."
        )
    names = location.rstrip("/").split("/")
    parts = names[1:] if names[0] == "" else names  # of local:///FOLDER
    if not is_printable(location) or "::" in location or "#" in location or {"", ".", ".."} & set(parts or [""]):
        raise BuildError(
            f"An address of {protocol}:// has a part that is empty, . or .., a #, a :: or a character that does not "
            "print, and is no plain address. Give one as s3://BUCKET/PREFIX."
        )


class PathType(click.ParamType[Any]):
    """The type of a flag whose value is a path."""

    name = "path"

    def __init__(self, *, remote: bool = True) -> None:
        self.remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; `BuildError` for an unusable address, or for any address where none is allowed."""
        if not isinstance(value, str):
            return value
        if not self.remote and _ADDRESS.fullmatch(value):
            name = param.get_error_hint(ctx) if param is not None and ctx is not None else "this"
            raise BuildError(
                f"{name} takes a path of this machine, and was given an address. Copy the files here first, or from "
                "here there afterwards, as with `aws s3 sync`."
            )
        return as_path(value)


LOCAL = PathType(remote=False)
"""A path of this machine; without it, an address would become a folder named s3: here."""


def inside(root: Path, path: str | Path) -> Path:
    """Return `root / path`; `BuildError` if symbolic links lead it out of `root`.

    The names in `path` may come from a file that somebody else wrote. A file that is itself a symbolic link may stay:
    `builders.storage.files.atomic_path` replaces the link and not the file that it names.
    """
    if isinstance(root, ObjectPath):
        return root.inside(path)
    full = root / path
    folder = Path(os.path.realpath(full.parent))
    if full.name in ("", "..") or not folder.is_relative_to(os.path.realpath(root)):
        raise BuildError(
            f"{full} does not lie inside {root}: a name or a symbolic link leads to {folder}. Remove it, and run "
            "the same command again."
        )
    return full


def system_path(path: Path) -> str | None:
    """Return a path as text for other programs; None for a path in a store, which they cannot open."""
    return None if isinstance(path, ObjectPath) else os.fspath(path)


def require_access(path: Path, *, writing: bool = False) -> None:
    """Raise `BuildError` if a store's bucket cannot be read, or with `writing` not be written."""
    if isinstance(path, ObjectPath):
        path.require_access(writing=writing)
