"""What a person did or has that the build cannot work with: one sentence, exit code 2.

Tested by `tests/builders/pipeline/test_command.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

NAMED = 3
"""How many of many things a sentence names."""


class BuildError(Exception):
    """A problem the user can mend.

    The message is one sentence that says what was expected, what was found, where, and the next step. The command line
    prints it without a traceback and exits with code 2.
    """


def more(names: Sequence[object], named: int = NAMED) -> str:
    """The end of a list that names only the first of its things; empty where that is all of them."""
    return f" and {len(names) - named:,} more" if len(names) > named else ""


@contextmanager
def explaining_disk(doing: str) -> Iterator[None]:
    """Turn what the operating system refuses (no space, no permission, no such folder) into one sentence.

    Args:
        doing: what was attempted, to stand after "expected to".
    """
    try:
        yield
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        raise BuildError(
            f"expected to {doing}, found {error.strerror or error}{where}; mend that and run the same command again, "
            "which goes on where this run stopped."
        ) from error
