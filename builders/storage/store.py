"""Operations on paths: `Store` implements them for files of this machine, and `RemoteStore` for object storage.

`builders.storage.paths.store_of` returns the store of a path; no other module asks where a path lies.

Tested by `tests/builders/storage/test_paths.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.storage.byte_ranges import Ranges
from builders.storage.files import TEMPORARY, open_here, refuse_irregular, require_space
from builders.storage.locks import file_lock, is_locked
from unknown_detection.durable import process_name, replacing


class Store:
    """Files and folders of this machine.

    A method raises `OSError` where a file is not there or cannot be used, and `BuildError` where there is no regular
    file, or where a store refuses or fails.

    Attributes:
        is_local: whether the paths are of this machine, for refusals. For anything else, add a method.
    """

    is_local = True

    def require_access(self, path: Path, *, writing: bool = False) -> None:
        """Raise `BuildError` if a store's bucket cannot be read, or with `writing` cannot be written."""

    def inside(self, root: Path, path: str | Path) -> Path:
        """Return a path below a folder, as `builders.storage.paths.inside`."""
        full = root / path
        folder = Path(os.path.realpath(full.parent))
        if full.name in ("", "..") or not folder.is_relative_to(os.path.realpath(root)):
            raise BuildError(
                f"{full} does not lie inside {root}: a name or a symbolic link leads to {folder}. Remove it, and run "
                "the same command again."
            )
        return full

    def require_space(self, root: Path, sizes: Sequence[int]) -> None:
        """Raise `BuildError` if there is no room for files of some sizes; those for a store are first written here."""
        advice = "Free some, or give another --out, and run the same command again."
        require_space(root, sum(sizes), "The build needs", advice)

    @contextlib.contextmanager
    def lock(self, path: Path, busy: str, root: Path, folders: Sequence[str]) -> Iterator[None]:
        """Hold a lock file as `file_lock` does, and sweep temporary files in a folder and below some folders in it.

        A store has neither: there, a file that several runs change is only replaced if nobody has changed it since it
        was read (`replace`).
        """
        with file_lock(path, busy):
            _sweep(root, folders)  # of killed runs
            yield
            _sweep(root, folders)  # Ray workers that outlive a killed driver leave some

    def is_locked(self, path: Path) -> bool:
        """Whether a process holds a lock file, as `builders.storage.locks.is_locked`."""
        return is_locked(path)

    def cached_listings(self, root: Path) -> AbstractContextManager[object]:
        """Cache a store's listings of a source's folder while the block runs."""
        return nullcontext()

    def names(self, folder: Path) -> list[str]:
        """Return the sorted names in a folder; the order of a listing depends on the file system."""
        return sorted(os.listdir(folder))  # noqa: PTH208  a third of the time of iterdir, over 1.3 million names

    def names_in_each(self, folders: Sequence[Path]) -> Iterator[list[str]]:
        """Yield the names in each folder; in a store several are listed at the same time."""
        return map(self.names, folders)

    def folders(self, folder: Path) -> list[str]:
        """Return the sorted names of the folders in a folder, and of links to folders."""
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if _is_folder(entry))

    def is_readable(self, folder: Path) -> bool:
        """Whether this user may list a folder and enter it; of a store this is only known on the first request."""
        return os.access(folder, os.R_OK | os.X_OK)

    def files_below(self, folder: Path) -> Iterator[str]:
        """Yield the relative paths of all files and links below a folder, with forward slashes; none is followed."""
        for place, folders, names in os.walk(folder):
            folders.sort()
            inner = Path(place).relative_to(folder).as_posix()
            prefix = "" if inner == "." else f"{inner}/"
            linked = (name for name in folders if os.path.islink(os.path.join(place, name)))  # noqa: PTH114, PTH118
            yield from (f"{prefix}{name}" for name in (*names, *linked))

    def entries(self, root: Path, excluded: Collection[str]) -> Iterator[Path]:
        """Yield all but folders below a folder, sorted, links included, without the excluded names at its top."""
        for top in sorted(path for path in root.iterdir() if path.name not in excluded):
            for path in (top, *sorted(top.rglob("*"))) if not top.is_symlink() else (top,):
                if path.is_symlink() or not path.is_dir():
                    yield path

    def sizes(self, root: Path, files: Sequence[str]) -> Iterator[int]:
        """Yield the sizes in bytes of regular files, given by their paths relative to a folder."""
        start = f"{root}{os.sep}"
        for file in files:
            status = os.stat(start + file)  # noqa: PTH116 - a Path costs more than the call
            refuse_irregular(start + file, status.st_mode)
            yield status.st_size

    def links(self, root: Path, files: Sequence[str]) -> list[str]:
        """Those of some files that are symbolic links, sorted, given by their paths relative to a folder."""
        start = f"{root}{os.sep}"
        return sorted(file for file in files if os.path.islink(start + file))  # noqa: PTH114 - a Path costs more

    def open(self, path: str | os.PathLike[str]) -> FileIO:
        """Open a regular file to read it forward, without a buffer."""
        return open_here(path)

    def open_whole(self, path: Path) -> FileIO | BytesIO:
        """Open a regular file that is read in no order; one in a store is first read into memory."""
        return open_here(path)

    def ranges(self) -> Ranges:
        """Return a reader of byte ranges."""
        return Ranges()

    def starts(self, root: Path, places: Sequence[tuple[str, int, int]]) -> Iterator[bytes]:
        """Yield byte ranges, given as relative path, offset and size; fewer bytes where a file ends before."""
        with contextlib.closing(self.ranges()) as ranges:
            reads = [(str(root / file), offset, size) for file, offset, size in places]
            ranges.expect(reads)
            for read in reads:
                yield ranges.read(*read)

    def parquet(self, path: Path, part: str, **options: Any) -> pq.ParquetFile:
        """Open a Parquet file with options of `pq.ParquetFile`.

        `part` is what is read of it, from a store in one request: `schema`, `whole`, or else `ranges` in several.
        """
        refuse_irregular(path, path.stat().st_mode)
        return pq.ParquetFile(path.absolute(), **options)  # of a relative path, pyarrow takes ~ for a home folder

    def arrow(self, path: Path) -> Any:
        """Open an Arrow file for `pa.ipc.open_file`; a context manager."""
        return pa.memory_map(str(path))

    def array(self, path: Path) -> npt.NDArray[Any]:
        """Load an array that `np.save` wrote."""
        array: npt.NDArray[Any] = np.load(path)
        return array

    def written(self, path: Path, *, durable: bool = True) -> AbstractContextManager[Path]:
        """Write a file atomically, as `builders.storage.files.atomic_path`."""
        temporary = path.with_name(f".{path.name}.{process_name()}{TEMPORARY}")  # a killed process's is swept later
        return replacing(path, temporary, durable=durable)

    def replace(self, path: Path, data: bytes, is_read: Callable[[bytes | None], bool]) -> None:
        """Write a file that several runs change, atomically.

        A lock keeps other runs out of a folder of this machine. A store has none: there the file is written only if it
        is what `is_read` says was read (its bytes, None for no file), and else raises `ChangedMeanwhileError`.
        """
        with self.written(path) as temporary:
            temporary.write_bytes(data)

    def remove_staged(self, folder: Path, suffixes: Iterable[str], own: Iterable[Path]) -> None:
        """Remove all files in a folder with some suffixes; in a store, where other runs may use them, `own` alone."""
        for suffix in suffixes:
            for path in sorted(folder.glob(f"*{suffix}")):
                path.unlink()


def _sweep(root: Path, folders: Sequence[str]) -> None:
    leftovers = [*root.glob(f".*{TEMPORARY}")]
    for folder in folders:
        leftovers += (root / folder).rglob(f".*{TEMPORARY}")
    for leftover in sorted(leftovers):
        leftover.unlink()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    # A link may be circular, or lead where we have no permission; `isdir` is false for both.
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()  # noqa: PTH112
