"""Named moments of a command: its calls that open, rename or remove files, by Python's audit events.

A file that pyarrow opens itself causes no event; the rename that follows does.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate")
"""Audit events of the standard library that change a folder's entries, and flushes, which open their file."""

TAKING = ("open", "os.rename", "os.mkdir", "os.link", "os.symlink")
"""The events that a full or failing disk refuses."""


@dataclass(frozen=True)
class Strike:
    """A fault at a moment: a signal to the process itself, or an error of the disk from then on.

    Attributes:
        number: the number of the moment, from 1.
        signal: the signal; 0 for none.
        error: the `errno` that this and every later operation of `TAKING` gets; 0 for none.
    """

    number: int
    signal: int = 0
    error: int = 0


def watch(folder: str, trace: str, strike: Strike | None) -> None:
    """Count this process's moments in a folder from now on.

    Args:
        folder: the folder, as an absolute path.
        trace: file to which each moment is written as a line; empty for none.
        strike: the fault at one of them; None for none.
    """
    opened = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if trace else -1
    count, removed = 0, ""

    def heard(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count, removed
        if name == "shutil.rmtree":
            removed = os.fsdecode(arguments[0])
        if name not in NAMES or not _is_change(name, arguments):
            return
        if name == "open" and arguments[1] is None and os.fsdecode(arguments[0]) == removed:
            return  # opened to remove its files, which no full disk refuses
        path = os.fspath(arguments[1] if name == "os.rename" else arguments[0])
        path = path.decode() if isinstance(path, bytes) else path
        if not os.path.abspath(path).startswith(folder):  # noqa: PTH100  # pathlib is too slow in here
            return
        count += 1
        if opened >= 0:
            os.write(opened, f"{name} {os.path.relpath(path, folder)}\n".encode())
        if strike is None or count < strike.number:
            return
        if strike.error and name in TAKING:
            raise OSError(strike.error, os.strerror(strike.error), path)
        if strike.signal and count == strike.number:
            os.kill(os.getpid(), strike.signal)

    sys.addaudithook(heard)


def _is_change(name: str, arguments: tuple[Any, ...]) -> bool:
    if isinstance(arguments[0], int):
        return False
    if name != "open":
        return True
    path, mode, flags = arguments
    if flags & (os.O_WRONLY | os.O_RDWR):
        return True
    # A flush opens a path. What removes a tree opens the folders below by their names alone.
    return mode is None and os.sep in os.fsdecode(path)


def traced(trace: Path) -> tuple[str, ...]:
    """Return the moments of a run that wrote a trace."""
    return tuple(trace.read_text(encoding="utf-8").splitlines()) if trace.exists() else ()


def in_words(strike: Strike, moment: str) -> str:
    """Describe a strike at one of the moments of an undisturbed run."""
    event = signal.Signals(strike.signal).name if strike.signal else os.strerror(strike.error)
    return f"{event} at file operation {strike.number} ({moment})"
