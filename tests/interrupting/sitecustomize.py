"""Loaded by every Python that finds this folder on its path as it starts: presses Ctrl-C at a chosen moment.

The moments are the audit events (sys.addaudithook: imports, opened files, pipes, ...) of the process's main thread.
`INTERRUPT_AT` names one: the number of an event since a command of ours began to work, or, at any time, the first
`EVENT:TEXT` with this text in its arguments. `INTERRUPT_COUNT` names a file that gets how many were counted.
"""

import atexit
import os
import signal
import sys
import threading
from pathlib import Path

_at, _count = os.environ.pop("INTERRUPT_AT", ""), os.environ.pop("INTERRUPT_COUNT", "")
_process, _main = os.getpid(), threading.get_ident()
_event, _, _text = _at.partition(":")
_events, _pressed = 0, False


def _hook(event, arguments):
    global _events, _pressed
    if _pressed or threading.get_ident() != _main or os.getpid() != _process:
        return
    _events += bool(_events) or _works()
    if _at == str(_events) or (_text and event == _event and _text in str(arguments)):
        _pressed = True
        os.killpg(os.getpgrp(), signal.SIGINT)  # to every process of the group, as a terminal does


def _works():
    module = sys.modules.get("unknown_detection.terminal.interrupts")
    return hasattr(module, "_process") and module._process.running


if _at or _count:
    sys.addaudithook(_hook)
    if _count:
        atexit.register(lambda: Path(_count).write_text(str(_events)))

if os.environ.get("HUB_FOREIGN_HOSTS"):
    from tests.hub.loopback import install_in_subprocess

    install_in_subprocess()
