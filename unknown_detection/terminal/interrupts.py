"""Ends a command on Ctrl-C with one line on stderr and exit code 130, at whatever moment it comes.

During a command's imports, which change nothing, it prints the line and exits at once: a `KeyboardInterrupt` there
would end as a traceback, or be lost in a library's own handling of failed imports. While the command works, `Stopped`
is raised, so that everything that it has open is closed. Afterwards, while Python ends, the process exits at once with
the command's exit code; in the last moments it ends by itself.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

EXIT_CODE = 130
"""The exit code after Ctrl-C, with which a shell reports a process that SIGINT ended: 128 + 2."""

_RETRY_SECONDS = 0.05
"""Delay before `Stopped` is raised again that Python has swallowed, in a callback or a `__del__`. Ours."""


class Stopped(BaseException):
    """Raised by Ctrl-C while a command works.

    Not a `KeyboardInterrupt`, before which click prints an empty line.

    Attributes:
        says: the line that tells the user what is kept; empty for the command's own.
    """

    says = ""


class _Process:
    """The state of this process, by which SIGINT is handled.

    Attributes:
        watched: whether the process runs a command of ours from its first import on.
        running: whether a command works, so that `Stopped` is caught.
        came: whether SIGINT came while the command worked.
        code: the exit code after the command; None before.
    """

    def __init__(self) -> None:
        self.watched = False
        self.running = False
        self.came = False
        self.code: int | None = None
        self.pid = os.getpid()

    def interrupted(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT in the main thread."""
        if os.getpid() != self.pid:
            return  # a forked worker, which ends once its parent closes the pipe
        if self.running:
            self.came = True
            raise Stopped
        if self.code is None:
            _say("stopped.")
        os._exit(EXIT_CODE if self.code is None else self.code)


_process = _Process()


def watch() -> None:
    """Let Ctrl-C end this process with one line from now on; for a process that runs a command of ours."""
    if _process.watched:
        return
    sys.excepthook = _uncaught
    if not _may_handle(signal.SIG_DFL):  # as of a job in the background, which ignores Ctrl-C
        return
    _process.watched, _process.pid = True, os.getpid()
    signal.signal(signal.SIGINT, _process.interrupted)
    # After its last exit handler, Python drops handlers in Python but keeps SIG_IGN, so that the exit code stays.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def run_stoppable(work: Callable[[], int], says: str) -> int:
    """Run a command's work to its end or to Ctrl-C."""
    handles = _may_handle(_process.interrupted)
    before = signal.signal(signal.SIGINT, _process.interrupted) if handles else None
    hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_unraisable, hook)
    _process.came, _process.pid, _process.running = False, os.getpid(), handles
    code = 1
    try:
        code = work()
        _flush()
        _process.running = False
        if _process.came:  # a library has swallowed `Stopped`
            code = EXIT_CODE
            _say(says)
    except BaseException as error:
        _process.running = False
        # Libraries turn `Stopped` into errors of their own.
        if not _process.came and not isinstance(error, Stopped | KeyboardInterrupt):
            raise
        code = EXIT_CODE
        _say((error.says if isinstance(error, Stopped) else "") or says)
    finally:
        sys.unraisablehook = hook
        _process.code = code if _process.watched else None
        if handles:
            signal.signal(signal.SIGINT, before)
    if _process.watched and code == EXIT_CODE:
        os._exit(code)  # threads of a client may still wait for the network
    return code


@contextlib.contextmanager
def stopping_says(text: str) -> Iterator[None]:
    """Set the line that Ctrl-C inside this block prints, which says what is kept; an inner block's line wins."""
    try:
        yield
    except Stopped as stopped:
        stopped.says = stopped.says or text
        raise


@contextlib.contextmanager
def left_to_the_parent() -> Iterator[None]:
    """Keep Ctrl-C, which a terminal sends to all processes, from processes that are started inside this block.

    This process handles it when the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _may_handle(*own: object) -> bool:
    # A handler of another program, or SIGINT ignored (by a shell, for background jobs), is left alone.
    replaceable = (signal.default_int_handler, *own)
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) in replaceable


def _say(line: str) -> None:
    """Print the line on stderr, in the place of the ^C that a terminal shows."""
    _flush()
    if sys.stderr is None:
        return
    text = f"\r{line}\n" if sys.stderr.isatty() else f"{line}\n"
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except RuntimeError:  # Ctrl-C came while something was written there
        os.write(sys.stderr.fileno(), text.encode())
    except (OSError, ValueError):
        pass  # stderr is closed


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as under pythonw
            with contextlib.suppress(OSError, ValueError, RuntimeError):  # closed, or interrupted while flushing
                stream.flush()


def _uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """End the process after a second Ctrl-C between two lines of `run_stoppable`, or where its imports failed."""
    if isinstance(error, Stopped):
        os._exit(EXIT_CODE)
    from unknown_detection.terminal.shortages import shortage  # only here, so that nothing precedes `watch`

    if sentence := shortage(error):
        _say(f"error: {sentence}")
        os._exit(2)
    sys.__excepthook__(kind, error, trace)


def _unraisable(before: Callable[[Any], object], unraisable: Any) -> None:
    """Raise `Stopped` again a moment later, if Python could not raise it; other exceptions are given to `before`."""
    if isinstance(unraisable.exc_value, Stopped):
        timer = threading.Timer(_RETRY_SECONDS, _interrupt_again)
        timer.daemon = True
        timer.start()
    else:
        before(unraisable)


def _interrupt_again() -> None:
    if _process.running:
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)
