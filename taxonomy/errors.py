"""The error that a user of `taxonomy` can cause.

Tested by `tests/taxonomy/test_decisions.py`.
"""

import difflib
from collections.abc import Iterable


class TaxonomyError(ValueError):
    """A request that cannot be met; the message names the next step."""


ERRORS = (TaxonomyError, OSError)
"""What the command lines show as a message: a wrong request, or a path that cannot be read or written."""

_MOST = 4  # names suggested; of more the first
_SHORTEST = 3  # letters that are looked for inside of names


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x' or 'y'?)" for the known names that `wrong` may stand for, or "" when none is close.

    Names that begin with it come before names that contain it, and these before the one that is nearest by edits.
    """
    names = list(dict.fromkeys(known))
    begun = [name for name in names if wrong and name.startswith(wrong)]
    close = begun or [name for name in names if len(wrong) >= _SHORTEST and wrong in name]
    close = sorted(close)[:_MOST] or difflib.get_close_matches(wrong, names, n=1)
    shown = [f"'{name}'" for name in close]
    return f" (did you mean {' or '.join(shown)}?)" if close else ""
