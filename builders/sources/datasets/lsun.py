"""LSUN's test set of scenes: 10,000 images without labels."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import Expected, Home, Licence, OtherDataError, PartitionIndex, Source
from builders.sources.formats import lmdb_pages
from builders.sources.formats.tar_headers import File
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers import trees
from builders.sources.readers.folders import child_names, relative
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from builders.storage.files import open_whole

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
_FILE = r"(?P<digits>(?:[0-9a-f]/){0,6})(?P<key>[0-9a-f]{40})\.(?P<ending>webp|jpg|png)"

# The other databases: `bedroom_train_lmdb`, `church_outdoor_val_lmdb`.
_OTHER = re.compile(r"\w+_(train|val)_lmdb", re.ASCII)


class _LsunNames(ImageNames):
    """The keys of images as file names."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        found = self.index(tree, _CLASS, pc.binary_join_element_wise("test/", tree.column("key"), ".webp", ""))
        saved = sorted({*tree.column("ending").unique().to_pylist()} - {"webp"})
        return dataclasses.replace(found, layout=f"{found.layout}, some as {' and '.join(saved)}") if saved else found


_IMAGES = _LsunNames(_FILE, "<key>.webp in the folder of the key's first digits")


def _lmdb(home: Home, place: Path) -> Tree | None:
    path = place / "data.mdb"
    if not path.is_file():
        return None
    name = place.resolve().name
    if _OTHER.fullmatch(name):
        raise OtherDataError(f"{_TITLE}: {place} is the database {name}, not the test set's {_DATABASE}. {_ADVICE}.")
    entries = [(key.decode("ascii", "replace"), start, size) for key, start, size in _entries(path)]
    if other := [key for key, _, _ in entries if not _KEY.fullmatch(key)]:
        raise OtherDataError(f"{_TITLE}: the key {other[0][:50]!a} of {path} is not 40 hexadecimal digits. {_ADVICE}.")
    files = [File(f"{key}.webp", start, size) for key, start, size in entries]
    tree = _IMAGES.in_tars(home, path, [("", path, files)])
    return dataclasses.replace(tree, description=f"database {relative(place, home.root)}")


def _entries(path: Path) -> list[lmdb_pages.LmdbEntry]:
    """List the entries of a database in key order."""
    try:
        with open_whole(path) as file:
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


def _exported(home: Home, folder: Path) -> Tree | None:
    """List exported images, in one folder or in nested ones that are named by the first digits of the keys."""
    names = child_names(folder) if folder.is_dir() else []
    if not any(re.fullmatch(f"{_FILE}|[0-9a-f]", name, re.ASCII) for name in names):
        return None
    tree = trees.in_depth(home, folder).match(_FILE)
    places = zip(tree.column("key").to_pylist(), tree.column("digits").to_pylist(), strict=True)
    return tree.keep(pa.array([key.startswith(digits.replace("/", "")) for key, digits in places], pa.bool_()), "")


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
        _IMAGES.layout(f"the database {_DATABASE}/", lambda home: _lmdb(home, home.folder / _DATABASE)),
        _IMAGES.layout(
            "its exported images test/<key>.webp (also in folders of the keys' first digits)",
            lambda home: _exported(home, home.folder / "test"),
        ),
        _IMAGES.layout("the database's own folder", lambda home: _lmdb(home, home.folder)),
        _IMAGES.layout("the images themselves", lambda home: _exported(home, home.folder)),
    ),
)
