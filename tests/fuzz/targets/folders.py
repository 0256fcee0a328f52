"""Folders of image files: whatever is in them, by whatever name."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import PIL.Image

from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from builders.sources.sizes import estimated_bytes, file_sizes, refuse_resized
from tests.fuzz.target import Target

_WNIDS = ("n01440764", "n01443537")


def entry(path: str, kind: str = "f") -> bytes:
    """A line that stands for an entry of a folder."""
    return f"{kind}{path}".encode()


def trees() -> list[bytes]:
    """ImageNet's class folders, each as lines of entries."""
    names = [f"train/{wnid}/{wnid}_{number}.JPEG" for wnid in _WNIDS for number in range(4)]
    return [b"\n".join(map(entry, names)), b"\n".join(map(entry, [*names, "train/readme.txt"]))]


def cases() -> dict[str, bytes]:
    """Entries that are no image files."""
    name = f"train/{_WNIDS[0]}/{_WNIDS[0]}_9.JPEG"
    good = trees()[0] + b"\n"
    kinds = {
        "named pipe": "p",
        "folder": "d",
        "device": "z",
        "link to itself": "l",
        "link to nothing": "n",
        "large": "s",
    }
    entries = {kind: good + entry(name, letter) for kind, letter in (kinds | {"large": "s"}).items()}
    unprintable = entry(f"train/{_WNIDS[0]}/\x1b[2J.JPEG")
    entries |= {"file as class folder": trees()[0].splitlines()[0] + b"\n" + entry(f"train/{_WNIDS[1]}")}
    unprintable_folder = entry("train?\x1b[2J/a.JPEG").replace(b"?", b"\xff")
    return entries | {
        "control characters": good + unprintable,
        "no UTF-8": good + unprintable.replace(b"\x1b", b"\xff"),
        "folder of both": unprintable_folder,
    }


def place(folder: Path, data: bytes) -> None:
    """Make the entries of the lines; what the system refuses is left out."""
    for line in data.split(b"\n"):
        parts = [part for part in line[1:].replace(b"\0", b"").split(b"/")[:6] if part not in (b"", b".", b"..")]
        if not parts:
            continue
        path = folder / os.fsdecode(b"/".join(parts))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _MAKE.get(line[:1], _file)(path)
        except OSError:
            continue


def _file(path: Path) -> None:
    path.write_bytes(b"\xff\xd8\xff")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


_MAKE = {
    b"p": os.mkfifo,
    b"d": Path.mkdir,
    b"z": lambda path: path.symlink_to("/dev/zero"),
    b"l": lambda path: path.symlink_to(path.name),
    b"n": lambda path: path.symlink_to("nothing"),
    b"s": _sparse,
}


def imagenet(folder: Path) -> object:
    """ImageNet's training images, their sizes, and a look at some of them."""
    index = open_source(SOURCES["imagenet"], folder, ("train",))
    rows = np.arange(index.table.num_rows)
    file_sizes(index, index.table["file"].combine_chunks())
    refuse_resized(index)
    return estimated_bytes(index, rows)


def small_png(side: int = 32) -> bytes:
    """An image of LSUN-FIX, or one of another size."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(np.resize(np.arange(256, dtype=np.uint8), (side, side, 3))).save(buffer, "PNG")
    return buffer.getvalue()


TARGETS = (
    Target("folder", "", trees, imagenet, cases=cases, place=place),
    Target(
        "lsun-fix",
        "LSUN_fix/correct_resize_1007.png",
        lambda: [small_png()],
        lambda folder: open_source(SOURCES["lsun_fix"], folder, ("images",)),
        cases=lambda: {"another size": small_png(36)},
    ),
)
