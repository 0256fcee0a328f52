"""LSUN's test set of scenes: 10,000 images without labels."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.demo.lsun import DEMO
from builders.errors import BuildError
from builders.sources.base import (
    Expected,
    Licence,
    Obtain,
    OtherDataError,
    PartitionIndex,
    Source,
    Stray,
    partition_table,
)
from builders.sources.readers.folders import child_names, class_column, plain_reason, printable, relative
from builders.sources.readers.layouts import Layout, Search

_TITLE = "LSUN"
_PARTITION = "test"
_CLASS = "unlabelled"
_DATABASE = "test_lmdb"
_DATA = "data.mdb"
_WANTED = "Give the folder that holds the test set (test_lmdb.zip, unpacked) with --lsun"

# The key of an image is 40 hexadecimal digits. The owner's export tool (fyu/lsun, data.py) names files after it, in
# nested folders of its first six digits unless told otherwise. `save` names the same bytes .jpg.
_KEY = re.compile(r"[0-9a-f]{40}", re.ASCII)
_FILE = re.compile(r"([0-9a-f]{40})\.(webp|jpg|png)", re.ASCII)
_NAMED = "<key>.webp in the folder of the key's first digits"
_LEVELS = 6
_DIGITS = frozenset("0123456789abcdef")

# LSUN-FIX, which CSI (Tack et al., 2020) made from LSUN: 10,000 images of 32 x 32, correct_resize_0.png and so on.
_FIXED = re.compile(r"correct_resize_\d+\.png", re.ASCII)

# The other databases: `bedroom_train_lmdb`, `church_outdoor_val_lmdb`.
_OTHER = re.compile(r"\w+_(train|val)_lmdb", re.ASCII)

_BATCH = 256


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the one class: the owners do not publish the labels of their test set."""
    return {_CLASS: _CLASS}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the test set."""
    return {_PARTITION: Expected(10_000, {_CLASS: 10_000})}


def _source_ids(keys: Sequence[str]) -> pa.Array:
    return pa.array([f"{_PARTITION}/{key}.webp" for key in keys], pa.string())


def _codes(count: int) -> pa.DictionaryArray:
    return class_column((_CLASS,), np.zeros(count, np.int64))


def _database(root: Path, home: Path) -> PartitionIndex | None:
    return _lmdb(root, home / _DATABASE)


def _lmdb(root: Path, path: Path) -> PartitionIndex | None:
    if not (path / _DATA).is_file():
        return None
    name = path.resolve().name
    if _OTHER.fullmatch(name):
        raise OtherDataError(f"{_TITLE}: {path} is the database {name}, not the test set's {_DATABASE}. {_WANTED}.")
    keys: list[str] = []
    sizes: list[int] = []
    with contextlib.closing(_entries(path)) as entries:
        for key, value in entries:
            name = bytes(key).decode("ascii", "replace")
            if not _KEY.fullmatch(name):
                raise OtherDataError(
                    f"{_TITLE}: the key {name[:50]!a} of {path / _DATA} is not 40 hexadecimal digits. {_WANTED}."
                )
            if not keys and not _is_image(bytes(value[:12])):  # only the first one; the build checks each
                raise OtherDataError(
                    f"{_TITLE}: the value of {name} in {path / _DATA} is not a WebP or JPEG image: it starts with "
                    f"{bytes(value[:4])!r}. {_WANTED}."
                )
            keys.append(name)
            sizes.append(len(value))
    table = partition_table(
        _codes(len(keys)),
        _source_ids(keys),
        pa.repeat(pa.scalar(relative(path, root), pa.string()), len(keys)),
        pa.array(range(len(keys)), pa.int64()),
        pa.array(sizes, pa.int64()),
    )
    return PartitionIndex(_PARTITION, f"database {relative(path, root)}", "lmdb", table)


def _is_image(start: bytes) -> bool:
    return (start[:4] == b"RIFF" and start[8:] == b"WEBP") or start[:3] == b"\xff\xd8\xff"


def _entries(path: Path) -> Generator[tuple[memoryview, memoryview]]:
    """Yield all entries of a database in key order, as views that are valid until the next entry.

    Raises:
        BuildError: the database cannot be read or is truncated.
    """
    import lmdb  # only this layout needs it

    try:
        # lock=False writes no lock file; it is safe, as nobody writes to the database meanwhile.
        environment = lmdb.open(str(path), readonly=True, lock=False, create=False, readahead=False)
        with contextlib.closing(environment), environment.begin(buffers=True) as transaction:
            # The file is memory-mapped, and reading a page behind its end kills the process. LMDB does not require
            # this length, but the files that it writes have it.
            needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
            size = (path / _DATA).stat().st_size
            if size < needed:
                raise BuildError(
                    f"{_TITLE}: {path / _DATA} is truncated: expected at least {needed:,} bytes, found {size:,}. "
                    f"Unpack {_DATABASE}.zip again."
                )
            yield from transaction.cursor()
    except lmdb.Error as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise BuildError(
            f"{_TITLE}: {path / _DATA} cannot be read as an LMDB database ({reason}). Unpack {_DATABASE}.zip again."
        ) from error


def unpack(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[list[Any]]:
    """Yield the images at some positions in key order of a database; see `builders.sources.unpack`."""
    wanted = iter(rows.tolist())
    row = next(wanted, None)
    batch: list[bytes] = []
    with contextlib.closing(_entries(path)) as entries:
        for place, (_, value) in enumerate(entries):
            if row is None:
                break
            if place == row:
                batch.append(bytes(value))
                row = next(wanted, None)
            if len(batch) == _BATCH:
                yield batch
                batch = []
    if row is not None:
        raise BuildError(
            f"{_TITLE}: {path} changed during the build: it has no image at position {row:,}. Run the same command "
            "again."
        )
    yield batch


def _folder(root: Path, home: Path) -> PartitionIndex | None:
    return _images(root, home / _PARTITION)


def _images(root: Path, folder: Path) -> PartitionIndex | None:
    if not folder.is_dir():
        return None
    files, strays = _walk(root, folder, "")
    if not files:
        _refuse_fixed(folder)
        return None
    names = [file.rpartition("/")[2] for file in files]
    table = partition_table(
        _codes(len(names)), _source_ids([name.partition(".")[0] for name in names]), pa.array(files, pa.string())
    )
    saved = sorted({name.partition(".")[2] for name in names} - {"webp"})
    others = f", some as {' and '.join(saved)}" if saved else ""
    return PartitionIndex(_PARTITION, f"image files in {relative(folder, root)}{others}", "file", table, tuple(strays))


def _refuse_fixed(folder: Path) -> None:
    """Refuse the resized images of another project, which do not carry the keys of the test set."""
    fixed = [name for name in child_names(folder) if _FIXED.fullmatch(name)]
    if fixed:
        raise OtherDataError(
            f"{_TITLE}: {folder} holds {len(fixed):,} images such as {fixed[0]}, which CSI resized and "
            f"renumbered as LSUN-FIX, and which no build reads yet. {_WANTED}; the build resizes its images itself."
        )


def _walk(root: Path, folder: Path, digits: str) -> tuple[list[str], list[Stray]]:
    """Return the images and the strays in a folder and its subfolders, which are named by the next digit of the keys.

    Args:
        root: the folder that the paths are relative to.
        folder: the folder to search.
        digits: the first digits of the keys there, given by the folders above.
    """
    place = "" if folder == root else relative(folder, root) + "/"
    files: list[str] = []
    strays: list[Stray] = []
    for name in child_names(folder):
        match = _FILE.fullmatch(name)
        if match and match[1].startswith(digits):
            files.append(place + name)
        elif name in _DIGITS and len(digits) < _LEVELS and (folder / name).is_dir():
            inner, odd = _walk(root, folder / name, digits + name)
            files += inner
            strays += odd
        else:
            strays.append(Stray(place + printable(name), plain_reason(folder, name, _NAMED)))
    return files, strays


_SEARCH = Search(
    key="lsun",
    title=_TITLE,
    layouts=(
        Layout(_PARTITION, f"the database {_DATABASE}/", _database),
        Layout(_PARTITION, "its exported images test/<key>.webp (also in folders of the keys' first digits)", _folder),
        Layout(_PARTITION, "the database's own folder", _lmdb),
        Layout(_PARTITION, "the images themselves", _images),
    ),
    expected=expected,
)


LSUN = Source(
    key=_SEARCH.key,
    title=_TITLE,
    edition="LSUN, scene classification (2015)",
    licence=Licence(
        name="none stated",
        url="https://github.com/fyu/lsun",
        statement=(
            "No licence for the images was found: the owners' repository states none, and a question about one "
            "(fyu/lsun issue 45) stands unanswered. The images were collected from the web."
        ),
        publish="ids-only",
    ),
    citation="""@article{yu2015lsun,
  title = {{LSUN}: Construction of a Large-scale Image Dataset using Deep Learning with Humans in the Loop},
  author = {Yu, Fisher and Seff, Ari and Zhang, Yinda and Song, Shuran and Funkhouser, Thomas and Xiao, Jianxiong},
  journal = {arXiv preprint arXiv:1506.03365},
  year = {2015}
}""",
    obtain=Obtain(
        "https://github.com/fyu/lsun",
        "download the test set, test_lmdb.zip, with the owners' script and unpack it",
    ),
    layouts=_SEARCH.descriptions,
    classes=classes,
    expected=expected,
    scan=_SEARCH.scan,
    demo=DEMO,
)
