"""Errors that the user can fix: one sentence on stderr, exit code 2; optional packages that are not installed.

Tested by `tests/evaluation/test_main.py`.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from builders import errors
from builders.errors import BuildError as BuildError
from builders.errors import one_line as one_line
from unknown_detection.names import by_name
from unknown_detection.words import NAMED, first_few


class EvaluationError(Exception):
    """An error that the user can fix.

    The message says what is wrong, where, and the next step. The command line prints it without a traceback and exits
    with code 2.
    """


class EvaluationWarning(UserWarning):
    """Says what a result lacks, why, and the next step; the command line prints it in a line of its own."""


@contextlib.contextmanager
def evaluation_errors() -> Iterator[None]:
    """Turn a `BuildError` of what reads and checks files for the whole project into an `EvaluationError`."""
    try:
        yield
    except BuildError as error:
        raise EvaluationError(str(error)) from error


_LISTED = 60
"""The longest list that an error shows as a whole, ours: libraries have thousands of models."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> EvaluationError:
    """Return the error for an unknown name, with the closest known names."""
    names = sorted(known)
    lower = {known.lower(): known for known in names}
    near = [lower[close] for close in difflib.get_close_matches(str(name).lower(), lower, n=3, cutoff=0.5)]
    listed = first_few(names, _LISTED if len(names) <= _LISTED else NAMED)
    others = f"choose one of {listed}" if names else "there is none"
    hint = f"the closest names are {', '.join(near)}" if near else others
    return EvaluationError(f"{one_line(repr(name), 300)} is not {_with_article(kind)}; {hint}.")


def require_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Check that names, of what `kind` says, are known; the error has the closest known names."""
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)


_NAME = re.compile(r"(?!all$)[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")
"""What commands can list, and files be named with; `all` stands for all."""


def require_name(kind: str, name: Any) -> None:
    """Check that what the user made, of what `kind` says, has a name that commands and files can have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        shown = one_line(repr(name), 60)
        raise EvaluationError(
            f"{shown} cannot be the name of {_with_article(kind)}. Name it with letters, digits, underscores and "
            "hyphens."
        )


_KINDS = {str: "a text", Real: "a number", Mapping: "a dictionary", list | tuple: "a list", Callable: "a function"}


def require_kinds(of: object, name: str, kinds: Mapping[str, Any]) -> None:
    """Check the kinds of what the user's object declares, by attribute, each one of `_KINDS`."""
    for attribute, kind in kinds.items():
        if not isinstance(declared := getattr(of, attribute), kind):
            raise EvaluationError(f"{attribute} of {name} is {a_kind(declared)}. Write it as {_KINDS[kind]}.")


def find_name(kind: str, name: str, known: Collection[str]) -> str:
    """Return a name as it is known, whatever its letters' case; the error has the closest known names."""
    found = by_name(known)(name)
    if found is None:
        raise unknown_name(kind, name, known)
    return found


def a_kind(value: object) -> str:
    """Return the name of a value's type for a message, with its article."""
    return _with_article(type(value).__name__)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"


def first_line(error: Exception) -> str:
    """Return the first line of another library's error for a message, without its full stop."""
    line = errors.first_line(error)
    return line if line.endswith("...") else line.removesuffix(".")  # dots of a shortened one stay


EXTRA = ("matplotlib", "safetensors", "sklearn", "timm", "torch", "torchvision")
"""Modules that the extra installs."""


def require_packages(*modules: str, to: str, instead: str = "") -> None:
    """Check that optional packages are installed, before any work starts; `EvaluationError` otherwise."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise EvaluationError(not_installed_message(missing, to, instead))


def not_installed_message(missing: Sequence[str], to: str, instead: str = "") -> str:
    """Return the message about packages that are not installed."""
    is_not, them = ("is not", "it") if len(missing) == 1 else ("are not", "them")
    return (
        f"{', '.join(missing)} {is_not} installed, but needed to {to}. Install {them} with "
        "pip install 'unknown-detection[evaluate]' (in a checkout: pip install -e '.[evaluate]')"
        f"{f', or {instead}' if instead else ''}."
    )
