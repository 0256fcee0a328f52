"""The faults: a plan draws the moment, disturbs a running command, and removes the fault afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.soak import moments, places
from tests.soak.commands import Job, Running, command_line, descendants
from tests.soak.operations import Operation, Outcome
from tests.soak.places import Place

ENOUGH = 64 << 20
"""Bytes of a disk that is not full."""

_LONGEST_WAIT = 2.0
"""Seconds to wait for a worker to start."""

_PAGE = 4096
"""Bytes of a page of a tmpfs."""

CLUSTERS_WORKERS = ("ray::work", "ray::Worker", "ray::IDLE")
"""Ray's names of the processes that run our tasks, or wait for one. A node without its agents would be given up."""

_LATEST = 1.1
"""The latest moment that is drawn, as a multiple of the seconds of an undisturbed run."""


@dataclass(frozen=True)
class Reference:
    """An undisturbed run: files before and after, its seconds, bytes, file operations and requests."""

    before: Outcome
    after: Outcome
    seconds: float
    cold_seconds: float
    size: int
    moments: tuple[str, ...]
    routes: tuple[str, ...]

    def moment(self, drawing: Random, *, warm: bool) -> float:
        """Draw the seconds after which a fault strikes."""
        return drawing.uniform(0, _LATEST * (self.seconds if warm else self.cold_seconds))


class Plan:
    """A drawn fault.

    Attributes:
        text: its description.
        struck: whether it came before the command's end.
        refuses: whether the next command may refuse, in a sentence, until `concede` was called.
        disk: bytes of a disk of its own; 0 for none.
        workers: number of the command's processes; 0 for any.
        warm: whether the command has to be forked.
    """

    text = ""
    struck = False
    refuses = False
    disk = 0
    workers = 0
    warm = False

    def change(self, job: Job) -> Job:
        """Return the command as it is started."""
        return job

    def begin(self, place: Place) -> None:
        """Prepare the fault before the command starts."""

    def during(self, running: Running, place: Place) -> None:
        """Disturb the command."""

    def mend(self, place: Place) -> None:
        """Remove the fault before the next command."""

    def concede(self, place: Place) -> None:
        """Remove the reason for which the next command refuses."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault: its name in the table, the operations that it fits, and the function that draws one."""

    name: str
    fits: Callable[[Operation], bool]
    draw: Callable[[Random, Reference, bool], Plan]


class Signalled(Plan):
    """A signal at some moment, to the command alone or to its child processes, too."""

    def __init__(self, number: int, after: float, *, everyone: bool) -> None:
        self.number, self.after, self.everyone = number, after, everyone
        whom = "all its processes" if everyone else "the command"
        self.text = f"{signal.Signals(number).name} to {whom} after {after:.3f} s"

    def during(self, running: Running, place: Place) -> None:
        if not running.wait(self.after):
            self.struck = running.signal(self.number, everyone=self.everyone)


class AtMoment(Plan):
    """A signal, or an error of the disk, at one of the operations on files."""

    warm = True
    workers = 1  # so that the process itself writes the files

    def __init__(self, strike: moments.Strike, moment: str) -> None:
        self.strike = strike
        self.text = moments.in_words(strike, moment)
        self.trace = ""

    def change(self, job: Job) -> Job:
        self.trace = f"{job.log}.trace"
        return dataclasses.replace(job, strike=self.strike, trace=self.trace)

    def mend(self, place: Place) -> None:
        self.struck = len(moments.traced(Path(self.trace))) >= self.strike.number


class WorkerKilled(Plan):
    """SIGKILL to one of the command's child processes, or of the cluster's workers."""

    workers = 2

    def __init__(self, after: float, drawing: Random) -> None:
        self.after, self.drawing = after, drawing
        self.text = f"SIGKILL to a worker after {after:.3f} s"

    def during(self, running: Running, place: Place) -> None:
        if running.wait(self.after):
            return
        until = time.monotonic() + _LONGEST_WAIT
        while not (workers := self._workers(running, place)) and time.monotonic() < until and not running.wait(0.01):
            pass
        if workers:
            victim = self.drawing.choice(workers)
            self.text += f" ({command_line(victim)[:60].strip()})"
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                self.struck = True

    def _workers(self, running: Running, place: Place) -> list[int]:
        if place.world.ray:
            # The cluster is this process's; others of the machine are left alone.
            numbers = descendants(os.getpid())
            return [number for number in numbers if command_line(number).startswith(CLUSTERS_WORKERS)]
        own = (number for number in running.session() if number != running.pid)
        return sorted(number for number in own if "resource_tracker" not in command_line(number))


