"""Start-up of commands and workers: keeps unused imports out, and ends workers with their parent."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import wait
from types import ModuleType


class _NoPandas:
    """An import finder that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=name)


def without_pandas() -> None:
    """Keep pyarrow from importing pandas in this process.

    pyarrow looks for pandas once, when it creates its first array, and imports it if it is installed (`datasets`
    depends on it). No step of a build uses pandas, and its import costs more than everything else that a worker loads:
    0.4 s and 40 MB. Afterwards this process cannot convert Arrow tables to pandas, so only commands and workers may
    call this function, never a library function that runs in a user's process.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


def end_with_parent() -> None:
    """End this worker when its parent is killed, so that no orphan writes to a folder that a rerun has locked."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
