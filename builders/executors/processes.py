"""Start-up of commands and workers: nothing is imported that they do not use, and no worker outlives its parent."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import wait
from types import ModuleType

import pyarrow as pa


class _NoPandas:
    """A finder that says there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=name)


def without_pandas() -> None:
    """Keep pyarrow from importing pandas, in a process that runs nothing but a build.

    pyarrow looks for pandas once, at the first array that it makes, and imports it where it is installed (`datasets`
    brings it). No step of a build uses it, and the import takes longer than everything else that a worker loads: 0.4
    s and 40 MB. Afterwards Arrow tables of this process do not convert to pandas, so this is for commands and
    workers, never for a function that somebody else's process may call.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


def end_with_parent() -> None:
    """End this worker when its parent is killed, so that no orphan goes on in a folder that a rerun has locked."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
