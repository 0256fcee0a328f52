"""Readers with one fault each, on an input that names it: what the harness must notice.

Tested by `tests/fuzz/test_harness.py`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from builders.errors import BuildError
from tests.fuzz.target import Target


def _refuse(message: str) -> None:
    raise BuildError(message)


def _swallow_lack_of_memory() -> None:
    try:
        bytearray(3 << 30)
    except MemoryError as error:
        raise BuildError("The file is too large. Download it again.") from error


def _compute() -> None:
    while True:
        pass


FAULTS: Mapping[str, Callable[[], object]] = {
    "value": lambda: 1,
    "refused": lambda: _refuse("It is wrong. Replace it."),
    "traceback exception": lambda: {}["key"],
    "traceback exit": lambda: os.sys.exit(2),
    "signal": lambda: os.kill(os.getpid(), signal.SIGBUS),
    "time waits": lambda: time.sleep(60),
    "time computes": _compute,
    "memory at once": lambda: np.ones(3 << 27),
    "memory bit by bit": lambda: [bytes(1 << 20) for _ in range(3000)],
    "memory hidden": _swallow_lack_of_memory,
    "message of two lines": lambda: _refuse("It is wrong.\nReplace it."),
    "message with a control character": lambda: _refuse("The file \x1b[2J is wrong. Replace it."),
    "message with half a character": lambda: _refuse("The file \udcff is wrong. Replace it."),
    "message without an end": lambda: _refuse("It is wrong"),
    "message of nothing": lambda: _refuse(""),
    "wrote beside": lambda: Path(os.environ["TMPDIR"], "file").touch(),
    "wrote a folder": lambda: Path(os.environ["TMPDIR"], "folder").mkdir(),
    "wrote elsewhere": lambda: Path(os.environ["TMPDIR"], "../../unknown-detection-fuzz").resolve().touch(),
    "value after all faults": lambda: bytes(900 << 20)[:1],
}


def _read(folder: Path) -> object:
    return FAULTS[(folder / "name").read_text()]()


TARGETS = (
    Target(
        "faulty",
        "name",
        good=lambda: [b"value"],
        read=_read,
        cases=lambda: {name: name.encode() for name in FAULTS},
    ),
)
