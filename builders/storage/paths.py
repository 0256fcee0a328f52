"""Paths as a person gives them, of this machine or in a store, and regular files that are opened and written at them.

A local path is a `pathlib.Path`. An address such as s3://BUCKET/PREFIX becomes a
`builders.storage.stores.path.StorePath`, which has the methods of a Path that these tools use and is typed as one; it
has no `os.fspath`, so nothing opens it by mistake. Nothing here imports fsspec before the first address is given.

Only regular files are opened: a named pipe has no end, and a device may be anything. A file that is written is
complete or does not exist, also after a power cut (`unknown_detection.durable`).

Tested by `tests/builders/storage/test_paths.py`, `test_paths_atomic.py` and `test_paths_regular.py`.
"""

from __future__ import annotations

import errno
import functools
import io
import os
import re
import shutil
import stat
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click

from builders.errors import BuildError, one_line

if TYPE_CHECKING:
    from builders.storage.store import Store

INSTALL = "pip install 'unknown-detection[objects]' (in a checkout: pip install -e '.[objects]')"
"""How to get the packages that addresses take."""

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

_ELSEWHERE = {
    "hf": "the Hub is no object storage: releases go there by `python -m hf_scripts.push`",
    "memory": "its files live in one process, and a build has several",
}
"""Protocols of fsspec that are none of a store, and why."""


def store_of(place: object) -> Store:
    """The store of a path, or of the text of one; nothing of the other kind is imported."""
    return _store(_ADDRESS.fullmatch(place) is None if isinstance(place, str) else isinstance(place, Path))


@functools.cache
def _store(is_local: bool) -> Store:
    if is_local:
        from builders.storage.store import Store

        return Store()
    from builders.storage.remote import RemoteStore

    return RemoteStore()


def as_path(text: str | Path) -> Path:
    """The path that a text names, on this machine or in a store.

    Args:
        text: a path, or an address `PROTOCOL://BUCKET/PREFIX`.

    Raises:
        BuildError: an address is of no store, has credentials in it, has a part that is empty, `.` or `..`, or takes
            a package that is not installed.
    """
    found = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return Path(text) if isinstance(text, str) else text
    protocol = found[1].lower()
    _check_address(protocol, found[2])
    try:
        from builders.storage.stores.path import store_path

        return cast(Path, store_path(f"{protocol}://{found[2].rstrip('/')}"))
    except ImportError as error:
        raise BuildError(
            f"{one_line(text)} lies in a store, and a package for it is not installed ({one_line(error)}). Run "
            f"{INSTALL}."
        ) from error
    except ValueError as error:
        raise BuildError(
            f"{one_line(text)} cannot be used: {one_line(error)}. Give it as s3://BUCKET/PREFIX."
        ) from error


def _check_address(protocol: str, rest: str) -> None:
    """Refuse what is no address of a store; no message repeats credentials."""
    if protocol in _ELSEWHERE:
        raise BuildError(f"{protocol}:// cannot be used here: {_ELSEWHERE[protocol]}. Give a folder or s3://.")
    if "@" in rest.partition("/")[0] or "?" in rest:
        raise BuildError(
            f"An address of {protocol}:// has a user, a password or a signature in it, and these tools take "
            "credentials from the environment or a profile alone. Give the address without what is before @ and "
            "after ?."
        )
    if not rest.isprintable() or "::" in rest or "#" in rest:
        raise BuildError(
            f"An address of {protocol}:// has a #, a :: or a character in it that does not print, and is no plain "
            "address. Give one as s3://BUCKET/PREFIX."
        )
    names = rest.rstrip("/").split("/")
    if any(name in ("", ".", "..") for name in (names[1:] if names[0] == "" else names)) or names == [""]:
        raise BuildError(
            f"{protocol}://{one_line(rest)} has a part that is empty, . or .., which stores take for names. Give it "
            "as s3://BUCKET/PREFIX."
        )


class PathType(click.ParamType[Any]):
    """A flag's value that is a path.

    Args:
        remote: whether it may be an address.
    """

    name = "path"

    def __init__(self, *, remote: bool = True) -> None:
        self.remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            BuildError: it is no address that can be used, or an address where none may be given.
        """
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


TEMPORARY = ".tmp"
"""Suffix of every temporary file."""


def inside(root: Path, path: str | Path) -> Path:
    """Return `root / path`, checked to lie inside `root` with symbolic links resolved.

    The names in `path` may come from a file that somebody else wrote. A file that is itself a symbolic link may stay:
    `atomic_path` replaces the link and not the file that it names.

    Raises:
        BuildError: the path leads out of `root`.
    """
    return store_of(root).inside(root, path)


def atomic_path(path: Path, *, durable: bool = True) -> AbstractContextManager[Path]:
    """Yield a temporary path on this machine; its file becomes `path` if the block succeeds, and else is removed.

    The temporary path is beside `path`, or for a file in a store in the folder for temporary files.

    Args:
        path: the file to write or replace; its folder is created.
        durable: whether it is on the disk when the block has ended. Else the caller flushes it, with its folder. What
            a store has taken is durable.
    """
    return store_of(path).written(path, durable=durable)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, with Unix newlines."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}

# Otherwise opening a pipe waits until somebody writes to it.
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def open_regular(path: str | os.PathLike[str]) -> io.FileIO:
    """Open a regular file, or a link to one, to read it without a buffer.

    Raises:
        BuildError: there is something else at the path, or a store refuses or fails.
        OSError: the file cannot be opened.
    """
    return store_of(path).open(path)


def open_here(path: str | os.PathLike[str]) -> io.FileIO:
    """Open a regular file of this machine, as `open_regular`."""
    return io.FileIO(os.fspath(path), opener=_opener)


def open_buffered(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a regular file as `open_regular` does, with a buffer."""
    return io.BufferedReader(store_of(path).open(path))


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Read a regular file, or a file in a store.

    Args:
        path: the file, or a link to one.
        most: upper limit on its size in bytes.

    Raises:
        BuildError: as `open_regular`.
        OSError: as `open_regular`, or the file is larger than `most`.
    """
    with open_buffered(path) as file:
        data = file.read(-1 if most is None else most + 1)
    if most is not None and len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return data


def copy_here(path: Path, target: Path) -> None:
    """Copy a file, from this machine or a store, to one of this machine; raises as `open_regular`."""
    with open_regular(path) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def byte_count(file: IO[bytes] | io.RawIOBase) -> int:
    """Bytes of an open file, which is at its start afterwards."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def refuse_irregular(path: str | os.PathLike[str], mode: int) -> None:
    """Refuse what is no regular file, given its mode as `os.stat` tells it.

    Raises:
        BuildError: as said.
    """
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise BuildError(f"{one_line(path)} is {kind}, not a regular file. Remove it, or put the file in its place.")


def require_regular(path: Path) -> None:
    """Refuse a path that is not a regular file, for libraries that open a path themselves.

    Raises:
        BuildError: it does not exist, is not a regular file, or its folder cannot be read.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise BuildError(f"Cannot read {one_line(path)}: {error.strerror}. Restore it and run again.") from error
    refuse_irregular(path, mode)


def _opener(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | _FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:  # what opening a socket gives
            refuse_irregular(path, os.stat(path).st_mode)  # noqa: PTH116  a Path costs more than the call
        raise
    try:
        refuse_irregular(path, os.fstat(descriptor).st_mode)
    except BuildError:
        os.close(descriptor)
        raise
    return descriptor
