"""LSUN's test set of scenes: 10,000 images without labels."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.errors import BuildError
from builders.sources.base import Expected, Licence, OtherDataError, PartitionIndex, Source, Stray, partition_table
from builders.sources.formats import lmdb_pages
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers.folders import child_names, class_column, escape_name, relative
from builders.sources.readers.layouts import CopyLayout, Search
from builders.storage.files import open_regular
from builders.storage.paths import store_of

_TITLE = "LSUN"
_PARTITION = "test"
_CLASS = "unlabelled"
_DATABASE = "test_lmdb"
_DATA = "data.mdb"
_ADVICE = "Give the folder that holds the test set (test_lmdb.zip, unpacked) with --lsun"

# The address is that of the owners' script (fyu/lsun, download.py). A stored listing of that folder shows 172M; no
# checksum is published, so only those inside the zip tell whether it is whole.
_PUBLISHED = OwnerFile(
    f"{_DATABASE}.zip",
    172 << 20,
    url="http://dl.yf.io/lsun/scenes/test_lmdb.zip",
    rounded=True,
    unpacked=_DATABASE,
)

# The key of an image is 40 hexadecimal digits. The owner's export tool (fyu/lsun, data.py) names files after it, in
# nested folders of its first six digits unless told otherwise. `save` names the same bytes .jpg.
_KEY = re.compile(r"[0-9a-f]{40}", re.ASCII)
_FILE = re.compile(r"([0-9a-f]{40})\.(webp|jpg|png)", re.ASCII)
_NAMED = "<key>.webp in the folder of the key's first digits"
_LEVELS = 6
_DIGITS = frozenset("0123456789abcdef")

# LSUN-FIX, which has a source of its own.
_FIXED = re.compile(r"correct_resize_\d+\.png", re.ASCII)

# The other databases: `bedroom_train_lmdb`, `church_outdoor_val_lmdb`.
_OTHER = re.compile(r"\w+_(train|val)_lmdb", re.ASCII)


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


def _lmdb(root: Path, path: Path) -> PartitionIndex | None:
    if not (path / _DATA).is_file():
        return None
    name = path.resolve().name
    if _OTHER.fullmatch(name):
        raise OtherDataError(f"{_TITLE}: {path} is the database {name}, not the test set's {_DATABASE}. {_ADVICE}.")
    entries = _entries(path / _DATA)
    with open_regular(path / _DATA) as file:
        for number, entry in enumerate(entries):
            key = entry.key.decode("ascii", "replace")
            if not _KEY.fullmatch(key):
                raise OtherDataError(
                    f"{_TITLE}: the key {key[:50]!a} of {path / _DATA} is not 40 hexadecimal digits. {_ADVICE}."
                )
            if number == 0:  # only the first one; the build checks each
                file.seek(entry.start)
                start = file.read(min(12, entry.size)) or b""
                if not _is_image(start):
                    raise OtherDataError(
                        f"{_TITLE}: the value of {key} in {path / _DATA} is not a WebP or JPEG image: it starts with "
                        f"{start[:4]!r}. {_ADVICE}."
                    )
    table = partition_table(
        _codes(len(entries)),
        _source_ids([entry.key.decode("ascii") for entry in entries]),
        pa.repeat(pa.scalar(relative(path / _DATA, root), pa.string()), len(entries)),
        pa.array([entry.start for entry in entries], pa.int64()),
        pa.array([entry.size for entry in entries], pa.int64()),
    )
    return PartitionIndex(_PARTITION, f"database {relative(path, root)}", "span", table)


def _is_image(start: bytes) -> bool:
    return (start[:4] == b"RIFF" and start[8:] == b"WEBP") or start[:3] == b"\xff\xd8\xff"


def _entries(path: Path) -> list[lmdb_pages.LmdbEntry]:
    """List the entries of a database in key order.

    Raises:
        BuildError: the database cannot be read, is damaged or is truncated.
    """
    try:
        with store_of(path).open_whole(path) as file:
            return lmdb_pages.list_entries(file)
    except lmdb_pages.TruncatedError as error:
        raise BuildError(
            f"{_TITLE}: {path} is truncated: expected at least {error.needed:,} bytes, found {error.size:,}. "
            f"Unpack {_DATABASE}.zip again."
        ) from error
    except lmdb_pages.LmdbError as error:
        raise BuildError(
            f"{_TITLE}: {path} cannot be read as an LMDB database ({error}). Unpack {_DATABASE}.zip again."
        ) from error


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
    other_formats = f", some as {' and '.join(saved)}" if saved else ""
    return PartitionIndex(
        _PARTITION, f"image files in {relative(folder, root)}{other_formats}", "file", table, tuple(strays)
    )


def _refuse_fixed(folder: Path) -> None:
    """Refuse LSUN-FIX, whose images are made of LSUN's training sets and do not carry the keys of the test set."""
    fixed = [name for name in child_names(folder) if _FIXED.fullmatch(name)]
    if fixed:
        raise OtherDataError(
            f"{_TITLE}: {folder} holds {len(fixed):,} images of LSUN-FIX such as {fixed[0]}, which its authors made "
            f"of {_TITLE}'s training sets, and not the test set. {_ADVICE}."
        )


def _walk(root: Path, folder: Path, digits: str) -> tuple[list[str], list[Stray]]:
    """Return the images and the strays in a folder and its subfolders, which are named by the next digit of the keys.

    Args:
        root: the folder that the paths are relative to.
        folder: the folder to search.
        digits: the first digits of the keys there, given by the folders above.
    """
    prefix = "" if folder == root else relative(folder, root) + "/"
    files: list[str] = []
    strays: list[Stray] = []
    for name in child_names(folder):
        match = _FILE.fullmatch(name)
        if match and match[1].startswith(digits):
            files.append(prefix + name)
        elif name in _DIGITS and len(digits) < _LEVELS and (folder / name).is_dir():
            inner_files, inner_strays = _walk(root, folder / name, digits + name)
            files += inner_files
            strays += inner_strays
        else:
            reason = "a folder" if (folder / name).is_dir() else f"not named {_NAMED}"
            strays.append(Stray(prefix + escape_name(name), reason))
    return files, strays


LSUN = Source(
    key="lsun",
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
        files=(_PUBLISHED,),
    ),
    classes=classes,
    expected=expected,
    search=Search(
        (
            CopyLayout(_PARTITION, f"the database {_DATABASE}/", lambda root, home: _lmdb(root, home / _DATABASE)),
            CopyLayout(
                _PARTITION,
                "its exported images test/<key>.webp (also in folders of the keys' first digits)",
                lambda root, home: _images(root, home / _PARTITION),
            ),
            CopyLayout(_PARTITION, "the database's own folder", _lmdb),
            CopyLayout(_PARTITION, "the images themselves", _images),
        )
    ),
)