class SmallDisk(Plan):
    """A disk with too little space from the beginning."""

    def __init__(self, size: int, needed: int) -> None:
        self.disk = size
        self.text = f"a disk of {size:,} bytes, where {needed:,} are needed"
        self.struck = size < needed

    def mend(self, place: Place) -> None:
        places.resize(place.disk, ENOUGH)


class FilledDisk(Plan):
    """A disk that another program fills at some moment."""

    disk = ENOUGH

    def __init__(self, after: float) -> None:
        self.after = after
        self.text = f"a disk that is full after {after:.3f} s"

    def during(self, running: Running, place: Place) -> None:
        if running.wait(self.after):
            return
        self.struck = True
        with contextlib.suppress(OSError), (place.disk / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(place.disk).free)

    def mend(self, place: Place) -> None:
        (place.disk / "filler").unlink(missing_ok=True)


class SmallFiles(Plan):
    """A limit of the size of files, where no disk can be mounted: EFBIG instead of ENOSPC."""

    warm = True
    workers = 1

    def __init__(self, size: int) -> None:
        self.size = size
        self.text = f"files of at most {size:,} bytes"
        self.struck = True

    def change(self, job: Job) -> Job:
        return dataclasses.replace(job, file_bytes=self.size)


def _signals(number: int) -> Kind:
    def draw(drawing: Random, reference: Reference, warm: bool) -> Plan:
        # A terminal sends Ctrl-C to all processes.
        everyone = number == signal.SIGINT or drawing.random() < 0.3
        return Signalled(number, reference.moment(drawing, warm=warm), everyone=everyone)

    return Kind(signal.Signals(number).name, lambda operation: True, draw)


def _at_moment(drawing: Random, reference: Reference, warm: bool) -> Plan:
    number = drawing.randint(1, len(reference.moments))
    sent = drawing.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
    return AtMoment(moments.Strike(number, signal=sent), reference.moments[number - 1])


def _refused(drawing: Random, reference: Reference, warm: bool) -> Plan:
    refusable = [i for i, moment in enumerate(reference.moments, 1) if moment.split()[0] in moments.TAKING]
    number = drawing.choice(refusable)
    error = drawing.choice((errno.ENOSPC, errno.EDQUOT, errno.EIO))
    return AtMoment(moments.Strike(number, error=error), reference.moments[number - 1])


def _full(drawing: Random, reference: Reference, warm: bool) -> Plan:
    if drawing.random() < 0.5:
        return FilledDisk(reference.moment(drawing, warm=warm))
    size = int(drawing.uniform(0.02, 1.02) * reference.size) // _PAGE * _PAGE + _PAGE
    return SmallDisk(size, reference.size)


def _small_files(drawing: Random, reference: Reference, warm: bool) -> Plan:
    return SmallFiles(int(drawing.uniform(0.01, 0.5) * reference.size))


def _writes(operation: Operation) -> bool:
    return not operation.says or operation.on_hub


def local_kinds(*, disks: bool) -> list[Kind]:
    """The kinds of faults that need no server.

    Args:
        disks: whether disks can be mounted.
    """
    return [
        _signals(signal.SIGKILL),
        _signals(signal.SIGTERM),
        _signals(signal.SIGINT),
        Kind("signal at a file operation", _writes, _at_moment),
        Kind("worker killed", lambda operation: operation.workers, _killed_worker),
        Kind("disk full", _writes, _full if disks else _small_files),
        Kind("file operation refused", _writes, _refused),
    ]


def _killed_worker(drawing: Random, reference: Reference, warm: bool) -> Plan:
    return WorkerKilled(reference.moment(drawing, warm=warm), drawing)
