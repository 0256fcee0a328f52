"""Adopts one set of a copy: its classes from the names of folders or a list, its images from files.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.declare.splits import Classes, ClassesOf, Config, Split
from builders.errors import BuildError, one_line
from builders.plan.candidates import Adopted
from builders.release.schema import UNKNOWN_ROLES
from builders.sources.base import Source
from builders.sources.image_folder import ENDINGS
from builders.sources.readers.folders import escape_name, is_hidden
from unknown_detection.names import folded
from unknown_detection.words import first_few

Log = Callable[[str], None]
"""Prints one line for the user."""

# Between a set and its folders in the authors' archives: those named after classes, and others.
_LABELLED, _UNLABELLED = "labels", "no-labels"

_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8")


@contextlib.contextmanager
def reading_copy(path: Path) -> Iterator[None]:
    """Turn an error while reading the copy into a `BuildError`."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"Cannot read {error.filename or path}: {error.strerror}. Restore it in the adopted copy and run again."
        ) from error


@dataclass(frozen=True)
class FileListing:
    """The image files of one set, folder by folder, sorted.

    File i is `names[i]` in `folders[folder_of[i]]`. `classes` gives for each of `folders` the class that it is named
    after, as a path, or "" for a folder that is not named after one. `empty` lists class folders without images.
    `ignored` lists the entries left out: hidden ones, and files with neither the extension nor the signature of an
    image.
    """

    folders: tuple[Path, ...]
    classes: tuple[str, ...]
    folder_of: npt.NDArray[np.int64]
    names: pa.Array = field(repr=False)
    empty: tuple[tuple[str, Path], ...]
    ignored: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def path(self, file: int) -> Path:
        """Return the path of a file, by its number."""
        return self.folders[int(self.folder_of[file])] / os.fsdecode(self.names[file].as_py())


def list_images(folder: Path) -> FileListing:
    """List the images below one set's folder; it opens only files that lack an image's extension.

    Links to folders are followed, and each folder is listed once.
    """
    folders, classes, names = [], [], []
    empty: list[tuple[str, Path]] = []
    ignored: list[str] = []
    seen: set[tuple[int, int]] = set()

    def raise_it(error: OSError) -> None:
        raise error

    with reading_copy(folder):
        for path, subfolders, files in os.walk(folder, onerror=raise_it, followlinks=True):
            current, status = Path(path), Path(path).stat()
            parents = current.relative_to(folder).parts
            # Desktops leave hidden entries: macOS writes `._x.JPEG` beside x.JPEG on foreign disks.
            hidden = [name for name in (*subfolders, *files) if is_hidden(name)]
            subfolders[:] = sorted(name for name in subfolders if not is_hidden(name))
            if (status.st_dev, status.st_ino) in seen:
                subfolders[:] = []
                continue
            seen.add((status.st_dev, status.st_ino))
            visible = [name for name in files if not is_hidden(name)]
            images = [name for name in visible if name.lower().endswith(ENDINGS) or _is_signed(current / name)]
            ignored += sorted({*hidden, *visible} - {*images})
            named_after = "" if parents[:1] == (_UNLABELLED,) else "/".join(parents[parents[:1] == (_LABELLED,) :])
            if images:
                folders.append(current)
                classes.append(named_after)
                names.append(pa.array(sorted(map(os.fsencode, images)), pa.binary()))
            elif named_after and not subfolders:
                empty.append((named_after, current))
    folder_of = np.repeat(np.arange(len(folders)), [len(images) for images in names])
    all_names = pa.concat_arrays([pa.array([], pa.binary()), *names])
    return FileListing(tuple(folders), tuple(classes), folder_of, all_names, tuple(empty), tuple(ignored))


