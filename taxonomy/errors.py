"""The error that a user of `taxonomy` can cause.

Tested by `tests/taxonomy/test_decisions.py`.
"""

import difflib
from collections.abc import Iterable


class TaxonomyError(ValueError):
    """A request that cannot be met; the message names the next step."""


ERRORS = (TaxonomyError, OSError)
"""The errors that the command lines show as messages: a wrong request, or a path that cannot be read or written."""

_MOST = 4  # suggested names; of more the first
_SHORTEST = 3  # letters of a text that is searched for inside of names


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x' or 'y'?)" for the known names that are close to a wrong one, or "" when none is.

    These are the names that begin with it, else those that contain it, else the one that is nearest by edits.
    """
    names = list(dict.fromkeys(known))
    close = [candidate for candidate in names if name and candidate.startswith(name)]
    close = close or [candidate for candidate in names if len(name) >= _SHORTEST and name in candidate]
    close = sorted(close)[:_MOST] or difflib.get_close_matches(name, names, n=1)
    quoted = [f"'{candidate}'" for candidate in close]
    return f" (did you mean {' or '.join(quoted)}?)" if close else ""
