"""Progress bars and log lines on stderr: labelled bars that fill up, and lines that never share one with a bar.

Tested by `tests/unknown_detection/terminal/test_screen.py`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from tqdm import tqdm

Log = Callable[[str], object]
"""Prints one progress line."""

Progress = Callable[[int], object]
"""Called with the number of items done since the last call."""


@contextlib.contextmanager
def bar(total: int, title: str, *, quiet: bool = False, unit: str = " images", done: int = 0) -> Iterator[Any]:
    """Draw a bar with count, rate and remaining time on a terminal until the block ends; nothing elsewhere.

    At the end of the block the bar is full, since items of an earlier run may not have been counted. After an
    exception it stays where it is. Without items there is no bar; the `done` ones of an earlier run do not count for
    the rate; `unit` is what follows a number, such as " images" or "B".
    """
    shown = open_bar(total, title, quiet=quiet, unit=unit, done=done)
    try:
        yield shown
        fill(shown)
    finally:
        shown.close()


def open_bar(total: int, title: str, *, quiet: bool = False, unit: str = " images", done: int = 0) -> Any:
    """Return a bar, for steps that are no `with` block; `fill` and `close` end it."""
    hidden = True if quiet or not total else None  # None: hidden where stderr is no terminal
    how: dict[str, Any] = {"unit_scale": True, "dynamic_ncols": True, "file": sys.stderr, "disable": hidden}
    return tqdm(total=total, desc=title, unit=unit, initial=done, **how)


def fill(shown: Any) -> None:
    """Move a bar to its end."""
    shown.update(shown.total - shown.n)


def log(text: str) -> None:
    """Print one line to stderr, above any bar."""
    tqdm.write(text, file=sys.stderr)


def result(text: str) -> None:
    """Print one line to stdout, above any bar."""
    tqdm.write(text, file=sys.stdout)


class TerminalMeter:
    """A `builders.executors.base.Meter` that draws a bar on a terminal, and prints only notes elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.bar: Any = None
        self.bytes = 0
        self.started = 0.0

    def __enter__(self) -> TerminalMeter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done(whole=kind is None)

    def step(self, title: str, images: int) -> None:
        """Begin a step over a number of images, which ends the one before."""
        self.done()
        self.bytes = 0
        self.started = time.monotonic()
        self.bar = open_bar(images, title, quiet=self.quiet)

    def advance(self, images: int, size: int = 0) -> None:
        """Count images, and bytes if known, as done."""
        if self.bar is None:
            return
        self.bytes += size
        if self.bytes:
            rate = self.bytes / max(time.monotonic() - self.started, 1e-9) / 1e6
            self.bar.set_postfix_str(f"{rate:,.0f} MB/s", refresh=False)
        self.bar.update(images)

    def note(self, text: str) -> None:
        """Print a line that stays above the bar."""
        if not self.quiet:
            log(text)

    def done(self, *, whole: bool = True) -> None:
        """End the step, if one is open; its bar is full, if the step is `whole`. Results are printed after this."""
        if self.bar is not None:
            if whole:
                fill(self.bar)
            self.bar.close()
            self.bar = None
