"""Unpacks the part of a zip that readers need, trusting nothing that the zip says of itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

from builders.errors import BuildError
from builders.sources.readers.zips import open_zip, refuse_unsafe
from builders.storage.paths import inside
from unknown_detection.durable import TEMPORARY, finish


def unzip(archive: Path, selected: str, into: Path) -> int:
    """Unpack a file or folder of a zip to the same path below `into`, entirely or not; returns the number of files."""
    target = inside(into, selected)
    temporary = target.with_name(f".{target.name}{TEMPORARY}")
    shutil.rmtree(temporary, ignore_errors=True)  # of a killed run

    def create(name: str) -> IO[bytes]:
        place = inside(temporary, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place.open("xb")

    try:
        count = copy_members(archive, selected, create)
        finish(temporary / selected, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count


def copy_members(archive: Path, selected: str, create: Callable[[str], IO[bytes]]) -> int:
    """Copy a file or a folder's files from a zip into files that `create` opens by path; returns their number.

    What is no whole zip, does not hold `selected`, or holds what cannot be unpacked safely is a `BuildError`.
    """
    with open_zip(archive) as opened:
        members = [
            member
            for member in opened.infolist()
            if member.filename == selected or (member.filename.startswith(f"{selected}/") and not member.is_dir())
        ]
        if not members:
            raise BuildError(f"{archive} does not hold {selected}. Remove it and download it again.")
        refuse_unsafe(archive, members)
        for member in members:
            with opened.open(member) as source, create(member.filename) as copy:
                shutil.copyfileobj(source, copy, 1 << 20)  # which ends with an error where the CRC-32 differs
    return len(members)
