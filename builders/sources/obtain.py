"""The types that say where a copy of a source comes from: the owner's files, and a mirror on the Hub.

Tested by `tests/builders/sources/test_obtain.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OwnerFile:
    """A file that the owner of a source offers.

    `name` is its path in the folder of the source, `size` in bytes (0 if no list has it, what a listing shows if
    `rounded`), `url` its plain address, empty where the owner asks for an account, an agreement or a click first.
    `md5` and `sha256` are the published ones in hexadecimal, empty if none is known. `unpacked` is the file or folder
    of this zip that readers need; archives without it are read as they are. `mirrors` are other addresses of the same
    file, for when the owner's gives nothing: a file with one has a digest. `partitions` are those that need the file;
    without any, all do.
    """

    name: str
    size: int
    url: str = ""
    md5: str = ""
    sha256: str = ""
    rounded: bool = False
    unpacked: str = ""
    mirrors: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    @property
    def exact_size(self) -> int:
        """The size in bytes; 0 if it is not known exactly."""
        return 0 if self.rounded else self.size

    @property
    def max_size(self) -> int:
        """The most bytes that the file may have: twice a rounded size (ours); 0 if the size is unknown."""
        return self.exact_size or 2 * self.size

    def serves(self, partitions: Sequence[str]) -> bool:
        """Whether any of some partitions needs the file."""
        return not self.partitions or not set(self.partitions).isdisjoint(partitions)

    @property
    def has_digest(self) -> bool:
        """Whether a digest is published by which a copy can be told from another file."""
        return bool(self.sha256 or self.md5)


@dataclass(frozen=True)
class Mirror:
    """Parquet files on the Hub that a source's reader takes.

    `at` is the mirror's place, such as `hf://datasets/ILSVRC/imagenet-1k`, empty if none is known to suffice. `splits`
    are the names that mirrors give each partition, in the order of trying; several splits that make up a partition are
    in one inner tuple. `gated` says that the Hub asks for an account that has accepted terms.
    """

    at: str
    splits: Mapping[str, tuple[tuple[str, ...], ...]] = field(hash=False)
    gated: bool = False


@dataclass(frozen=True)
class Obtain:
    """How to get a copy of a source.

    `page` is the owner's page and `steps` what to do there, as a clause without its end. `files` are the owner's that
    readers need, empty where the page has no such list, and `mirror` Parquet files on the Hub, None if no reader takes
    them alone. `terms` is what the page asks of who downloads files with a plain address, as a clause without its
    subject.
    """

    page: str
    steps: str
    files: tuple[OwnerFile, ...] = ()
    mirror: Mirror | None = None
    terms: str = ""

    @classmethod
    def packed(cls, page: str, *files: OwnerFile, mirror: Mirror | None = None) -> Obtain:
        """Return the instructions for a source whose archives are read without unpacking."""
        names = ", ".join(file.name for file in files)
        return cls(page, f"download {names}; {'they' if files[1:] else 'it'} can stay packed", files, mirror)

    def mirror_flag(self, key: str) -> str:
        """Return the flag that takes a source's mirror, and what the Hub requires first; empty if none suffices."""
        if self.mirror is None or not self.mirror.at:
            return ""
        gate = ", once your account has accepted its terms" if self.mirror.gated else ""
        return f"--{key} {self.mirror.at}{gate}"

    @property
    def is_plain(self) -> bool:
        """Whether all files have a plain address, so that they can be downloaded without an account."""
        return bool(self.files) and all(file.url for file in self.files)
