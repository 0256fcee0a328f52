"""Writes files atomically, and only below their folder: a file is complete or does not exist.

`unknown_detection.durable` does so also for power cuts. In a store a file is written here first, and then sent whole.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from builders.errors import BuildError, one_line
from builders.storage.paths import is_remote
from builders.storage.scratch import scratch_folder
from builders.storage.stores.errors import ChangedMeanwhileError
from unknown_detection.durable import replacing

__all__ = ["TEMPORARY", "ChangedMeanwhileError", "atomic_path", "inside", "replace_text", "write_text"]

TEMPORARY = ".tmp"
"""Suffix of every temporary file."""

_MACHINE = secrets.randbelow(10**9)
"""Separates processes of equal numbers on machines, or in containers, that share a folder."""


def inside(root: Path, path: str | Path) -> Path:
    """Return `root / path`, checked to lie inside `root` with symbolic links resolved.

    The names in `path` may come from a file that somebody else wrote. A file that is itself a symbolic link may stay:
    `atomic_path` replaces the link and not the file that it names.

    Raises:
        BuildError: the path leads out of `root`.
    """
    if is_remote(root):
        return _inside_store(root, str(path))
    full = root / path
    folder = Path(os.path.realpath(full.parent))
    if full.name in ("", "..") or not folder.is_relative_to(os.path.realpath(root)):
        raise BuildError(
            f"{full} does not lie inside {root}: a name or a symbolic link leads to {folder}. Remove it, and run the "
            "same command again."
        )
    return full


def _inside_store(root: Path, path: str) -> Path:
    """`inside` for a store, which has no links, and takes any name for a name."""
    if not path.isprintable() or any(name in ("", ".", "..") for name in path.split("/")):
        raise BuildError(f"{one_line(path)} does not lie inside {root}. Remove it, and run the same command again.")
    return root / path


def atomic_path(path: Path, *, durable: bool = True) -> contextlib.AbstractContextManager[Path]:
    """Yield a temporary path on this machine; its file becomes `path` if the block succeeds, and else is removed.

    The temporary path is beside `path`, or for a file in a store in the folder for temporary files.

    Args:
        path: the file to write or replace; its folder is created.
        durable: whether it is on the disk when the block has ended. Else the caller flushes it, with its folder. What
            a store has taken is durable.
    """
    if is_remote(path):
        return _sent(path)
    # The process id separates two processes that write the same file. Files of killed processes are removed later.
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_MACHINE:09d}{TEMPORARY}")
    return replacing(path, temporary, durable=durable)


@contextlib.contextmanager
def _sent(path: Path) -> Iterator[Path]:
    with scratch_folder("upload") as folder:
        temporary = folder / path.name
        yield temporary
        path.put(temporary)  # type: ignore[attr-defined]


def replace_text(path: Path, text: str, is_read: Callable[[bytes | None], bool]) -> None:
    """Write a text file that several runs change, atomically.

    A lock keeps others out of a folder of this machine. In a store there is none, and the file is written only if it
    is still what was read.

    Args:
        path: the file.
        text: its new text.
        is_read: whether bytes are those that were read; None stands for no file.

    Raises:
        ChangedMeanwhileError: another run changed it.
    """
    if not is_remote(path):
        write_text(path, text)
        return
    from builders.storage.stores.versions import replace_read

    replace_read(path, text.encode("utf-8"), is_read)  # type: ignore[arg-type]


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, with Unix newlines."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
