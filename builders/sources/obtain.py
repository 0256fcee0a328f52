"""The types that say where a copy of a source comes from: the owner's files, and a mirror on the Hub.

Tested by `tests/builders/sources/test_obtain.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OwnerFile:
    """A file that the owner of a source offers.

    Args:
        name: its path in the folder of the source, with forward slashes.
        size: in bytes, exact unless `rounded`; 0 if no list has it.
        url: its plain address; empty where the owner asks for an account, an agreement or a click first.
        md5: its published MD5 in hexadecimal; empty if none is known.
        sha256: its published SHA-256, likewise.
        rounded: `size` is what a listing shows, good for planning only.
        unpacked: the file or folder of this zip that readers need. Archives without it are read as they are.
    """

    name: str
    size: int
    url: str = ""
    md5: str = ""
    sha256: str = ""
    rounded: bool = False
    unpacked: str = ""

    @property
    def exact_size(self) -> int:
        """The size in bytes; 0 if it is not known exactly."""
        return 0 if self.rounded else self.size

    @property
    def max_size(self) -> int:
        """The most bytes that it may have: for a rounded size twice that (ours); 0 if not known."""
        return self.exact_size or 2 * self.size

    @property
    def has_digest(self) -> bool:
        """Whether a digest is published, so that a copy can be told from another file."""
        return bool(self.sha256 or self.md5)


@dataclass(frozen=True)
class Mirror:
    """Parquet files on the Hub that a source's reader takes.

    Args:
        at: the mirror's place, such as `hf://datasets/ILSVRC/imagenet-1k`; empty if none is known to suffice.
        splits: the names that mirrors give each partition, in the order in which they are tried. A partition may be
            divided into several splits, which are then in one inner tuple.
        gated: whether the Hub asks for an account that has accepted terms.
    """

    at: str
    splits: Mapping[str, tuple[tuple[str, ...], ...]] = field(hash=False)
    gated: bool = False


@dataclass(frozen=True)
class Obtain:
    """Instructions for getting a copy of a source.

    Args:
        page: the owner's page.
        steps: what to do there, as a clause without its end.
        files: the owner's files that readers need; empty where the owner's page has no such list.
        mirror: Parquet files on the Hub; None if no reader takes them alone.
    """

    page: str
    steps: str
    files: tuple[OwnerFile, ...] = ()
    mirror: Mirror | None = None

    @classmethod
    def packed(cls, page: str, *files: OwnerFile, mirror: Mirror | None = None) -> Obtain:
        """Return the instructions for a source whose archives are read without unpacking."""
        names = ", ".join(file.name for file in files)
        return cls(page, f"download {names}; {'they' if files[1:] else 'it'} can stay packed", files, mirror)

    @property
    def is_plain(self) -> bool:
        """Whether all files have a plain address, so that they can be downloaded without an account."""
        return bool(self.files) and all(file.url for file in self.files)
