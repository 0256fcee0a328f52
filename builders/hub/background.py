"""Runs a call of the client in a thread that Ctrl-C leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")

_LOOK_SECONDS = 0.2
"""How often the main thread looks for a Ctrl-C that did not wake it; ours."""


def in_background(call: Callable[[], T]) -> T:
    """Return what a call returns, or raise what it raises, without waiting for it after Ctrl-C.

    The client uploads in threads of its own and waits for them, however long they take, before it lets an exception
    out.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised below
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    # Not without a limit: CPython runs handlers of signals between two instructions of the main thread, and a signal
    # that comes after the last one, while it gives up the interpreter's lock, does not wake it from its wait.
    while not wait([done], _LOOK_SECONDS).done:
        pass
    return done.result()
