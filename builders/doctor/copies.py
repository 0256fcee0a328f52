"""Recognises what a folder or archive is a copy of, by trying the layouts of all sources.

Tested by `tests/builders/doctor/test_doctor.py`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.release.layout import MANIFEST
from builders.sources.base import (
    AbsentPartitionError,
    Container,
    PartitionIndex,
    Source,
    Stray,
    partition_table,
)
from builders.sources.opening import scan
from builders.sources.readers import tars, zips
from builders.sources.readers.folders import by_spelling, escape_name, not_permitted, text_array
from builders.sources.registry import SOURCES
from builders.storage.folders import cached_listings, files_below

ENDINGS = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")
"""Endings of image files, in lower case."""

FOLDER = "folder"
"""The group of the images of a folder that is no copy of a source."""

_PARTITION_FOLDERS = ("train", "val", "validation", "test", "images")
"""Folders that people give although a copy is the folder above (ours)."""


@dataclass(frozen=True)
class Refusal:
    """A partition of a source that a folder seems to hold, and the reader's sentence that it does not."""

    source: Source
    partition: str
    reason: str


@dataclass(frozen=True)
class Copy:
    """Images that lie in a folder: those of a source's partitions, or all of a folder that is no known copy.

    `rows` are as `SourceIndex.table` has them. `extra` are image files that none of them names, each with a reason.
    """

    root: Path
    source: Source | None
    partitions: tuple[PartitionIndex, ...]
    rows: pa.Table = field(repr=False)
    extra: tuple[Stray, ...] = field(default=(), repr=False)

    @property
    def title(self) -> str:
        """The source's title, or `a folder of images`."""
        return self.source.title if self.source else "a folder of images"


@dataclass(frozen=True)
class Recognised:
    """What a folder holds: copies, the one with the most images first, and what was refused."""

    copies: tuple[Copy, ...]
    refusals: tuple[Refusal, ...]


def recognise(place: Path, sources: Sequence[Source] = tuple(SOURCES.values())) -> Recognised:
    """Find the sources of which a folder or an archive holds partitions.

    Raises:
        BuildError: there is no such place, no image in it, it is a release, or a folder may not be read.
    """
    try:
        return _recognised(place, sources)
    except PermissionError as error:
        raise not_permitted(error) from error


def _recognised(place: Path, sources: Sequence[Source]) -> Recognised:
    if not place.exists():
        raise BuildError(f"There is no folder or file {place}. Give a copy of a dataset.")
    if not (place.is_dir() or place.is_file()):
        raise BuildError(f"{place} is neither a folder nor a regular file. Give the folder or archive of a dataset.")
    # A release itself, its data folder, or the folder of a config in it.
    for folder in (place, *place.absolute().parents[:2]):
        if (folder / MANIFEST).is_file() and (folder / "index").is_dir():
            raise BuildError(
                f"{folder} is a release, not a copy of a source. Check it with python -m hf_scripts.verify {folder}, "
                "or compare it with another one by python -m builders.commands.compare."
            )
    inside = "" if place.is_dir() else place.name
    found, refusals = _candidates(place if place.is_dir() else place.parent, inside, sources)
    if place.is_dir() and place.resolve().name in _PARTITION_FOLDERS:
        above, more = _candidates(place.resolve().parent, f"{place.resolve().name}/", sources)
        found, refusals = [*found, *above], [*refusals, *more]
    found.sort(key=_likeliness, reverse=True)
    chosen: list[Copy] = []
    for copy in found:
        if not any(_share_files(copy, other) for other in chosen):
            chosen.append(copy)
    if not chosen:
        try:
            chosen = [_any_images(place)]
        except BuildError:
            own = [refusal for refusal in refusals if not inside or inside in refusal.reason]
            if own:  # as of an archive that is damaged
                raise BuildError(own[0].reason) from None
            raise
        refusals = [refusal for refusal in refusals if _has_classes_of(chosen[0], refusal.source)]
    kept = [refusal for refusal in refusals if all(refusal.source is not copy.source for copy in chosen[1:])]
    return Recognised((_with_extra(chosen[0], chosen[1:], inside), *chosen[1:]), tuple(kept))


def _has_classes_of(copy: Copy, source: Source) -> bool:
    """Whether most folders of images of no known source have the names of a source's classes."""
    class_of = by_spelling(source.classes())
    folders = pc.unique(pc.cast(copy.rows["class_id"], pa.string())).to_pylist()
    return sum(class_of(folder) is not None for folder in folders) > len(folders) / 2


def _share_files(copy: Copy, other: Copy) -> bool:
    """Whether two copies have a file in common; of one in the folder above another's it is taken for granted."""
    if copy.root != other.root:
        return True
    mine, others = (each.rows["file"].combine_chunks() for each in (copy, other))
    return bool(pc.any(pc.is_in(mine, value_set=others)).as_py())


