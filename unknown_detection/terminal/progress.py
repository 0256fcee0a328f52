"""Progress bars and log lines on stderr: labelled bars that fill up, and lines that never share one with a bar.

Tested by `tests/unknown_detection/terminal/test_progress.py` and `tests/unknown_detection/terminal/test_screen.py`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TextIO

from tqdm import tqdm

Log = Callable[[str], object]
"""Prints one progress line."""

Progress = Callable[[int], object]
"""Called with the number of items done since the last call."""

_SECONDS = 30.0
"""Seconds between two lines of a bar where no terminal redraws it, in the log of a job for instance; ours."""

_drawn: list[str] = []
"""Titles of the bars that are drawn now, the outermost first."""


@contextlib.contextmanager
def bar(total: int, title: str, *, quiet: bool = False, unit: str = " images", done: int = 0) -> Iterator[Any]:
    """Draw a bar with count, rate and remaining time until the block ends.

    On a terminal and in a notebook it is redrawn in its place, and one within another goes where it ends, so that a
    search over many settings leaves one; in a file it is a line every half minute, and none of what takes less. At the
    end of the block the bar is full, since items of an earlier run may not have been counted. After an exception it
    stays where it is. Without items there is no bar; the `done` ones of an earlier run do not count for the rate;
    `unit` is what follows a number, such as " images" or "B".
    """
    if quiet or not total:
        yield tqdm(total=total, initial=done, disable=True)
        return
    # The module for notebooks imports asyncio, which costs every command and nothing else here needs.
    bar_of_the_place = importlib.import_module("tqdm.auto").tqdm if _is_notebook() else tqdm

    redrawn = _is_redrawn()
    how: dict[str, Any] = {"unit_scale": total >= 1000, "dynamic_ncols": True, "leave": not (redrawn and _drawn)}
    if not redrawn:
        how |= {"mininterval": _SECONDS, "maxinterval": _SECONDS, "delay": _SECONDS}
    with bar_of_the_place(total=total, desc=title, unit=unit, initial=done, file=sys.stderr, **how) as shown:
        if not redrawn:  # a new title is no reason for a line
            shown.set_description = partial(shown.set_description, refresh=False)
        _drawn.append(title)
        try:
            yield shown
        finally:
            _drawn.remove(title)
        shown.update(total - shown.n)


def _is_redrawn() -> bool:
    """Return whether stderr is a terminal or a notebook's, on which a bar is redrawn in its place."""
    return sys.stderr.isatty() or _is_notebook()


def _is_notebook() -> bool:
    """Return whether stderr is a notebook's."""
    return type(sys.stderr).__module__.startswith("ipykernel")


def log(text: str) -> None:
    """Print one line to stderr, above any bar."""
    _print(text, sys.stderr)


def result(text: str) -> None:
    """Print one line to stdout, above any bar."""
    _print(text, sys.stdout)


def _print(text: str, file: TextIO) -> None:
    if _is_redrawn():
        tqdm.write(text, file=file)
    else:  # tqdm would draw a bar again that has not been due yet
        print(text, file=file)


class TerminalMeter:
    """A `builders.executors.base.Meter` that draws a bar on a terminal, and prints only notes elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    @contextlib.contextmanager
    def step(self, title: str, images: int) -> Iterator[Callable[..., None]]:
        """Draw the bar of a step over a number of images; yields a function that counts finished images and bytes."""
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
