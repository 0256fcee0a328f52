"""Identifies class folders that a copy numbers from 0 instead of naming them, by the images inside.

Whether the authors' archives have such folders is not known. A number is read as a position in the sorted list of the
set's classes, as image-folder loaders count, and only if the images of every folder agree with that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from builders.adopt.file_listing import FileListing
from builders.errors import NAMED, BuildError
from builders.release import images
from builders.sources.base import Container, SourceIndex
from builders.sources.readers.folders import escape_name
from builders.sources.unpack import UNPACKERS
from builders.storage.files import open_buffered

_SIDE = 32


def are_numbered(names: Collection[str]) -> bool:
    """Whether the folder names are 0, 1, 2 and so on, each once."""
    return bool(names) and sorted(names) == sorted(map(str, range(len(names))))


def classes_in_label_order(title: str, folder: Path, classes_of: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return the class of each numbered folder.

    Args:
        title: the source's title.
        folder: the set's folder, for messages.
        classes_of: the classes of each folder's images, by the folder's number.

    Raises:
        BuildError: a folder has images of no class or of several, or the numbers are not positions in the sorted list.
    """
    numbers = sorted(classes_of, key=int)
    for number in numbers:
        if len(classes_of[number]) != 1:
            class_names = " and ".join(sorted(classes_of[number])[:NAMED])
            holds = f"images of {class_names}" if class_names else f"no image of {title}"
            raise BuildError(
                f"{title}: the class folders of {folder} are numbers, and {number} holds {holds}, so its class is "
                "unclear. Name the folders after their classes."
            )
    classes = {number: next(iter(classes_of[number])) for number in numbers}
    if len(set(classes.values())) < len(classes):
        repeated = next(name for name in classes.values() if list(classes.values()).count(name) > 1)
        holders = " and ".join([number for number in numbers if classes[number] == repeated][:NAMED])
        raise BuildError(
            f"{title}: the class folders of {folder} are numbers, and {holders} hold images of the same class "
            f"{repeated}. Name the folders after their classes."
        )
    for number, expected in zip(numbers, sorted(classes.values()), strict=True):
        if classes[number] != expected:
            raise BuildError(
                f"{title}: the class folders of {folder} are numbers, and {number} holds images of {classes[number]}, "
                f"while the sorted list of its classes has {expected} there. Name the folders after their classes."
            )
    return classes


def classes_by_pixels(listing: FileListing, index: SourceIndex, partitions: Collection[str]) -> dict[str, set[str]]:
    """Return the classes of the images in each folder, identified by their pixels in a source of arrays.

    An image that the source has under two labels is ignored. A folder with an image that the source lacks gets no
    class.

    Args:
        listing: the files of the set.
        index: the source.
        partitions: the partitions that the set may come from.
    """
    known = _classes_of_pixels(index, partitions)
    names = (*listing.classes, *(name for name, _ in listing.empty))
    classes_of: dict[str, set[str]] = {name: set() for name in names}
    with_unknown = set()
    for file in range(len(listing)):
        name = listing.classes[int(listing.folder_of[file])]
        classes = known.get(_digest(listing.path(file)), set())
        if not classes:
            with_unknown.add(name)
        elif len(classes) == 1:
            classes_of[name] |= classes
    return {name: set() if name in with_unknown else classes for name, classes in classes_of.items()}


def _digest(path: Path) -> str:
    try:
        with open_buffered(path) as opened:
            return images.pixel_sha256(images.decode_or_mend(opened.read())[0].convert("RGB"))
    except images.UnreadableImageError as error:
        raise BuildError(
            f"{escape_name(str(path))} does not decode ({error}). Replace it with a good copy or remove it from the "
            "set."
        ) from error


def _classes_of_pixels(index: SourceIndex, partitions: Collection[str]) -> dict[str, set[str]]:
    containers: dict[tuple[Container, str, str], list[tuple[int, str]]] = defaultdict(list)
    for row in index.take(
        ["how", "file", "form", "offset", "class_id"], index.rows_of(sorted(partitions))
    ).to_pylist():
        containers[row["how"], row["file"], row["form"]].append((row["offset"], row["class_id"]))
    known: dict[str, set[str]] = defaultdict(set)
    for (how, file, form), rows in sorted(containers.items()):
        rows.sort()
        digests = _digests(index.root / file, how, form, np.array([offset for offset, _ in rows], dtype=np.int64))
        for (_, class_id), digest in zip(rows, digests, strict=True):
            known[digest].add(class_id)
    return known


def _digests(path: Path, how: Container, form: str, offsets: npt.NDArray[np.int64]) -> Iterator[str]:
    """Yield the pixel digests of images at some offsets of a container."""
    for data in chain.from_iterable(UNPACKERS[how](path, offsets)):
        if form == "encoded":
            yield images.pixel_sha256(images.decode_or_mend(bytes(data))[0].convert("RGB"))
        else:
            yield images.rgb_sha256(np.frombuffer(data, np.uint8).reshape(1, _SIDE, _SIDE, 3))[0]
