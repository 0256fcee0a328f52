"""Indexes images that are identified by their names alone, in folders, tars and Parquet files.

The sources that need it have no class folders: a name says which image it is, and a table or the name itself says of
which class.

Tested by `tests/builders/sources/test_imagenet_o.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import Container, OtherDataError, PartitionIndex, Stray, partition_table
from builders.sources.readers import parquet, tars
from builders.sources.readers.folders import child_names, joined, match_names, plain_reason, printable, relative


@dataclass(frozen=True)
class NamedImages:
    """Images as found, sorted by id; `folder` holds them or their container, `strays` are the other files beside them.

    `offsets` and `sizes` are None where each image is a file.
    """

    folder: Path
    layout: str
    how: Container
    ids: pa.Array
    files: pa.Array
    offsets: pa.Array | None
    sizes: pa.Array | None
    strays: tuple[Stray, ...]

    def filter(self, mask: pa.Array) -> NamedImages:
        """Some of the images, with all strays."""
        offsets, sizes = (None if values is None else values.filter(mask) for values in (self.offsets, self.sizes))
        ids, files = self.ids.filter(mask), self.files.filter(mask)
        return dataclasses.replace(self, ids=ids, files=files, offsets=offsets, sizes=sizes)

    def partition(
        self, name: str, class_ids: pa.DictionaryArray, own: Mapping[str, pa.Array] | None = None, **fields: pa.Array
    ) -> PartitionIndex:
        """The images as a partition, given their `class_id` column, the source's own columns and further fields."""
        table = partition_table(class_ids, self.ids, self.files, self.offsets, self.sizes, own)
        return PartitionIndex(name, self.layout, self.how, table, self.strays, **fields)


