"""Reads inputs one after another under limits, and prints what came of each: `python -m tests.fuzz.child MODULES`.

The limits are on each call: a gigabyte of memory beyond what the process has by then, two seconds of the processor and
two seconds by the clock (more in a second try, see `harness`). The last two end the process by a signal, also inside a
library that never returns.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from builders.errors import BuildError
from tests.fuzz.mutations import damaged
from tests.fuzz.target import Target
from unknown_detection.words import is_printable

MEMORY = 1 << 30
SECONDS = 2.0

_DATA = 5  # the sixth number of /proc/self/statm: pages of private memory, as RLIMIT_DATA counts them
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def main() -> None:
    """Read a job from each line of standard input, do it in a fork, and print a line for every input, and its end.

    All targets are imported first, so that each fork has them.
    """
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no result
    for module in sys.argv[1:]:
        importlib.import_module(module)
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            code = 1
            try:
                _work(json.loads(line), results)
                code = 0
            except BaseException:  # noqa: BLE001  a fork must not go on as its parent
                traceback.print_exc()
            finally:
                results.flush()
                os._exit(code)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        results.write(json.dumps({"ended": ended}) + "\n")


def _work(job: dict[str, Any], results: TextIO) -> None:
    errors = os.open(job["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    faulthandler.enable()  # so that a fatal signal leaves a traceback
    target = find(job["target"])
    scratch = Path(job["scratch"])
    os.environ["TMPDIR"] = f"{scratch}/temporary"
    tempfile.tempdir = None
    opened = _watch_writes()
    good, cases = target.good(), target.cases()
    for data in good:  # what a reader imports on its first call is no part of what a damaged input takes
        target.write(_emptied(scratch / "input"), data)
        target.read(scratch / "input")
    for name in job["inputs"]:
        outcome = _outcome(target, input_of(target, name, good, cases), scratch, opened, job["seconds"])
        results.write(json.dumps({"input": name, **outcome}) + "\n")


def find(where: str) -> Target:
    """Return the target named as `module:name`."""
    module, _, name = where.partition(":")
    return next(target for target in importlib.import_module(module).TARGETS if target.name == name)


def input_of(target: Target, name: str, good: Sequence[bytes], cases: Mapping[str, bytes]) -> bytes:
    """Return an input by its name: `case NAME`, or the number of a damaged one."""
    if name.startswith("case "):
        return cases[name.removeprefix("case ")]
    data, repair = damaged(target.name, int(name), good)
    return target.repair(data) if repair else data


def _outcome(target: Target, data: bytes, scratch: Path, opened: list[str], seconds: float) -> dict[str, Any]:
    folder = _emptied(scratch / "input")
    target.write(folder, data)
    before = _listing(scratch)
    del opened[:]
    started = time.perf_counter(), time.process_time()
    kind, message = _call(target, folder, seconds)
    took = time.perf_counter() - started[0], time.process_time() - started[1]
    if _listing(scratch) != before or opened:
        kind, message = "wrote", f"{kind}: wrote {opened or 'into its folder'} ({message})"
    return {"kind": kind, "message": message, "wall": took[0], "cpu": took[1]}


def _call(target: Target, folder: Path, seconds: float) -> tuple[str, str]:
    try:
        with _limits(seconds):
            target.read(folder)
    except BuildError as error:
        if _lacked_memory(error):
            return "memory", f"a MemoryError became a sentence: {error}"
        sound = is_printable(str(error)) and str(error).endswith(".") and str(error).strip()
        return "refused" if sound else "message", str(error)
    except MemoryError:
        return "memory", _traceback()
    except BaseException:  # noqa: BLE001  whatever comes out of a reader is what is looked for
        return "traceback", _traceback()
    return "value", ""


@contextmanager
def _limits(seconds: float) -> Iterator[None]:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    used = int(Path("/proc/self/statm").read_text().split()[_DATA]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _lacked_memory(error: BaseException | None) -> bool:
    """Whether a sentence stands for a lack of memory: without the limit there would be none, but a full machine."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _traceback() -> str:
    return "".join(traceback.format_exc(limit=-6)).strip()[-1500:]


def _emptied(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


def _listing(folder: Path) -> list[tuple[str, int, int, int]]:
    """Everything below a folder: path, kind, size, time of the last change."""
    listing, pending = [], [os.fspath(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                state = entry.stat(follow_symlinks=False)
                listing.append((entry.path, state.st_mode, state.st_size, state.st_mtime_ns))
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return sorted(listing)


def _watch_writes() -> list[str]:
    """Note every path that Python opens to write, wherever it is: the listing only sees one folder."""
    opened: list[str] = []

    def watch(event: str, details: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(details[2], int) and details[2] & _WRITES and details[0] != os.devnull:
            opened.append(str(details[0]))

    sys.addaudithook(watch)
    return opened


if __name__ == "__main__":
    main()
