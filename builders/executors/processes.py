"""What processes that run tasks share: they keep pandas out, and pickle a task's answer.

Tested by `tests/builders/executors/test_local.py`.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from builders.executors.base import Progress


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
    sys.meta_path.insert(0, _NoPandas)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


def answer(task: bytes, progress: Progress) -> bytes:
    """Run a pickled task and pickle its answer: whether it succeeded, and its result or exception.

    An exception has the traceback as a note; of one that cannot be pickled that alone is left.
    """
    try:
        return pickle.dumps((True, pickle.loads(task).run(progress)))
    except Exception as error:  # noqa: BLE001 - the caller raises it
        text = "".join(traceback.format_exception(error))
        error.add_note(f"\nIn the worker:\n{text}")
        try:
            data = pickle.dumps((False, error))
            pickle.loads(data)
        except Exception:  # noqa: BLE001 - pickling runs code of the exception's class
            return pickle.dumps((False, RuntimeError(f"A task raised an exception that cannot be pickled:\n{text}")))
        return data