@dataclass(frozen=True)
class NamedReader:
    """The reader of such images, with what differs between sources.

    `pattern` is the regular expression (ASCII) of an id, `wanted` the same for messages. An id is a file's name, or,
    where `folder` is the regular expression of folders, its folder's name and its own with a slash between.
    `from_parquet` gives the ids of a Parquet file's rows, null where a row has none, and `advice` is the next step for
    a mirror without names. `places` are folders below the one that is searched, in the order in which images are
    looked for: so the unpacked images beside an archive go before it.
    """

    key: str
    title: str
    pattern: str
    wanted: str
    from_parquet: Callable[[parquet.Shard], pa.Array]
    advice: str
    folder: str = ""
    places: tuple[str, ...] = ()

    def in_files(self, root: Path, home: Path) -> NamedImages | None:
        """Images in one of the places or in the folder itself; None if there are none."""
        folders = (*(home / place for place in self.places), home)
        found = (self._in_folder(root, folder) for folder in folders if folder.is_dir())
        return next((images for images in found if images is not None), None)

    def _in_folder(self, root: Path, folder: Path) -> NamedImages | None:
        ids: list[pa.Array] = []
        strays: list[Stray] = []
        for place, prefix, names in self._listings(folder):
            found = match_names([prefix + name for name in names], self.pattern)
            if len(found.images):
                ids.append(found.images)
            for other in found.others:
                name = other.removeprefix(prefix)
                path = relative(place / printable(name), root)
                strays.append(Stray(path, plain_reason(place, name, self.wanted)))
        if not ids:
            return None
        every = pa.concat_arrays(ids)
        where = relative(folder, root)
        files = every if where == "." else joined(f"{where}/", every)
        return NamedImages(folder, f"image files in {where}", "file", every, files, None, None, tuple(strays))

    def _listings(self, folder: Path) -> list[tuple[Path, str, Sequence[str]]]:
        """The folders to look in: each with what its names have before them in ids, and its names."""
        names = child_names(folder)
        if not self.folder:
            return [(folder, "", names)]
        # Only folders that an id can begin with are listed: the user's folder may be anything.
        fits = re.compile(self.folder, re.ASCII).fullmatch
        inner = [name for name in names if fits(name) and (folder / name).is_dir()]
        if not inner:
            return []
        beside = sorted(set(names).difference(inner))
        return [(folder, "", beside), *((folder / name, f"{name}/", child_names(folder / name)) for name in inner)]

    def in_archive(self, root: Path, home: Path, stem: str) -> NamedImages | None:
        """Images in `<stem>.tar`, read in place, or `<stem>.tar.gz`; None if there is no such archive.

        Raises:
            BuildError: the archive cannot be read or holds no such image.
        """
        archive = tars.find_archive(self.title, home, stem)
        if archive is None:
            return None
        ids = [self._id_in_archive(member) for member in archive.members]
        wanted = set(match_names(sorted(set(ids)), self.pattern).images.to_pylist())
        place = relative(archive.path, root)
        images = sorted(
            ((name, member) for name, member in zip(ids, archive.members, strict=True) if name in wanted),
            key=lambda image: image[0],
        )
        if not images:
            raise BuildError(
                f"{self.title}: {archive.path} has no images named {self.wanted}. Give a copy of {self.title} with "
                f"--{self.key}."
            )
        strays = tuple(
            Stray(f"{place}:{printable(f'{member.folder}/{member.name}'.lstrip('/'))}", f"not named {self.wanted}")
            for name, member in zip(ids, archive.members, strict=True)
            if name not in wanted
        )
        return NamedImages(
            home,
            f"archive {place}",
            archive.how,
            pa.array([name for name, _ in images], pa.string()),
            pa.repeat(pa.scalar(place, pa.string()), len(images)),
            pa.array([member.offset for _, member in images], pa.int64()),
            pa.array([member.size for _, member in images], pa.int64()),
            strays,
        )

    def _id_in_archive(self, member: tars.Member) -> str:
        if not self.folder:
            return member.name
        return f"{member.folder.rpartition('/')[2]}/{member.name}"

    def in_parquet(self, root: Path, files: Sequence[Path]) -> NamedImages | None:
        """Images in a mirror's Parquet files; None if there are no files.

        Raises:
            OtherDataError: a row has no name, or that of another dataset.
            BuildError: a file is not Parquet.
        """
        if not files:
            return None
        tables = [self._shard(root, path) for path in files]
        table = pa.concat_tables(tables).sort_by("id").combine_chunks()
        ids, places, rows = (table[name].combine_chunks() for name in ("id", "file", "row"))
        where = relative(files[0].parent, root)
        unknown = pa.repeat(pa.scalar(-1, pa.int64()), len(ids))
        return NamedImages(files[0].parent, f"Parquet files in {where}", "parquet", ids, places, rows, unknown, ())

    def only(self, known: pa.Array, root: Path, found: NamedImages, reason: str) -> NamedImages:
        """Keep the images whose ids are known; the others become strays for the given reason.

        Raises:
            OtherDataError: none is known.
        """
        mask = pc.is_in(found.ids, value_set=known)
        if not pc.any(mask).as_py():
            raise OtherDataError(
                f"{self.title}: none of the {len(found.ids):,} images in {root} ({found.layout}) is one of its "
                f"{len(known):,}, for instance {found.ids[0]}. Give a copy of {self.title} with --{self.key}."
            )
        others = found.filter(pc.invert(mask))
        strays = tuple(Stray(_place(others, row), reason) for row in range(len(others.ids)))
        return dataclasses.replace(found.filter(mask), strays=(*found.strays, *strays))

    def _shard(self, root: Path, path: Path) -> pa.Table:
        shard = parquet.read_shard(self.title, path, labelled=False, advice=self.advice)
        ids = self.from_parquet(shard)
        fits = pc.match_substring_regex(ids, self.pattern)
        wrong = pc.fill_null(pc.invert(fits), True)
        parquet.refuse_rows(
            self.title, path, wrong, f"the file name {{name}} is not like {self.wanted}", shard, self.advice
        )
        count = len(ids)
        return pa.table(
            {
                "id": ids,
                "file": pa.repeat(pa.scalar(relative(path, root), pa.string()), count),
                "row": pa.array(np.arange(count, dtype=np.int64)),
            }
        )


def file_names(shard: parquet.Shard) -> pa.Array:
    """The file names of a Parquet file's rows without folders."""
    return pc.replace_substring_regex(shard.names, pattern="^.*/", replacement="")


def _place(images: NamedImages, row: int) -> str:
    file, name = images.files[row].as_py(), images.ids[row].as_py()
    return str(file) if images.how == "file" else f"{file}:{name}"
