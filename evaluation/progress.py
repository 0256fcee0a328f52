"""Progress bars and log lines on stderr.

Tested by `tests/unknown_detection/terminal/test_screen.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from unknown_detection.terminal import progress
from unknown_detection.terminal.progress import Log, Progress, log, result

__all__ = ["Log", "Progress", "bar", "log", "result"]


def bar(total: int, title: str, *, quiet: bool = False, unit: str = "images") -> AbstractContextManager[Any]:
    """Draw a bar on a terminal until the block ends; see `unknown_detection.terminal.progress.bar`.

    Args:
        total: number of items.
        title: text before the bar.
        quiet: hide it on a terminal, too.
        unit: name of the items.
    """
    return progress.bar(total, title, quiet=quiet, unit=f" {unit}")
