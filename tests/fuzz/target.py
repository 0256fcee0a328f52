"""What a reader under test is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


def unchanged(data: bytes) -> bytes:
    """Return the bytes."""
    return data


def no_files() -> Mapping[str, bytes]:
    """Return none."""
    return {}


@dataclass(frozen=True)
class Target:
    """A reader, with good inputs for it that are then damaged.

    An input is the bytes of one file. It is written to `file` in an empty folder, and `read` is called with that
    folder; a value or a `BuildError` is right, anything else is a fault. `others` are the folder's other files. Where
    an input is more than a file, `place` makes of its bytes what the folder holds.

    `read` must read all that the reader gives: a generator that nobody empties finds nothing. `good` gives inputs that
    must be read without an error; small ones, so that damage hits fields. `cases` are further inputs by name, such as
    those that were faults once. `repair` is applied to every second damaged input, for formats where a check sum would
    hide the rest from the damage. `refuses` is False for a function that has an answer to everything; of all others,
    some damaged inputs must be refused.
    """

    name: str
    file: str
    good: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    cases: Callable[[], Mapping[str, bytes]] = no_files
    repair: Callable[[bytes], bytes] = unchanged
    others: Callable[[], Mapping[str, bytes]] = no_files
    place: Callable[[Path, bytes], object] | None = None
    refuses: bool = True

    def write(self, folder: Path, data: bytes) -> None:
        """Write an input into an empty folder."""
        if self.place is not None:
            self.place(folder, data)
            return
        for name, content in {**self.others(), self.file: data}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
