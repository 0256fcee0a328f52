"""Runs a call of the client in a thread that Ctrl-C leaves behind.

Tested by `tests/hf_scripts/test_push_process.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


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
    return done.result()
