"""Calls in the background: their results, their errors, and a Ctrl-C that does not wake the main thread."""

import signal
import threading
import time

import pytest

from builders.hub.client import in_background


class ComesOutError(Exception):
    """What the handler of SIGINT raises here."""


def test_results_and_errors_come_out():
    assert in_background(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        in_background(lambda: 1 / 0)


def test_ctrl_c_comes_out_though_another_thread_received_it():
    """As if it came between the main thread's last instruction and its wait: then no wait of the system is ended."""

    def handle(number, frame):
        raise ComesOutError

    ended = threading.Event()

    def call():
        time.sleep(0.3)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        ended.wait(30)

    before = signal.signal(signal.SIGINT, handle)
    started = time.monotonic()
    try:
        with pytest.raises(ComesOutError):
            in_background(call)
        assert time.monotonic() - started < 10
    finally:
        ended.set()
        signal.signal(signal.SIGINT, before)
