"""Progress bars and log lines on stderr: labelled bars that fill up, and lines that never share one with a bar."""

from __future__ import annotations

import contextlib
import sys
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

    At the end of the block the bar is full, since some items, such as those of an earlier run, may not have been
    counted. After an exception it stays where it is.

    Args:
        total: number of items; without any there is no bar.
        title: label before the bar.
        quiet: draw nothing on a terminal, either.
        unit: what follows a number, such as " images" or "B".
        done: items of an earlier run, which do not count for the rate.
    """
    shown = open_bar(total, title, quiet=quiet, unit=unit, done=done)
    try:
        yield shown
        fill(shown)
    finally:
        shown.close()


def open_bar(total: int, title: str, *, quiet: bool = False, unit: str = " images", done: int = 0) -> Any:
    """Return a bar, for steps that are no block; `fill` and `close` end it."""
    # None: hidden where stderr is no terminal.
    hidden = True if quiet or not total else None
    return tqdm(
        total=total,
        desc=title,
        unit=unit,
        unit_scale=True,
        initial=done,
        disable=hidden,
        file=sys.stderr,
        dynamic_ncols=True,
    )


def fill(shown: Any) -> None:
    """Move a bar to its end."""
    shown.update(shown.total - shown.n)


def log(text: str) -> None:
    """Print one line to stderr, above any bar."""
    tqdm.write(text, file=sys.stderr)


def result(text: str) -> None:
    """Print one line to stdout, above any bar."""
    tqdm.write(text, file=sys.stdout)
