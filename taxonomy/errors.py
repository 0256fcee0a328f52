"""The error that a user of `taxonomy` can cause.

Tested by `tests/taxonomy/test_decisions.py`.
"""

import difflib
from collections.abc import Iterable


class TaxonomyError(ValueError):
    """A request that cannot be met; the message names the next step."""


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the known name closest to `wrong`, or "" when none is close."""
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""
