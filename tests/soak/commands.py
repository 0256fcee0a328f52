"""Starts commands, in a forked process or one of their own, and watches them and their child processes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.killing import heed_interrupts
from tests.soak.moments import Strike

ROOT = Path(__file__).parents[2]

LONGEST = 240.0
"""Seconds after which a command counts as hanging."""

_ENDING = 20.0
"""Seconds within which all child processes of a killed command must have ended."""


@dataclass(frozen=True)
class Job:
    """A command to run.

    Attributes:
        module: the module that `python -m` runs.
        arguments: its arguments.
        folder: its working directory.
        log: path without suffix of the files for stdout and stderr.
        environment: variables in addition to the environment of the soak.
        hub: address and token of its Hub; None for none.
        warm: whether it is forked from a process that has imported it.
        trace: file for its moments; empty for none.
        strike: the fault at one of its moments.
        file_bytes: the largest file that it may write; 0 for any.
    """

    module: str
    arguments: tuple[str, ...]
    folder: Path
    log: Path
    environment: Mapping[str, str]
    hub: Mapping[str, str] | None = None
    warm: bool = True
    trace: str = ""
    strike: Strike | None = None
    file_bytes: int = 0

    @property
    def line(self) -> str:
        """The command line."""
        return " ".join(["python -m", self.module, *self.arguments])

    def request(self) -> str:
        """Return the request to `tests.soak.warm`."""
        plain = {"folder": str(self.folder), "log": str(self.log), "strike": self.strike and vars(self.strike)}
        return json.dumps(vars(self) | plain)


@dataclass(frozen=True)
class Ran:
    """Exit code and output of a command. The code is negative after a signal, and None if it did not end."""

    code: int | None
    out: str
    err: str
    seconds: float
    line: str


@dataclass
class Running:
    """A running command, in a session of its own."""

    pid: int
    job: Job
    launcher: Launcher
    started: float = field(default_factory=time.monotonic)
    code: int | None = None
    ended: bool = False

    def wait(self, seconds: float) -> bool:
        """Wait for its end, and return whether it has ended."""
        if not self.ended:
            code = self.launcher.code(self, max(0.0, seconds))
            if code is not None:
                self.ended, self.code = True, code
        return self.ended

    def signal(self, number: int, *, everyone: bool = False) -> bool:
        """Send a signal to it, or with `everyone` to its child processes too; return whether it was running."""
        if self.wait(0):
            return False
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if everyone else os.kill)(self.pid, number)
            return True
        return False

    def session(self) -> list[int]:
        """Return the processes of its session."""
        return [number for number, _, session in _processes() if session == self.pid]

    def finish(self) -> Ran:
        """Wait until it ends, and kill it if it hangs."""
        if not self.wait(LONGEST):
            for number in self.session():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            self.wait(10)
            self.code = None
        output = [Path(f"{self.job.log}.{name}").read_text("utf-8", "replace") for name in ("out", "err")]
        return Ran(self.code, output[0], output[1], time.monotonic() - self.started, self.job.line)

    def lingering(self) -> list[int]:
        """Kill the processes of its session that do not end by themselves, and return them."""
        until = time.monotonic() + _ENDING
        while (processes := self.session()) and time.monotonic() < until:
            time.sleep(0.02)
        for number in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return processes


def _processes() -> list[tuple[int, int, int]]:
    """Return number, parent and session of every process that has not ended: fields 3, 4 and 6 of proc_pid_stat(5)."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if state != "Z":
                    processes.append((int(entry.name), int(parent), int(session)))
    return processes


def descendants(number: int) -> list[int]:
    """Return the child processes of a process, theirs, and so on."""
    processes, pending = _processes(), [number]
    numbers: list[int] = []
    while pending:
        parent = pending.pop()
        children = [child for child, parent_of, _ in processes if parent_of == parent]
        numbers += children
        pending += children
    return sorted(numbers)


def command_line(number: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


class Launcher:
    """Starts one command at a time, forked from a process that has imported all of them, or as a user would."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._warm: subprocess.Popen[bytes] | None = None
        self._heard = b""
        self._cold: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_: object) -> None:
        if self._warm is not None:
            assert self._warm.stdin is not None and self._warm.stdout is not None
            self._warm.stdin.close()
            self._warm.wait()
            self._warm.stdout.close()

    def start(self, job: Job) -> Running:
        """Start a command."""
        for name in ("out", "err"):  # which are there even if it is killed before it opens them
            Path(f"{job.log}.{name}").touch()
        if not job.warm:
            return Running(self._start_cold(job), job, self)
        if self._warm is None:
            self._warm = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.warm"],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        assert self._warm.stdin is not None
        self._warm.stdin.write(job.request().encode() + b"\n")
        return Running(int(self._answer(None) or 0), job, self)

    def _start_cold(self, job: Job) -> int:
        with Path(f"{job.log}.out").open("wb") as out, Path(f"{job.log}.err").open("wb") as err:
            self._cold = subprocess.Popen(
                [sys.executable, "-m", job.module, *job.arguments],
                cwd=job.folder,
                env={**self._environment, **job.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=heed_interrupts,
            )
        return self._cold.pid

    def code(self, running: Running, seconds: float) -> int | None:
        """Wait for the exit code of the command that runs."""
        if running.job.warm:
            answer = self._answer(seconds)
            return None if answer is None else int(answer)
        assert self._cold is not None
        try:
            return self._cold.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _answer(self, seconds: float | None) -> bytes | None:
        """Return the next line of the process that forks; None if there is none in time."""
        assert self._warm is not None and self._warm.stdout is not None
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self._warm.stdout], [], [], seconds)
            if not ready:
                return None
            if not (data := os.read(self._warm.stdout.fileno(), 100)):
                raise RuntimeError(f"the process that forks commands ended with {self._warm.wait()}")
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return line
