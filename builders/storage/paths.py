"""Paths as a person gives them, of this machine or in a store.

A local path is a `pathlib.Path`. An address such as s3://BUCKET/PREFIX becomes a
`builders.storage.stores.path.StorePath`, which has the methods of a Path that these tools use and is typed as one; it
has no `os.fspath`, so nothing opens it by mistake. Nothing here imports fsspec before the first address is given.

Tested by `tests/builders/storage/test_paths.py`.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from builders.errors import BuildError, one_line

if TYPE_CHECKING:
    from builders.storage.store import Store

INSTALL = "pip install 'unknown-detection[objects]' (in a checkout: pip install -e '.[objects]')"
"""How to get the packages that addresses take."""

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

_REFUSED_PROTOCOLS = {
    "hf": "the Hub is no object storage: releases go there by `python -m hf_scripts.push`",
    "memory": "its files live in one process, and a build has several",
}
"""Protocols of fsspec that are refused, and why."""


def store_of(place: object) -> Store:
    """Return the store of a path or of its text; modules of the other kind of store are not imported."""
    return _store(_ADDRESS.fullmatch(place) is None if isinstance(place, str) else isinstance(place, Path))


@functools.cache
def _store(is_local: bool) -> Store:
    if is_local:
        from builders.storage.store import Store

        return Store()
    from builders.storage.remote import RemoteStore

    return RemoteStore()


def as_path(text: str | Path) -> Path:
    """Return the path that a text names, on this machine or in a store; an unusable address is a `BuildError`."""
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
    if not location.isprintable() or "::" in location or "#" in location or {"", ".", ".."} & set(parts or [""]):
        raise BuildError(
            f"An address of {protocol}:// has a part that is empty, . or .., a #, a :: or a character that does not "
            "print, and is no plain address. Give one as s3://BUCKET/PREFIX."
        )


class PathType(click.ParamType[Any]):
    """A flag's value that is a path."""

    name = "path"

    def __init__(self, *, remote: bool = True) -> None:
        self.remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; raises `BuildError` for an address that cannot be used, or where none may be given."""
        if not isinstance(value, str):
            return value
        if not self.remote and not store_of(value).is_local:
            name = param.get_error_hint(ctx) if param is not None and ctx is not None else "this"
            raise BuildError(
                f"{name} takes a path of this machine, and was given an address. Copy the files here first, or from "
                "here there afterwards, as with `aws s3 sync`."
            )
        return as_path(value)


LOCAL = PathType(remote=False)
"""A path of this machine; without it, an address would become a folder named s3: here."""


def inside(root: Path, path: str | Path) -> Path:
    """Return `root / path`; raises `BuildError` if it leads out of `root` with symbolic links resolved.

    The names in `path` may come from a file that somebody else wrote. A file that is itself a symbolic link may stay:
    `builders.storage.files.atomic_path` replaces the link and not the file that it names.
    """
    return store_of(root).inside(root, path)
