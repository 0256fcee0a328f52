"""Runs commands as a person does at a terminal: on one that is drawn here, and with Ctrl-C at a chosen moment."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyte

from tests.killing import heed_interrupts

ROOT = Path(__file__).parents[3]
SITE = Path(__file__).parents[2] / "interrupting"
WIDTH, HEIGHT = 150, 200


def interrupted(module, *arguments, at, env=None, count=""):
    """Run `python -m` in a process group that gets SIGINT at a moment (`tests/interrupting/sitecustomize.py`)."""
    environment = {**os.environ, **(env or {}), "INTERRUPT_AT": str(at), "INTERRUPT_COUNT": str(count)}
    environment["PYTHONPATH"] = os.pathsep.join((str(SITE), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=120,
        check=False,
        preexec_fn=heed_interrupts,
    )


def screen_of(module, *arguments, typed=None):
    """Run `python -m` on a terminal; the exit code and the lines that one sees in the end.

    Args:
        typed: called with the text that came so far; bytes that it returns are typed, once.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_takes_terminal,
    )
    os.close(theirs)
    data = b""
    while piece := _read(ours):
        data += piece
        if typed is not None and (keys := typed(data.decode(errors="replace"))):
            os.write(ours, keys)
            typed = None
    os.close(ours)
    return process.wait(), drawn(data)


def drawn(data):
    """The lines that a terminal shows of a stream of bytes."""
    screen = pyte.Screen(WIDTH, HEIGHT)
    pyte.ByteStream(screen).feed(data)
    return "\n".join(line.rstrip() for line in screen.display).rstrip().split("\n")


def _takes_terminal():
    heed_interrupts()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that ^C reaches it


def _read(terminal):
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # EIO: nobody has the other end open any more
        return b""
