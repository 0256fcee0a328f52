"""Errors that the user can fix: a message without a traceback, and exit code 2.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from unknown_detection.words import printable


class BuildError(Exception):
    """A problem that the user can fix.

    The message says what is wrong, where, and what to do next. The command line prints it without a traceback and
    exits with code 2.
    """


def one_line(text: object, most: int = 300) -> str:
    r"""Return text of unknown origin for a message: on one line, cut after `most` characters, the rest escaped.

    Characters that do not print are escaped as by `unknown_detection.words.printable`, such as `\x1b`.
    """
    full = str(text)
    return printable(full if len(full) <= most else f"{full[:most]}...")


def first_line(error: Exception) -> str:
    """Return the first line of what an error of a library says, as `one_line`, or the name of its type."""
    return one_line(str(error).partition("\n")[0]) or type(error).__name__


@contextmanager
def os_errors_as_build_errors(doing: str) -> Iterator[None]:
    """Turn errors of the operating system (no space, no permission, no such folder) into a `BuildError`.

    Args:
        doing: the attempted action, as it follows "Cannot".
    """
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output, such as `head`, has seen enough: click ends the command without a word
    except OSError as error:
        # A file that is written has a temporary name (`builders.storage.files`), which nobody knows; of a link or a
        # file that is renamed, the second name is where it should have been.
        path = re.sub(r"/\.([^/]+)\.\d+\.tmp$", r"/\1", str(error.filename2 or error.filename or ""))
        reason = error.strerror or str(error)
        why = f"{path}: {reason[:1].lower()}{reason[1:]}" if path else reason
        raise BuildError(f"Cannot {doing}: {why}. Fix this and run the same command again.") from error
