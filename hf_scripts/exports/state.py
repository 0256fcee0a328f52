"""The record of an export in `.export/`, from which it resumes: its settings and the finished splits.

Tested by `tests/hf_scripts/test_export_runs.py`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from builders.errors import BuildError
from builders.storage.files import write_text
from builders.storage.locks import file_lock
from builders.storage.paths import inside

FOLDER = ".export"


class ExportedSplit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of an exported split: the digest of its rows, and its counts once it is finished.

    `size` is in bytes, `kinds` are the extensions of its images, and `listed` has the sizes of its lists or tars by
    path; it is None while the split is being written.
    """

    digest: str
    rows: int = 0
    files: int = 0
    size: int = msgspec.field(default=0, name="bytes")
    kinds: tuple[str, ...] = ()
    listed: dict[str, int] | None = None


class _Record(msgspec.Struct, frozen=True):
    settings: dict[str, str | int]
    splits: dict[str, ExportedSplit]


class ExportState:
    """The record of the export in `out`: the settings that all files depend on, and `splits` by `config/split`."""

    def __init__(self, out: Path, settings: Mapping[str, str | int]) -> None:
        self.out, self._settings = out, dict(settings)
        self.splits: dict[str, ExportedSplit] = {}
        self._path = inside(out, f"{FOLDER}/export.json")
        if out.exists() and not out.is_dir():
            raise BuildError(f"{out} is a file, not a folder. Give another --out.")
        if not self._path.is_file():
            # A run that was stopped before it recorded anything left only its folder.
            if out.is_dir() and any(child.name != FOLDER for child in out.iterdir()):
                raise BuildError(
                    f"{out} has other files, and is not an export. Give an empty or new folder with --out."
                )
            return
        try:
            record = msgspec.json.decode(self._path.read_bytes(), type=_Record)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BuildError(f"{self._path} is not the record of an export: {error}. Give another --out.") from error
        for name, value in self._settings.items():
            if (recorded := record.settings.get(name)) != value:
                raise BuildError(
                    f"{out} has an export with {name} {recorded}, not {value}. Give another --out, or the same "
                    "settings as before."
                )
        self.splits = record.splits

    def record(self, key: str, split: ExportedSplit) -> None:
        """Record a split: a finished one with its counts, or one that is being written with its digest alone."""
        self.splits[key] = split
        record = msgspec.to_builtins(_Record(self._settings, self.splits))
        write_text(self._path, json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n")

    def finished(self, key: str) -> bool:
        """Whether a split is recorded as finished, and its lists or tars have their recorded sizes."""
        split = self.splits.get(key)
        if split is None or split.listed is None:
            return False
        paths = {self.out / path: size for path, size in split.listed.items()}
        return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())

    def check_release(self, root: Path, digests: Mapping[str, str]) -> None:
        """Check that the release in `root` has all splits of the folder, with the same digests."""
        for key, split in sorted(self.splits.items()):
            if digests.get(key) != split.digest:
                actual = f"digest {digests[key][:12]}" if key in digests else "no such split"
                raise BuildError(
                    f"{self.out} has {key} of another release, with digest {split.digest[:12]}; {root} has {actual}. "
                    "Give another --out."
                )


@contextlib.contextmanager
def export_lock(out: Path) -> Iterator[None]:
    """Lock an export's folder, or raise `BuildError` if another run has locked it."""
    path = inside(out, f"{FOLDER}/lock")
    with file_lock(path, f"Another export is writing to {out}. Wait for it, or give another --out."):
        yield
