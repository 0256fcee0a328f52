"""Recognises errors by which any code says that this machine lacks memory, threads, disk space or a package.

Each becomes one sentence in place of a traceback. Any other error is a defect of ours.

Tested by `tests/unknown_detection/terminal/test_shortages.py`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from unknown_detection.starting import PACKAGES
from unknown_detection.words import printable

_LONGEST = 200
"""Characters of a library's message at most (ours)."""

_NO_MEMORY = (
    "failed to map segment",
    "cannot allocate memory",
    "unable to allocate",
    "error return without exception set",
    "returned null without setting an exception",
)
"""What the dynamic linker, the C library, NumPy and, of a library in C that could not be set up and does not say why
(as Pillow under 400 MiB), Python say, in lower case; Python itself has `MemoryError`."""

_NO_THREADS = ("can't start new thread", "failed to launch worker thread")
"""What Python and Arrow say, in lower case; a thread also fails for lack of memory for its stack."""

_AGAIN = "and run the same command again"


def shortage(error: BaseException) -> str:
    """Describe in a sentence what the machine lacks, judged by an uncaught error; empty for any other error."""
    for cause in _chain(error):
        text = str(cause)
        if any(words in text.lower() for words in _NO_THREADS):
            return (
                f"No further thread can be started ({_short(text)}). Allow more of them (ulimit -u) or more memory "
                f"(ulimit -v), {_AGAIN}, with fewer --workers if it has them."
            )
        if isinstance(cause, MemoryError) or any(words in text.lower() for words in _NO_MEMORY):
            detail = f" ({_short(text)})" if text else ""
            return (
                f"The memory does not suffice{detail}. Free some, or allow more (ulimit -v), {_AGAIN}, with fewer "
                "--workers if it has them."
            )
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            where = "" if cause.filename is None else f" ({_short(str(cause.filename))})"
            return f"No space is left where this command writes or prints{where}. Make room, {_AGAIN}."
    package = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if package and package not in PACKAGES and not str(error).startswith("cannot import name"):
        return f"A package that is needed does not load ({_short(str(error))}). Install it again, {_AGAIN}."
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that it was raised from."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__


def _short(text: str) -> str:
    line = printable(text.strip().partition("\n")[0])
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
