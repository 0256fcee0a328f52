"""Packages that only some commands need: those of the extra `evaluate`."""

from __future__ import annotations

import importlib.util

from evaluation.errors import EvaluationError


def need(*modules: str, to: str, instead: str = "") -> None:
    """Refuse to begin what would break off for want of a package.

    Args:
        modules: names that will be imported.
        to: what they are needed for, after "to".
        instead: what else could be done, in the imperative.

    Raises:
        EvaluationError: one is not installed.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        found = "it" if len(missing) == 1 else "them"
        raise EvaluationError(
            f"expected {', '.join(missing)} to {to}, found {found} not installed; install this project with its extra "
            f"(pip install -e '.[evaluate]'){f', or {instead}' if instead else ''}."
        )
