"""What an export keeps of itself, in `.export/`, so that it can go on: its settings, and which splits are done.

Tested by `tests/hf_scripts/test_export_runs.py`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from builders.errors import BuildError
from builders.storage.atomic import TEMPORARY, write_text

FOLDER = ".export"

_VERSION = 1

Settings = Mapping[str, str | int]
"""The choices that shape every file, by name."""


class ExportedSplit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A split of an export: the digest of its rows, and for a finished one what was written.

    `size` is in bytes; `kinds` are the extensions of its images; `listed` has the sizes of its lists or tars by path,
    and is None while the split is being written.
    """

    digest: str
    rows: int = 0
    files: int = 0
    size: int = msgspec.field(default=0, name="bytes")
    kinds: tuple[str, ...] = ()
    listed: dict[str, int] | None = None


class _Record(msgspec.Struct, frozen=True):
    version: int
    settings: dict[str, str | int]
    splits: dict[str, ExportedSplit]


class ExportState:
    """The record of an export's folder.

    `settings` are the choices that shape every file; `splits` goes by `config/split`.
    """

    def __init__(self, out: Path, settings: Settings) -> None:
        self.out = out
        self.settings = dict(settings)
        self.splits: dict[str, ExportedSplit] = {}
        self._load()

    def begin(self, key: str, digest: str) -> None:
        """Record that a split of these rows is being written."""
        self.splits[key] = ExportedSplit(digest=digest)
        self._save()

    def finish(self, key: str, written: ExportedSplit) -> None:
        """Record that a split is whole."""
        self.splits[key] = written
        self._save()

    def finished(self, key: str) -> bool:
        """Whether a split is whole: recorded, and its lists or tars are there in full length."""
        split = self.splits.get(key)
        if split is None or split.listed is None:
            return False
        paths = {self.out / path: size for path, size in split.listed.items()}
        return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())

    def check_release(self, root: Path, digests: Mapping[str, str]) -> None:
        """Refuse to mix rows of two releases.

        Args:
            root: the release, for the message.
            digests: of all its splits.

        Raises:
            BuildError: the folder has a split that the release does not have, or other rows of one.
        """
        for key, split in sorted(self.splits.items()):
            if digests.get(key) != split.digest:
                found = digests[key][:12] if key in digests else "none"
                raise BuildError(
                    f"expected {root} to have {key} with digest {split.digest[:12]}, as it was exported to "
                    f"{self.out}, found {found}; give another --out."
                )

    def _load(self) -> None:
        path = self._path
        if self.out.exists() and not self.out.is_dir():
            raise BuildError(f"expected a folder for the export, found a file at {self.out}; give another --out.")
        if not path.is_file():
            # A run that was stopped before it recorded anything left nothing but this folder.
            others = [child.name for child in self.out.iterdir()] if self.out.is_dir() else []
            if any(name != FOLDER for name in others):
                raise BuildError(
                    f"expected an empty folder or an export, found other files in {self.out}; give another --out."
                )
            return
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_Record)
        except msgspec.ValidationError as error:
            raise BuildError(f"{path} is no record of an export: {error}. Give another --out.") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BuildError(f"{path} is not valid JSON ({error}). Give another --out.") from error
        if found.version != _VERSION:
            raise BuildError(
                f"{path} is the record of an export of version {found.version}, not {_VERSION}. Give another --out."
            )
        for name, value in self.settings.items():
            if found.settings.get(name) != value:
                raise BuildError(
                    f"expected an export with {name} {value} in {self.out}, found one with "
                    f"{found.settings.get(name)}; give another --out, or the same choices as before."
                )
        self.splits = found.splits

    def _save(self) -> None:
        record = msgspec.to_builtins(_Record(_VERSION, self.settings, self.splits))
        write_text(self._path, json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n")

    @property
    def _path(self) -> Path:
        return self.out / FOLDER / "export.json"


@contextlib.contextmanager
def export_lock(out: Path) -> Iterator[None]:
    """Hold the folder for this run.

    Raises:
        BuildError: another run holds it.
    """
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    # The operating system drops the lock with the process, also on SIGKILL.
    lock = FileLock(out / FOLDER / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise BuildError(
            f"expected to be the only export to {out}, found another one at work there; wait for it or give another "
            "--out."
        ) from error
    try:
        yield
    finally:
        lock.release()


def remove_leftovers(out: Path) -> None:
    """Remove what a killed run left half-written."""
    for leftover in sorted(out.rglob(f".*{TEMPORARY}")):
        leftover.unlink()
