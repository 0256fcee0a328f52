"""What a person did or has that the build cannot work with: one sentence, exit code 2."""

from __future__ import annotations


class BuildError(Exception):
    """A problem the user can mend.

    The message is one sentence that says what was expected, what was found, where, and the next step. The command line
    prints it without a traceback and exits with code 2.
    """
