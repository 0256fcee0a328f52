"""Shows the progress of long steps on stderr: images, rate, time left, and bytes per second.

Tested by `tests/unknown_detection/terminal/test_screen.py`.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from unknown_detection.terminal.progress import fill, log, open_bar


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
        self._close(whole=kind is None)

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

    def done(self) -> None:
        """End the step, if one is open; its bar is full. Results are printed after this."""
        self._close(whole=True)

    def _close(self, *, whole: bool) -> None:
        if self.bar is not None:
            if whole:
                fill(self.bar)
            self.bar.close()
            self.bar = None
