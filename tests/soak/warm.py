"""A process that has imported every command, and forks one that runs it: a second less for each command.

The forked process leads a session of its own, has the environment of a command that was just started, and ends as one
does. Requests come as lines of JSON on stdin; the answers on stdout are the process's number, then its exit code.
Waits between attempts to reach the Hub are a twentieth as long as for users.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from builders.executors.base import without_pandas
from tests.soak.moments import Strike, watch

HASTE = 20
"""Divides the waits between attempts to reach the Hub (ours)."""

MODULES = (
    "builders.imagenet_benchmark",
    "builders.cifar_benchmark",
    "builders.facets_benchmark",
    "builders.broad_benchmark",
    "hf_scripts.push",
    "hf_scripts.materialize",
    "hf_scripts.export",
    "hf_scripts.verify",
)
"""The commands."""

_IMPORTED_LATE = (
    "builders.commands.build",
    "builders.pipeline.from_index",
    "builders.hub.client",
    "builders.hub.repository",
    "hf_scripts.publish.commit",
    "hf_scripts.publish.merged_release",
    "huggingface_hub.hf_api",
    "datasets",
)
"""Modules that commands import once they need them."""


def serve() -> int:
    """Fork a process for every request until stdin ends. In such a process, return the command's exit code."""
    without_pandas()
    for name in (*MODULES, *_IMPORTED_LATE):
        importlib.import_module(name)
    if threading.active_count() > 1:  # those of jemalloc and OpenBLAS are not Python's, and prepared for forks
        raise RuntimeError(f"threads run beside the one that forks: {threading.enumerate()}")
    gc.collect()
    gc.freeze()  # else each forked process collects all objects as it ends, which takes longer than most commands
    for line in sys.stdin:
        request = json.loads(line)
        forked = os.fork()
        if not forked:
            return _become(request)
        print(forked, flush=True)
        _, status = os.waitpid(forked, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return 0


def _become(request: dict[str, Any]) -> int:
    """Become the process of a command, and run it."""
    os.setsid()
    logs = [f"{request['log']}.{name}" for name in ("out", "err")]
    files = [os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) for log in logs]
    for number, opened in enumerate([os.open(os.devnull, os.O_RDONLY), *files]):
        os.dup2(opened, number)
        os.close(opened)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # of TMPDIR
    module = importlib.import_module(request["module"])
    sys.argv = [str(module.__file__), *request["arguments"]]
    sys.orig_argv = [sys.executable, "-m", request["module"], *request["arguments"]]
    from unknown_detection.terminal import interrupts

    interrupts.watch()
    if request["file_bytes"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_bytes"], resource.RLIM_INFINITY))
    if request["trace"] or request["strike"]:
        watch(request["folder"], request["trace"], Strike(**request["strike"]) if request["strike"] else None)
    with _at(request["hub"], Path(request["environment"]["HOME"])):
        return int(module.main(request["arguments"]))


@contextlib.contextmanager
def _at(hub: dict[str, str] | None, home: Path) -> Any:
    """Point the clients of this process at a stand-in, and let them wait less."""
    if hub is None:
        yield
        return
    import huggingface_hub.file_download
    import huggingface_hub.utils._http

    from builders.hub import retry
    from tests.hub.client import in_process

    clock = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / HASTE))
    retry.sleep = clock.sleep
    huggingface_hub.utils._http.time = clock
    huggingface_hub.file_download.time = clock
    huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT = huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT = 2
    with in_process(SimpleNamespace(**hub), home):
        yield


if __name__ == "__main__":
    sys.exit(serve())
