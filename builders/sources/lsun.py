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
from builders.sources.base import Expected, Licence, Obtain, OtherDataError, Piece, Source, Stray, piece_table
from builders.sources.readers.folders import child_names, class_column, plain_reason, relative, shown
from builders.sources.readers.layouts import Layout, Search

_TITLE = "LSUN"
_PARTITION = "test"
_CLASS = "unlabelled"
_DATABASE = "test_lmdb"
_DATA = "data.mdb"
_WANTED = "give the folder that holds the test set (test_lmdb.zip, unpacked) with --lsun"

# The key of an image is 40 hexadecimal digits; the owner's export tool (fyu/lsun, data.py) names files after it and
# makes a folder of each of its first six digits, unless it is told not to. `save` names the same bytes .jpg.
_KEY = re.compile(r"[0-9a-f]{40}", re.ASCII)
_FILE = re.compile(r"([0-9a-f]{40})\.(webp|jpg|png)", re.ASCII)
_NAMED = "<key>.webp in the folder of the key's first digits"
_LEVELS = 6
_DIGITS = frozenset("0123456789abcdef")

# What CSI (Tack et al., 2020) made of LSUN and hands out: 10,000 images of 32 x 32, correct_resize_0.png and so on.
_FIXED = re.compile(r"correct_resize_\d+\.png", re.ASCII)

# The other databases: `bedroom_train_lmdb`, `church_outdoor_val_lmdb`.
_OTHER = re.compile(r"\w+_(train|val)_lmdb", re.ASCII)

_BATCH = 256


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the one class: the owners keep the labels of their test set."""
    return {_CLASS: _CLASS}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the test set."""
    return {_PARTITION: Expected(10_000, {_CLASS: 10_000})}


def _source_ids(keys: Sequence[str]) -> pa.Array:
    return pa.array([f"{_PARTITION}/{key}.webp" for key in keys], pa.string())


def _codes(count: int) -> pa.DictionaryArray:
    return class_column((_CLASS,), np.zeros(count, np.int64))


def _database(root: Path, home: Path) -> Piece | None:
    return _lmdb(root, home / _DATABASE)


def _lmdb(root: Path, path: Path) -> Piece | None:
    if not (path / _DATA).is_file():
        return None
    name = path.resolve().name
    if _OTHER.fullmatch(name):
        raise OtherDataError(
            f"{_TITLE}: expected the test set in the database {_DATABASE}, found only the database {name} in {path}; "
            f"{_WANTED}."
        )
    keys: list[str] = []
    sizes: list[int] = []
    with contextlib.closing(_entries(path)) as entries:
        for key, value in entries:
            name = bytes(key).decode("ascii", "replace")
            if not _KEY.fullmatch(name):
                raise OtherDataError(
                    f"{_TITLE}: expected keys of 40 hexadecimal digits, found {name[:50]!a} in {path / _DATA}; "
                    f"{_WANTED}."
                )
            if not keys and not _is_image(bytes(value[:12])):  # one look; the build looks at each
                raise OtherDataError(
                    f"{_TITLE}: expected WebP or JPEG images as values, found {bytes(value[:4])!r} at the start of "
                    f"the value of {name} in {path / _DATA}; {_WANTED}."
                )
            keys.append(name)
            sizes.append(len(value))
    table = piece_table(
        _codes(len(keys)),
        _source_ids(keys),
        pa.repeat(pa.scalar(relative(path, root), pa.string()), len(keys)),
        pa.array(range(len(keys)), pa.int64()),
        pa.array(sizes, pa.int64()),
    )
    return Piece(_PARTITION, f"database {relative(path, root)}", "lmdb", table)


def _is_image(start: bytes) -> bool:
    return (start[:4] == b"RIFF" and start[8:] == b"WEBP") or start[:3] == b"\xff\xd8\xff"


def _entries(path: Path) -> Generator[tuple[memoryview, memoryview]]:
    """Yield all entries of a database in key order, as views that are valid until the next one.

    Raises:
        BuildError: it cannot be read or is cut short.
    """
    import lmdb  # only this layout needs it

    try:
        # Without a lock no lock file is written; nobody writes to the database meanwhile.
        environment = lmdb.open(str(path), readonly=True, lock=False, create=False, readahead=False)
        with contextlib.closing(environment), environment.begin(buffers=True) as transaction:
            # The file is mapped into memory, and touching a page behind its end kills the process. LMDB asks for no
            # such length, but the files that it writes have it.
            needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
            size = (path / _DATA).stat().st_size
            if size < needed:
                raise BuildError(
                    f"{_TITLE}: expected a whole database of at least {needed:,} bytes, found {size:,} at "
                    f"{path / _DATA}; unpack {_DATABASE}.zip again."
                )
            yield from transaction.cursor()
    except lmdb.Error as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise BuildError(
            f"{_TITLE}: expected an LMDB database, found one that cannot be read ({reason}) at {path / _DATA}; "
            f"unpack {_DATABASE}.zip again."
        ) from error


def unpack(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[list[Any]]:
    """Yield the images of some rows of a database, by place in key order; see `builders.sources.unpack`."""
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
            f"{_TITLE}: expected an image at place {row:,}, found fewer in {path}: the database changed during the "
            "build; run the same command again."
        )
    yield batch


def _folder(root: Path, home: Path) -> Piece | None:
    return _images(root, home / _PARTITION)


def _images(root: Path, folder: Path) -> Piece | None:
    if not folder.is_dir():
        return None
    files, strays = _walk(root, folder, "")
    if not files:
        _refuse_fixed(folder)
        return None
    names = [file.rpartition("/")[2] for file in files]
    table = piece_table(
        _codes(len(names)), _source_ids([name.partition(".")[0] for name in names]), pa.array(files, pa.string())
    )
    saved = sorted({name.partition(".")[2] for name in names} - {"webp"})
    others = f", some as {' and '.join(saved)}" if saved else ""
    return Piece(_PARTITION, f"image files in {relative(folder, root)}{others}", "file", table, tuple(strays))


def _refuse_fixed(folder: Path) -> None:
    """Name the resized images of another project, which are not the test set and carry no keys of its images."""
    fixed = [name for name in child_names(folder) if _FIXED.fullmatch(name)]
    if fixed:
        raise OtherDataError(
            f"{_TITLE}: {folder} holds {len(fixed):,} images such as {fixed[0]}, which CSI resized and numbered "
            f"anew as LSUN-FIX, and no build reads them yet; {_WANTED}, from which the build makes its own."
        )


def _walk(root: Path, folder: Path, digits: str) -> tuple[list[str], list[Stray]]:
    """Return the images in a folder and in those of the next digit of their keys, and what else stands there.

    Args:
        root: what the paths are relative to.
        folder: where to look.
        digits: the first digits of the keys there, as the folders above say.
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
            strays.append(Stray(place + shown(name), plain_reason(folder, name, _NAMED)))
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
