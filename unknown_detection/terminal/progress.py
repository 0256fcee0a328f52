"""Progress bars and log lines on stderr: labelled bars that fill up, and lines that never share one with a bar.

Tested by `tests/unknown_detection/terminal/test_screen.py`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
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
    hidden = True if quiet or not total else None  # None: hidden where stderr is no terminal
    how: dict[str, Any] = {"unit_scale": True, "dynamic_ncols": True, "file": sys.stderr, "disable": hidden}
    with tqdm(total=total, desc=title, unit=unit, initial=done, **how) as shown:
        yield shown
        shown.update(total - shown.n)


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

    @contextlib.contextmanager
    def step(self, title: str, images: int) -> Iterator[Callable[..., None]]:
        """Draw the bar of a step over a number of images; yields what counts images, and bytes if known, as done."""
        with bar(images, title, quiet=self.quiet) as shown:
            started, total = time.monotonic(), 0

            def advance(images: int, size: int = 0) -> None:
                nonlocal total
                total += size
                if total and not shown.disable:
                    rate = total / max(time.monotonic() - started, 1e-9) / 1e6
                    shown.set_postfix_str(f"{rate:,.0f} MB/s", refresh=False)
                shown.update(images)

            yield advance

    def note(self, text: str) -> None:
        """Print a line that stays above the bar."""
        if not self.quiet:
            log(text)
