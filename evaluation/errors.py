"""What a person did or has that an evaluation cannot work with: one sentence, exit code 2.

Tested by `tests/evaluation/test_main.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EvaluationError(Exception):
    """A problem the user can mend.

    The message is one sentence that says what was expected, what was found, where, and the next step. The command line
    prints it without a traceback and exits with code 2.
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> EvaluationError:
    """The error for a name that does not exist, with the nearest that do.

    Args:
        kind: what was named, such as "detector".
        name: what was given.
        known: all names there are.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"the nearest are {', '.join(near)}" if near else f"there are {', '.join(names)}"
    return EvaluationError(f"expected the name of a {kind}, found {name!r}; {hint}.")


def first_line(error: BaseException) -> str:
    """What another library's error says, fit for the middle of a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
