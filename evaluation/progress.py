"""Progress of long steps, on stderr.

Tested by `tests/evaluation/features/test_extract.py`.
"""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def bar(total: int, title: str, *, quiet: bool = False, unit: str = "images") -> Any:
    """A bar with count, rate and time left; a context manager with `update(count)`. Only on a terminal.

    Args:
        total: how many there are.
        title: what stands before it.
        quiet: show none on a terminal either.
        unit: what is counted.
    """
    hidden = True if quiet else None  # None: hidden where stderr is no terminal
    return tqdm(total=total, desc=title, unit=f" {unit}", unit_scale=True, disable=hidden, file=sys.stderr)


def note(text: str) -> None:
    """Say one line on stderr that stays, above any bar."""
    tqdm.write(text, file=sys.stderr)
