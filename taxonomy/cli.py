"""Code shared by the command lines of this package.

Tested by `tests/taxonomy/test_main.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from taxonomy.errors import TaxonomyError

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class Refusal(click.ClickException):
    """A user's error: its message goes to stderr and the exit code is 2."""

    exit_code = 2


@contextmanager
def refusing() -> Iterator[None]:
    """Show a wrong request, or a path that cannot be read or written, as a message instead of a traceback."""
    try:
        yield
    except (TaxonomyError, OSError) as error:
        raise Refusal(str(error)) from error
