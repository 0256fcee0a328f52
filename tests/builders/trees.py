"""Write small trees, and read sources back as a build would."""

import io
import os
import re
import shutil
import tarfile
from collections import defaultdict

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Features, Image

from builders.errors import BuildError
from builders.sources.base import IN_PLACE
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from builders.sources.unpack import UNPACKERS


def opened(key, root):
    """A source's index, all partitions."""
    return open_source(SOURCES[key], root, tuple(SOURCES[key].expected()))


def refusal(key, root, *partitions):
    """The sentence with which a source is refused."""
    with pytest.raises(BuildError) as caught:
        open_source(SOURCES[key], root, partitions or tuple(SOURCES[key].expected()))
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert str(root) in message
    return message


def contents(index):
    """What a build would have of every image, by (partition, class_id, source_id): bytes, or the pixels of arrays."""
    content = {}
    containers = defaultdict(list)
    for row in index.table.to_pylist():
        if row["how"] in IN_PLACE:
            content[key_of(row)] = content_of(index, row, read_in_place(index.root / row["file"], row))
        else:
            containers[row["how"], row["file"]].append(row)
    for (how, file), rows in containers.items():
        rows.sort(key=lambda row: row["offset"])
        offsets = np.array([row["offset"] for row in rows], dtype=np.int64)
        images = [bytes(image) for batch in UNPACKERS[how](index.root / file, offsets) for image in batch]
        content |= {key_of(row): content_of(index, row, data) for row, data in zip(rows, images, strict=True)}
    return content


def key_of(row):
    """What identifies a row in every layout."""
    return row["partition"], row["class_id"], row["source_id"]


def read_in_place(path, row):
    """The bytes of an image that is a file or a part of one."""
    with path.open("rb") as file:
        file.seek(row["offset"])
        return file.read() if row["how"] == "file" else file.read(row["size"])


def content_of(index, row, data):
    """The bytes themselves, or the pixels where these are what the source gives."""
    if not index.source.arrays:
        return data
    if row["form"] in ("rgb32", "grey28"):
        return data
    if row["form"] == "planar32":
        return np.frombuffer(data, np.uint8).reshape(3, 1024).T.tobytes()
    image = PIL.Image.open(io.BytesIO(data))
    return image.tobytes() if index.source.key == "mnist" else image.convert("RGB").tobytes()


def tree(root, files):
    """Write small files given as {path: bytes or text}."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def linked(source, target, *ignored):
    """Copy a folder by hard links, so that a file of the copy can be replaced, and never written into."""
    return shutil.copytree(source, target, copy_function=os.link, ignore=shutil.ignore_patterns(*ignored))


def replaced(path, change):
    """Put other bytes, made of its own, into a file that may be linked; returns the old ones."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(change(data))
    return data


def also(path, target):
    """Make a file also stand at another place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(path, target)


def link(target, place):
    """Make `place` the same folder as `target`."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target, target_is_directory=True)


def add(archive, name, content, **fields):
    """Add a file to an open tar."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    archive.addfile(info, io.BytesIO(content))


def write_tar(path, files):
    """Write an archive of files given as {path: bytes}, compressed where its name ends in .gz."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in files.items():
            add(archive, name, content)


def packed(folder, archive, mode, name=None):
    """The archive of a folder under its own or another name, in another order than that of a listing."""
    with tarfile.open(archive, mode) as file:
        for path in sorted(folder.rglob("*"), key=lambda path: path.name[::-1]):
            file.add(path, f"{name or folder.name}/{path.relative_to(folder).as_posix()}", recursive=False)


def archive_of(key, folder, file, mode, name=None):
    """How a demo's folder is packed as the archive that its owner offers."""

    def pack(demo, root):
        root.mkdir(exist_ok=True)
        packed(demo / folder, root / file, mode, name)
        return root

    pack.__name__ = f"{key}_archive"
    return pack


def changed(name, convert, *args, **options):
    """Another form of a layout, by other arguments of its function."""

    def convert_otherwise(demo, root):
        return convert(demo, root, *args, **options)

    convert_otherwise.__name__ = name
    return convert_otherwise


def moved(name, *moves, given=""):
    """How the files of a demo stand at other places: a move has a pattern over whole paths and the new path.

    `given` is the folder that is then named as the copy.
    """

    def move(demo, root):
        for path in sorted(path for path in demo.rglob("*") if path.is_file()):
            for pattern, place in moves:
                if match := re.fullmatch(pattern, path.relative_to(demo).as_posix()):
                    also(path, root / match.expand(place))
        return root / given

    move.__name__ = name
    return move


def inside_of(key, folder, place, given=""):
    """How a folder of a demo stands at another place, and this or a folder below it is given."""

    def name_inside(demo, root):
        link(demo / folder, root / place)
        return root / place / given

    name_inside.__name__ = f"{key}_inside"
    return name_inside


def write_table(path, features, columns, *, bare=False, row_group_size=100):
    """Write columns as `datasets` does; bare without its metadata, so that labels are numbers without names."""
    schema = Features(features).arrow_schema
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns, schema=schema.remove_metadata() if bare else schema)
    pq.write_table(table, path, row_group_size=row_group_size)


def write_parquet(path, rows, names):
    """Write (file name, label, bytes) rows as the Hub does; without names the labels are bare numbers."""
    columns = {
        "image": [{"bytes": content, "path": name} for name, _, content in rows],
        "label": [label for _, label, _ in rows],
    }
    write_table(path, {"image": Image(), "label": ClassLabel(names=list(names or ["-"]))}, columns, bare=not names)


def write_shards(folder, split, rows, names, count=2):
    """Write rows as several Parquet files, every second row of a class in another one."""
    for shard in range(count):
        write_parquet(folder / f"{split}-{shard:05d}-of-{count:05d}.parquet", rows[shard::count], names)
