"""Writers of other tools' formats: OpenOOD image lists, image folders, WebDataset shards.

A writer writes the rows of one split. The bytes of images are not changed. Lists are written after the files that they
list, and a tar gets its name when it is complete.

Tested by `tests/hf_scripts/test_export.py`.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.release.openood_tree import LISTS, list_text, openood_path
from builders.release.schema import ROLES
from hf_scripts.exports.names import file_stem
from hf_scripts.exports.rows import ImageRow
from hf_scripts.exports.targets import Bytes, Target

SHARD_BYTES = 512_000_000
"""Default maximum bytes of a tar, about the size of a shard of a release."""

MIN_SHARD_BYTES = tarfile.RECORDSIZE
"""Bytes of an empty tar."""


def write_openood(target: Target, key: str, roles: Sequence[str], rows: Iterable[ImageRow]) -> None:
    """Write images, an OpenOOD image list, and a JSON Lines file with all columns.

    Images are `images/<config>/<split>/<class>/<file>`. The list `imglists/<config>/<split>.txt` has one line per row:
    the path below `images/`, a space, the label (-1 for none). OpenOOD (v1.5, `openood/datasets/imglist_dataset.py`)
    joins the path to a `data_dir`, splits the line at its first space, and uses the rest as the label if it is a
    number; for a dictionary it sets the label to 0, so the other columns are in `imglists/<config>/<split>.jsonl`.

    OpenOOD evaluates lists of known and of unknown images, so a split with several roles also has a list per role,
    `imglists/<config>/<split>-<role>.txt`.
    """
    images, lists = target.out / "images", target.out / "imglists"
    # Files are closed, and so get their names, in reverse order of opening.
    with contextlib.ExitStack() as opened:
        lines, table = (opened.enter_context(target.stream(lists / f"{key}.{end}")) for end in ("txt", "jsonl"))
        of_role = {
            ROLES.index(role): opened.enter_context(target.stream(lists / f"{key}-{role}.txt"))
            for role in (roles if len(roles) > 1 else ())
        }
        for row, name in _write_images(target, images / key, images, rows):
            table.write(_json_line({"file_name": name, **row.columns}))
            line = f"{name} {row.columns['label']}\n".encode()
            lines.write(line)
            if of_role:
                of_role[row.columns["role"]].write(line)


def write_openood_tree(target: Target, key: str, _: Sequence[str], rows: Iterable[ImageRow]) -> None:
    """Write images where OpenOOD v1.5 keeps them, and OpenOOD's sorted list of the split (`openood_tree`).

    The folder of the export can stand in for the one that OpenOOD's downloads fill. Images that several configs share
    are there once.
    """
    listed = []
    for row in rows:
        source, source_id, class_id = (row.columns[name] for name in ("source", "source_id", "class_id"))
        target.put(target.out.joinpath(*openood_path(source, source_id, class_id)), row.image)
        listed.append((source, source_id, class_id, row.columns["label"]))
    with target.stream(target.out / LISTS[key]) as list_file:
        list_file.write(list_text(listed).encode())


def write_imagefolder(target: Target, key: str, _: Sequence[str], rows: Iterable[ImageRow]) -> None:
    """Write images as `<config>/<split>/<class>/<file>`, and a `metadata.jsonl` with all columns.

    JSON Lines keep empty strings, which `datasets` would read from CSV as missing values (it uses pandas).
    """
    folder = target.out / key
    with target.stream(folder / "metadata.jsonl") as table:
        for row, name in _write_images(target, folder, folder, rows):
            table.write(_json_line({"file_name": name, **row.columns}))


def write_webdataset(target: Target, key: str, _: Sequence[str], rows: Iterable[ImageRow]) -> None:
    """Write shards `<config>/<split>-00000.tar`, ..., with samples `<key>.<format>`, `<key>.json` and `<key>.cls`.

    The key is the row number in the split, with eight digits; the JSON has all columns but the image, and `cls` is the
    label. Equal rows give equal bytes: headers (POSIX ustar) have only names and sizes. A sample larger than a shard
    gets a shard of its own.
    """
    numbers = itertools.count()
    archive: tarfile.TarFile | None = None
    with contextlib.ExitStack() as opened:
        for number, row in enumerate(rows):
            columns, label = json.dumps(row.columns).encode(), str(row.columns["label"]).encode()
            members: list[tuple[str, Bytes]] = [(row.kind, row.image), ("json", columns), ("cls", label)]
            if archive is None or _size_with(archive, members) > target.shard_bytes:
                opened.close()
                sink = opened.enter_context(target.stream(target.out / f"{key}-{next(numbers):05d}.tar"))
                form = tarfile.USTAR_FORMAT
                archive = opened.enter_context(tarfile.open(fileobj=sink, mode="w", format=form))  # type: ignore[call-overload]
            for kind, data in members:
                info = tarfile.TarInfo(f"{number:08d}.{kind}")  # owner 0, group 0, time 0, no names, mode 644
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def _size_with(archive: tarfile.TarFile, members: Iterable[tuple[str, Bytes]]) -> int:
    """Return the bytes of the complete tar if it ended after these members."""
    block = tarfile.BLOCKSIZE
    filled = archive.offset + sum(block + -(-len(data) // block) * block for _, data in members) + 2 * block
    return -(-filled // tarfile.RECORDSIZE) * tarfile.RECORDSIZE


WRITERS: Mapping[str, Callable[[Target, str, Sequence[str], Iterable[ImageRow]], None]] = {
    "openood": write_openood,
    "openood-tree": write_openood_tree,
    "imagefolder": write_imagefolder,
    "webdataset": write_webdataset,
}
"""By the name of its format, what writes the rows of a split (`config/split`) that have some roles."""


def _write_images(
    target: Target, folder: Path, base: Path, rows: Iterable[ImageRow]
) -> Iterator[tuple[ImageRow, str]]:
    """Write each image into the folder of its class; yields rows with POSIX paths below `base`."""
    for row in rows:
        name = f"{file_stem(row.name, row.columns['id'])}.{row.kind}"
        path = folder / target.folder(row.columns["class_id"]) / name
        target.put(path, row.image)
        yield row, path.relative_to(base).as_posix()


def _json_line(columns: Mapping[str, Any]) -> bytes:
    return json.dumps(columns).encode() + b"\n"