def _is_signed(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as opened:
        return opened.read(12).startswith(_SIGNATURES)


def adopt_class_folders(config: Config, split: Split, folder: Path, log: Log) -> Adopted | None:
    """Adopt the classes that folders are named after; None without such folders, or if the split has all classes."""
    listing = list_images(folder)
    places = dict(listing.empty) | dict(zip(listing.classes, listing.folders, strict=True))
    names = sorted(filter(None, places))
    if not isinstance(split.classes, Classes) or not names:
        log(f"{folder}: its images are generated again and it gives no choice of classes, so it is not used")
        return None
    log(f"{folder}: {len(names):,} class folders; its images are generated again from the source")
    return adopt_classes(config, split, ((name, str(places[name])) for name in names))


def adopt_classes(config: Config, split: Split, mentions: Iterable[tuple[str, str]]) -> Adopted:
    """Adopt classes without images; `mentions` has the name of each class or of its folder, and where it was found."""
    classes, where_named = ClassNames(split.source), dict[str, str]()
    for name, where in mentions:
        where_named.setdefault(classes.of_folder(name) or classes.of_name(name, where), where)
    refuse_roles(config, split, where_named)
    return Adopted(tuple(sorted(where_named)))


def refuse_roles(config: Config, split: Split, where_named: Mapping[str, str]) -> None:
    """Refuse classes that the split's role rules out; `where_named` has the place in the copy of each class."""
    conflicting = sorted(where_named.keys() & ruled_out(config, split))
    if conflicting:
        verdict = "not in-distribution" if split.role == "in_distribution" else "in-distribution"
        raise BuildError(
            f"{split.published or split.name} must not have the class {first_few(conflicting, 1)}, which "
            f"is {verdict} ({where_named[conflicting[0]]}). Check that this is a copy of this benchmark."
        )


def ruled_out(config: Config, split: Split) -> frozenset[str]:
    """Return the ids of those classes of the source that the split's role rules out."""
    if isinstance(config.labels, ClassesOf) or config.labels.draw is not None:
        return frozenset()  # the copy itself says which are in-distribution; `builders.adopt.copies` compares its sets
    labels = frozenset(config.labels.ids())
    if split.role == "in_distribution":
        return frozenset(split.source.classes()) - labels
    same_table = isinstance(split.classes, Classes) and split.classes.table == config.labels.table
    return labels if split.role in UNKNOWN_ROLES and same_table else frozenset()


class ClassNames:
    """Finds the classes of a source by id, by name and by the spellings that copies use."""

    def __init__(self, source: Source) -> None:
        self.title, self.ids = source.title, source.classes()
        self.spelled: dict[str, list[str]] = defaultdict(list)
        for class_id, name in self.ids.items():
            for spelling in {_plain(class_id), _plain(name)}:
                self.spelled[spelling].append(class_id)

    def candidates(self, name: str) -> list[str]:
        """Return the ids of all classes that a name may mean."""
        return [name] if name in self.ids else self.spelled.get(_plain(name), [])

    def of_folder(self, name: str) -> str | None:
        """Return the id of the class that a folder is named after, alone or with its parents (`a/airfield`)."""
        for part in (name, name.partition("/")[0], name.rpartition("/")[2]):
            if len(class_ids := self.candidates(part)) == 1:
                return class_ids[0]
        return None

    def of_name(self, name: str, where: str) -> str:
        """Return the id of the one class that a name means; `where` says where the name stands."""
        class_ids, shown = self.candidates(name), one_line(repr(escape_name(name)))
        if len(class_ids) == 1:
            return class_ids[0]
        several = f"{shown} means several classes of {self.title}, {' and '.join(class_ids)}"
        raise BuildError(
            f"{several if class_ids else f'{self.title} has no class {shown}'} ({where}). Name a class like "
            f"{next(iter(self.ids))}, and check that the set belongs to this source."
        )


def _plain(name: str) -> str:
    """Normalise a class name: drop Caltech's number and the letter of Places, unify case, encoding and separators."""
    return folded(re.sub(r"[/_\s-]+", "_", re.sub(r"^(\d{3}\.|/?[a-z]/)", "", name)))