def _candidates(root: Path, inside: str, sources: Sequence[Source]) -> tuple[list[Copy], list[Refusal]]:
    """Return a copy of each source that has images in files whose paths begin with `inside`, and refusals."""
    copies, refusals = [], []
    with cached_listings(root):
        for source in sources:
            partitions = []
            for name in source.expected():
                try:
                    (partition,) = scan(source, root, [name])
                except AbsentPartitionError:
                    continue
                except BuildError as error:
                    if isinstance(error.__cause__, PermissionError):
                        raise  # what it is cannot be told, and nothing is wrong with the copy
                    refusals.append(Refusal(source, name, str(error)))
                    continue
                rows = partition.table
                if rows.num_rows and (not inside or pc.all(pc.starts_with(rows["file"], inside)).as_py()):
                    partitions.append(partition)
            if partitions:
                stacked = [partition.stacked() for partition in partitions]
                names = [name for name in stacked[0].column_names if all(name in t.column_names for t in stacked)]
                rows = pa.concat_tables([table.select(names) for table in stacked]).unify_dictionaries()
                copies.append(Copy(root, source, tuple(partitions), rows))
    return copies, refusals


def _likeliness(copy: Copy) -> tuple[int, float]:
    """Order copies by their images, and equal ones by how near they are to the owner's number."""
    assert copy.source is not None
    total = sum(copy.source.expected()[partition.name].total for partition in copy.partitions)
    return copy.rows.num_rows, min(1, copy.rows.num_rows / max(1, total))


def _any_images(place: Path) -> Copy:
    """Return all image files of a folder or archive as a copy of nothing known; ids are paths."""
    how: Container = "file"
    offsets = sizes = None
    if place.is_dir():
        root, names = place, sorted(name for name in files_below(place) if is_image(name))
        files = text_array(names)
    else:
        root = place.parent
        if place.suffix == ".zip":
            members, how = zips.members(place), "zip"
        elif place.suffix == ".tar" or tars.is_plain(place):
            members, how = tars.members(place), "span"
        elif place.name.endswith((".gz", ".tgz")):
            members, how = tars.compressed_members(place), "targz"
        else:
            raise BuildError(
                f"{place} is no archive of a dataset. Give a folder, a .tar, .tar.gz, .tgz or .zip, or a file of a "
                "source under its owner's name."
            )
        members = sorted((member for member in members if is_image(member.name)), key=lambda member: member.name)
        names = [member.name for member in members]
        files = pa.array([place.name] * len(names), pa.string())
        offsets = pa.array([member.start for member in members], pa.int64())
        sizes = pa.array([member.size for member in members], pa.int64())
    if not names:
        raise BuildError(f"{place} holds no images. Give the folder or archive of a dataset.")
    ids = text_array(names)
    folders = [name.rpartition("/")[0].rpartition("/")[2] for name in ids.to_pylist()]
    classes = sorted(set(folders))
    positions = {name: number for number, name in enumerate(classes)}
    table = partition_table(
        classes,
        np.array([positions[folder] for folder in folders], np.int32),
        ids,
        files,
        offsets,
        sizes,
    )
    partition = PartitionIndex(FOLDER, "image files", how, table)
    return Copy(root, None, (partition,), partition.stacked())


def _common_folder(partition: PartitionIndex) -> str:
    """Return the deepest folder that holds all files of a partition, with a slash at its end; empty for the root."""
    limits = pc.min_max(partition.table["file"]).as_py()
    folder = posixpath.commonpath([posixpath.dirname(limits["min"]), posixpath.dirname(limits["max"])])
    return f"{folder}/" if folder else ""


def is_image(name: str) -> bool:
    """Whether a file is an image by its name, and not hidden."""
    return name.lower().endswith(ENDINGS) and not name.rpartition("/")[2].startswith(".")


def _with_extra(copy: Copy, others: Sequence[Copy], inside: str) -> Copy:
    """Return a copy with the image files beside its own that no copy names."""
    named = [stray for partition in copy.partitions for stray in partition.strays]
    strays = {stray.path: stray for stray in named if is_image(stray.path)}
    if copy.source is not None and any(partition.how == "file" for partition in copy.partitions):
        files = [each.rows["file"] for each in (copy, *others) if each.root == copy.root]
        known = {name for column in files for name in pc.unique(column).to_pylist()}
        # Beside the partitions' folders owners have further images, such as Tiny ImageNet's test images.
        folders = tuple(_common_folder(partition) for partition in copy.partitions if partition.how == "file")
        for name in files_below(copy.root, skip_closed=True):
            if name not in known and name.startswith(folders) and is_image(name) and name.startswith(inside):
                strays.setdefault(escape_name(name), Stray(escape_name(name), "no image of the source"))
    return Copy(copy.root, copy.source, copy.partitions, copy.rows, tuple(strays[path] for path in sorted(strays)))
