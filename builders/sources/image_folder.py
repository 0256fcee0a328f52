"""Declares a user's own folder of images as a source, with class folders or without, in partitions or not.

Unlike the sources in the registry it has no owner whose counts are known: what the folder holds is what is expected.

Tested by `tests/builders/sources/test_image_folder.py`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, one_line
from builders.release.images import UnreadableImageError
from builders.release.names import absolute_paths, is_file_name
from builders.sources.base import CopyLayout, Expected, Licence, PartitionIndex, Source, Stray, partition_table
from builders.sources.obtain import Obtain
from builders.sources.readers.folders import child_names, escape_name, is_hidden
from builders.storage.files import read_regular
from builders.storage.folders import cached_listings, files_below, links_of
from taxonomy import tables
from unknown_detection.names import differ_in_encoding, folded, told_apart
from unknown_detection.words import first_few, is_printable, more

ALL = "images"
"""The partition of a folder that is not divided."""

PARTITIONS: Mapping[str, str] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}
"""Partitions by the names that their folders have."""

ENDINGS = (
    ".bmp",
    ".gif",
    ".jfif",
    ".jpe",
    ".jpeg",
    ".jpg",
    ".pgm",
    ".png",
    ".ppm",
    ".tif",
    ".tiff",
    ".webp",
)
"""Endings of the files that are taken for images, in any case. `torchvision.datasets.folder` (0.28) lists the same,
but for .gif, which `datasets.Image` decodes, and .jfif and .jpe, which are JPEGs by other names."""

JPEG_ENDINGS = (".jfif", ".jpe", ".jpeg", ".jpg")
"""Those of JPEGs."""

HIDDEN = "hidden, or in a hidden folder"
"""The reason why such a file is not taken for an image."""

OTHER_ENDING = "not the name of an image"
"""The reason why a file with none of the `ENDINGS` is not taken for an image."""

_READ_TOGETHER = 4096
"""Images that are given to the threads that read them at a time (ours)."""

_READ_IN_TURN = 16
"""Images that a thread reads in turn (ours)."""

_LISTED = 50
"""Images that a message lists at most (ours): a screen or two."""

_LICENCE = Licence(
    name="not stated",
    url="",
    statement="Images of a folder on somebody's machine. Nobody stated a licence, so only ids may be published.",
    publish="ids-only",
)


@dataclass(frozen=True)
class FolderImages:
    """The images of a folder by partition: each image's path below the folder, with forward slashes, and its class.

    `strays` are files that are not images, by partition. `flat` are the partitions without class folders, whose images
    have no class of their own. `contents` is a digest of all images' bytes, once they have been read.
    """

    root: Path
    files: Mapping[str, tuple[tuple[str, str], ...]]
    strays: Mapping[str, tuple[Stray, ...]]
    flat: frozenset[str]
    contents: str = ""

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of all partitions in alphabetical order."""
        return tuple(sorted({class_id for files in self.files.values() for _, class_id in files}))

    def sizes(self, partition: str) -> Mapping[str, int]:
        """Return the number of images of each class in a partition, 0 for classes of other partitions."""
        counted = Counter(class_id for _, class_id in self.files[partition])
        return {class_id: counted[class_id] for class_id in self.classes}


def find_images(root: Path, flat: str = "") -> FolderImages:
    """List the images of a folder without opening a file.

    Folders with names of `PARTITIONS` are partitions if no other folders lie beside them. Other folders beside a
    partition that has folders of its own are refused. Any other folder is a class folder, and everything below it
    belongs to the class. Images in no class folder are of the class `flat`; if `flat` is empty, they are refused.
    Links are not followed.

    Raises:
        BuildError: it cannot be listed, has no image, has a class folder without one, images beside class folders,
            a link to a class folder or an image, names that no release may have, or one class under two names.
    """
    with cached_listings(root):
        if not root.is_dir():
            raise BuildError(f"There is no folder {root}. Give a folder of images.")
        folders = _folders(root)
        divided = {name: PARTITIONS[folded(name)] for name in folders if folded(name) in PARTITIONS}
        others = [name for name in folders if name not in divided]
        if others and (len(divided) > 1 or any(_folders(root / name) for name in divided)):
            raise BuildError(
                f"{root} has the partitions {' and '.join(divided)}, and beside them {first_few(others)}. "
                f"Move the other folders away, or rename the partitions if they are classes."
            )
        if not divided or others:
            divided = {"": ALL}
        if repeated := [name for name, times in Counter(divided.values()).items() if times > 1]:
            names = " and ".join(name for name, partition in divided.items() if partition == repeated[0])
            raise BuildError(f"{root} has the {repeated[0]} images twice, in {names}. Remove one of the two.")
        files, strays, unclassed = {}, {}, set()
        for name, partition in divided.items():
            files[partition], strays[partition] = _of_partition(root, name, flat)
            home = f"{name}/" if name else ""
            if all("/" not in path.removeprefix(home) for path, _ in files[partition]):
                unclassed.add(partition)
    images = FolderImages(root, files, strays, frozenset(unclassed))
    _refuse_names(images)
    return images


