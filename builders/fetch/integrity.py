"""Compares a file with the size and the digest that are published of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from builders.errors import BuildError
from builders.sources.obtain import OwnerFile
from builders.storage.files import open_regular

_BLOCK = 1 << 22


def file_problem(file: OwnerFile, path: Path, advance: Callable[[int], object]) -> str:
    """Describe how a file differs from the published one; empty if it does not, or if nothing is published of it.

    Args:
        file: what is published. Its SHA-256 is compared if there is one, otherwise its MD5.
        path: the file.
        advance: gets the number of bytes that were read.

    Raises:
        BuildError: there is no regular file.
    """
    size = path.stat().st_size
    if file.exact_size and size != file.exact_size:
        return f"it has {size:,} bytes, and the published file {file.exact_size:,}"
    name, published = ("SHA-256", file.sha256) if file.sha256 else ("MD5", file.md5)
    if not published:
        return ""
    digest = hashlib.sha256() if file.sha256 else hashlib.md5(usedforsecurity=False)
    with open_regular(path) as opened:
        while block := opened.read(_BLOCK):
            digest.update(block)
            advance(len(block))
    actual = digest.hexdigest()
    return "" if actual == published else f"its {name} is {actual}, and the published one {published}"


def refuse_other(file: OwnerFile, path: Path, advance: Callable[[int], object]) -> None:
    """Check that a file is the published one.

    Raises:
        BuildError: it is not.
    """
    if problem := file_problem(file, path, advance):
        raise BuildError(f"{path} is not the owner's file: {problem}. Remove it and get it again.")
