"""Shows the progress of long steps on stderr: images, rate, time left, and bytes per second.

Tested by `tests/builders/pipeline/test_command.py`.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from tqdm import tqdm


class TerminalMeter:
    """A `builders.executors.base.Meter` that draws a bar on a terminal, and prints only notes elsewhere.

    Args:
        quiet: print nothing.
    """

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
        self._close()

    def step(self, title: str, images: int) -> None:
        """Begin a step over a number of images."""
        self._close()
        self.bytes = 0
        self.started = time.monotonic()
        hidden = True if self.quiet else None  # None: hidden unless stderr is a terminal
        self.bar = tqdm(total=images, desc=title, unit=" images", unit_scale=True, disable=hidden, file=sys.stderr)

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
            tqdm.write(text, file=sys.stderr)

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