def read_images(
    folders: Sequence[FolderImages],
    *,
    check: Callable[[bytes, str], object],
    progress: Callable[[int], object],
    allow_partial: bool = False,
    threads: int = 1,
) -> list[FolderImages]:
    """Read all images once; returns the folders with a digest of their contents.

    Damaged images are refused, all in one message, unless `allow_partial`. `check` is given the bytes of an image and
    their SHA-256, in so many threads, and raises `UnreadableImageError`. `progress` is called for every image.

    Raises:
        BuildError: there are images that are not whole.
        OSError: a file cannot be read.
    """

    def read_some(paths: Sequence[Path]) -> list[tuple[str, str]]:
        return [read(path) for path in paths]

    def read(path: Path) -> tuple[str, str]:
        data = read_regular(path)
        digest = hashlib.sha256(data).hexdigest()
        try:
            check(data, digest)
        except UnreadableImageError as error:
            return digest, f"  {one_line(path)} ({error})"
        return digest, ""

    problems, known = [], []
    with ThreadPoolExecutor(threads) as pool:
        for images in folders:
            paths = [path for of_partition in images.files.values() for path, _ in of_partition]
            contents = hashlib.sha256()
            # Some at a time, because each that waits takes a kilobyte or two, and of these some to a thread, which
            # would wake the others for each.
            for start in range(0, len(paths), _READ_TOGETHER):
                some = paths[start : start + _READ_TOGETHER]
                of_threads = [some[first : first + _READ_IN_TURN] for first in range(0, len(some), _READ_IN_TURN)]
                absolute = ([images.root / path for path in of_thread] for of_thread in of_threads)
                for of_thread, found in zip(of_threads, pool.map(read_some, absolute), strict=True):
                    progress(len(of_thread))
                    for path, (digest, problem) in zip(of_thread, found, strict=True):
                        problems += [problem] if problem else []
                        contents.update(f"{path}\0{digest}\n".encode("utf-8", "surrogateescape"))
            known.append(replace(images, contents=contents.hexdigest()))
    if problems and not allow_partial:
        head = "1 image cannot be used" if len(problems) == 1 else f"{len(problems):,} images cannot be used"
        listed = "\n".join(problems[:_LISTED]) + more(problems, _LISTED)
        raise BuildError(f"{head}:\n{listed}\nReplace or remove them, or leave them out with --allow-partial.")
    return known


def image_folder(key: str, title: str, images: FolderImages) -> Source:
    """Declare the images of a folder as a source; its title is not its path, because releases quote the title."""
    imagenet_names = {row.wnid: row.name for row in tables.imagenet1k()}
    names = {class_id: imagenet_names.get(class_id, class_id) for class_id in images.classes}
    expected = {partition: Expected.of(images.sizes(partition)) for partition in images.files}
    return Source(
        key=key,
        title=title,
        edition="as found",
        licence=_LICENCE,
        citation="",
        obtain=Obtain("", "a folder of your own"),
        classes=lambda: names,
        expected=lambda: expected,
        accepted=(
            CopyLayout("class folders, or images without classes", lambda home: _index(images, home.partition)),
        ),
        contents=images.contents,
    )


def _index(images: FolderImages, partition: str) -> PartitionIndex:
    files = images.files[partition]
    code_of = {class_id: code for code, class_id in enumerate(images.classes)}
    codes = np.array([code_of[class_id] for _, class_id in files], np.int32)
    paths = pa.array([path for path, _ in files], pa.string())
    table = partition_table(images.classes, codes, paths, paths)
    return PartitionIndex(partition, "image folder", "file", table, images.strays[partition])


