"""LSUN's test set of scenes: 10,000 images without labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.errors import BuildError
from builders.sources.base import Expected, Licence, PartitionIndex, Source, Stray, partition_table
from builders.sources.formats import lmdb_pages
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers.folders import child_names, class_column, escape_name, relative
from builders.sources.readers.layouts import CopyLayout, Home, OtherDataError
from builders.storage.paths import store_of

_TITLE = "LSUN"
_CLASS = "unlabelled"  # the owners do not publish the labels of their test set
_DATABASE = "test_lmdb"
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
_FILE = re.compile(r"(?P<digits>(?:[0-9a-f]/){0,6})(?P<key>[0-9a-f]{40})\.(?P<ending>webp|jpg|png)", re.ASCII)
_NAMED = "<key>.webp in the folder of the key's first digits"

# The other databases: `bedroom_train_lmdb`, `church_outdoor_val_lmdb`.
_OTHER = re.compile(r"\w+_(train|val)_lmdb", re.ASCII)


def _table(
    keys: Sequence[str], files: pa.Array, offsets: pa.Array | None = None, sizes: pa.Array | None = None
) -> pa.Table:
    ids = pa.array([f"test/{key}.webp" for key in keys], pa.string())
    return partition_table(class_column((_CLASS,), np.zeros(len(keys), np.int64)), ids, files, offsets, sizes)


def _lmdb(home: Home, place: Path) -> PartitionIndex | None:
    path = place / "data.mdb"
    if not path.is_file():
        return None
    name = place.resolve().name
    if _OTHER.fullmatch(name):
        raise OtherDataError(f"{_TITLE}: {place} is the database {name}, not the test set's {_DATABASE}. {_ADVICE}.")
    entries = _entries(path)
    keys = [entry.key.decode("ascii", "replace") for entry in entries]
    if other := [key for key in keys if not _KEY.fullmatch(key)]:
        raise OtherDataError(f"{_TITLE}: the key {other[0][:50]!a} of {path} is not 40 hexadecimal digits. {_ADVICE}.")
    table = _table(
        keys,
        pa.repeat(pa.scalar(relative(path, home.root), pa.string()), len(entries)),
        pa.array([entry.start for entry in entries], pa.int64()),
        pa.array([entry.size for entry in entries], pa.int64()),
    )
    return PartitionIndex(home.partition, f"database {relative(place, home.root)}", "span", table)


def _entries(path: Path) -> list[lmdb_pages.LmdbEntry]:
    """List the entries of a database in key order."""
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


def _images(home: Home, folder: Path) -> PartitionIndex | None:
    """Index exported images, in one folder or in nested ones that are named by the first digits of the keys."""
    names = child_names(folder) if folder.is_dir() else []
    if not any(_FILE.fullmatch(name) or re.fullmatch("[0-9a-f]", name) for name in names):
        return None
    where = relative(folder, home.root)
    prefix = "" if where == "." else f"{where}/"
    files, keys, endings, strays = [], [], set(), []
    for path in sorted(store_of(folder).files_below(folder)):
        match = _FILE.fullmatch(path)
        if match and match["key"].startswith(match["digits"].replace("/", "")):
            files.append(prefix + path)
            keys.append(match["key"])
            endings.add(match["ending"])
        else:
            strays.append(Stray(prefix + escape_name(path), f"not named {_NAMED}"))
    if not files:
        return None
    saved = sorted(endings - {"webp"})
    other_formats = f", some as {' and '.join(saved)}" if saved else ""
    layout = f"image files in {where}{other_formats}"
    return PartitionIndex(home.partition, layout, "file", _table(keys, pa.array(files, pa.string())), tuple(strays))


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
    classes=lambda: {_CLASS: _CLASS},
    expected=lambda: {"test": Expected.of({_CLASS: 10_000})},
    accepted=(
        CopyLayout(f"the database {_DATABASE}/", lambda home: _lmdb(home, home.folder / _DATABASE)),
        CopyLayout(
            "its exported images test/<key>.webp (also in folders of the keys' first digits)",
            lambda home: _images(home, home.folder / "test"),
        ),
        CopyLayout("the database's own folder", lambda home: _lmdb(home, home.folder)),
        CopyLayout("the images themselves", lambda home: _images(home, home.folder)),
    ),
)
