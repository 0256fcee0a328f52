"""Progress bars and log lines on stderr.

Tested by `tests/evaluation/features/test_extract.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

Log = Callable[[str], object]
"""Prints one progress line."""

Progress = Callable[[int], object]
"""Called with the number of items done since the last call."""


def bar(total: int, title: str, *, quiet: bool = False, unit: str = "images") -> Any:
    """Return a progress bar with count, rate and remaining time, shown on terminals only.

    Args:
        total: number of items.
        title: text before the bar.
        quiet: hide it on a terminal, too.
        unit: name of the items.
    """
    hidden = True if quiet else None  # None: hidden where stderr is no terminal
    return tqdm(total=total, desc=title, unit=f" {unit}", unit_scale=True, disable=hidden, file=sys.stderr)


def log(text: str) -> None:
    """Print one line to stderr, above any progress bar."""
    tqdm.write(text, file=sys.stderr)