def _of_partition(root: Path, name: str, flat: str) -> tuple[tuple[tuple[str, str], ...], tuple[Stray, ...]]:
    """Return the images of a partition's folder, sorted by path, and its strays; `name` is empty for the root."""
    home, inside = root / name, f"{name}/" if name else ""
    class_folders = dict.fromkeys(_folders(home))  # looked up for every name
    loose = [inside + child for child in child_names(home) if child not in class_folders]
    loose_images = [path for path in loose if not _reason(path)]
    if class_folders and loose_images:
        raise BuildError(
            f"{home} has images beside its class folders: {first_few(loose_images)}. Put "
            "each into the folder of its class, or remove it."
        )
    if loose_images and not flat:
        raise BuildError(f"{home} has images, but no class folders. Put each image into a folder of its class.")
    files = [(path, flat) for path in loose_images]
    other_files = [path for path in loose if _reason(path)]
    for child in class_folders:
        below = [f"{inside}{child}/{path}" for path in files_below(home / child)]
        images = [path for path in below if not _reason(path)]
        if not images:
            raise BuildError(
                f"The class folder {escape_name(str(home / child))} has no image (a file that ends in "
                f"{', '.join(ENDINGS)}). Put its images there, or remove it."
            )
        files += [(path, child) for path in images]
        other_files += [path for path in below if _reason(path)]
    if not files:
        raise BuildError(f"{home} has no image (a file that ends in {', '.join(ENDINGS)}). Give another folder.")
    _refuse_links(root, [path for path, _ in files], other_files)
    return tuple(sorted(files)), tuple(Stray(escape_name(path), _reason(path)) for path in sorted(other_files))


def _refuse_links(root: Path, images: Sequence[str], others: Sequence[str]) -> None:
    """Refuse images and folders that are links, which may lead to a picture that nobody meant to give away."""
    links = links_of(root, images)
    links += [path for path in links_of(root, others) if (root / path).is_dir()]
    if links:
        raise BuildError(
            f"{root} has images or folders that are links: {first_few(links)}. Links are not "
            "followed; put copies or hard links of the images in their place."
        )


def _refuse_names(images: FolderImages) -> None:
    """Refuse names that `verify` would not have in a release, and a class that has two names."""
    files = [file for of_partition in images.files.values() for file in of_partition]
    paths, classes = (pa.array(texts, pa.string()) for texts in zip(*files, strict=True))
    wrong = pc.or_(absolute_paths(paths), absolute_paths(classes, classes=True)).to_pylist()
    rooted = [
        path
        for (path, _), is_absolute in zip(files, wrong, strict=True)
        if is_absolute or not is_file_name(path.rpartition("/")[2])
    ]
    if rooted:
        raise BuildError(
            f"{images.root} has names that some systems read as absolute paths or as folders: {first_few(rooted)}. "
            "Rename them: files without \\, and folders without \\ at the start, ~, C: or file:."
        )
    _refuse_two_names(images)


def _refuse_two_names(images: FolderImages) -> None:
    """Refuse class folders of one name that differ in encoding, or that differ in case and share no partition.

    `a` and `A` beside each other are two classes, as of letters; `a` in one partition and `A` in another are one.
    """
    alike: dict[str, list[str]] = {}
    for class_id in images.classes:
        alike.setdefault(folded(class_id), []).append(class_id)
    present = [{class_id for _, class_id in files} for files in images.files.values()]
    for names in alike.values():
        for pair in itertools.combinations(names, 2):
            if differ_in_encoding(*pair) or not any(of_partition.issuperset(pair) for of_partition in present):
                raise BuildError(
                    f"{images.root} has a class under two names: {told_apart(*pair)}. Give its folders one name, or "
                    "two classes other names."
                )


def _folders(folder: Path) -> list[str]:
    """Return the sorted names of a folder's subfolders that are not hidden.

    Raises:
        BuildError: one is a link, or its name does not print.
    """
    names = [name for name in child_names(folder) if not is_hidden(name) and (folder / name).is_dir()]
    for name in names:
        if (folder / name).is_symlink():
            raise BuildError(f"{folder / name} is a link to a folder, and links are not followed. Give its target.")
        if not is_printable(name):
            raise BuildError(
                f"The folder {escape_name(str(folder / name))} has a name that does not print. Rename it."
            )
    return names


def _reason(path: str) -> str:
    """Return why a file is not an image, judged by its path; empty if it is one."""
    if not is_printable(path):
        return "a name that does not print"
    if any(map(is_hidden, path.split("/"))):
        return HIDDEN
    return "" if path.lower().endswith(ENDINGS) else OTHER_ENDING
