"""What makes a process of ours ready sooner."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
