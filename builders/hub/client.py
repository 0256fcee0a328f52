"""Configures huggingface_hub for our commands: timeouts, no progress bars, and uploads that Ctrl-C abandons.

`tests/hf_scripts/test_push_faults.py` shows timeouts at work.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from huggingface_hub.utils import (  # type: ignore[attr-defined]
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
    httpx,
    set_client_factory,
)
from huggingface_hub.utils import logging as hub_logging

# Private in huggingface_hub. It also sets hooks and redirects, which a factory of our own would lose.
from huggingface_hub.utils._http import default_client_factory

from unknown_detection.terminal.interrupts import Stopped

T = TypeVar("T")

CONNECT_TIMEOUT = 30.0
"""Seconds."""

READ_TIMEOUT = 300.0
"""Seconds without a byte in either direction. An upload may take hours, and the Hub may take a minute or two to answer
a commit of thousands of files; a longer silence is a lost connection."""


@contextlib.contextmanager
def hub_settings() -> Iterator[None]:
    """Set timeouts, and silence the client's progress bars and log lines.

    By default the client waits forever, and its log lines about retried uploads contain signed URLs. The settings of
    before are restored, but not after Ctrl-C, which ends the process.
    """
    verbosity, bars = hub_logging.get_verbosity(), not are_progress_bars_disabled()
    hub_logging.set_verbosity(logging.ERROR)
    if bars:
        disable_progress_bars()
    set_client_factory(_client_with_timeouts)
    stopped = False
    try:
        yield
    except Stopped:
        # Threads that nobody waits for go on until the process ends. Without their connections they would say so.
        stopped = True
        raise
    finally:
        if not stopped:
            set_client_factory(default_client_factory)
            hub_logging.set_verbosity(verbosity)
            if bars:
                enable_progress_bars()


def _client_with_timeouts() -> Any:
    client = default_client_factory()
    client.timeout = httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT, pool=None)
    return client


_LOOK_SECONDS = 0.2
"""How often the main thread looks for a Ctrl-C that did not wake it; ours."""


def in_background(call: Callable[[], T]) -> T:
    """Run a call in a thread and return its result; Ctrl-C abandons it at once.

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
