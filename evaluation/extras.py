"""Checks for optional packages: those of the extra `evaluate`.

Tested by `tests/evaluation/test_main.py`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from evaluation.errors import EvaluationError

EXTRA = (
    "matplotlib",
    "networkx",
    "safetensors",
    "sklearn",
    "timm",
    "torch",
    "torchvision",
)
"""Modules that the extra installs."""


def require_packages(*modules: str, to: str, instead: str = "") -> None:
    """Check that optional packages are installed, before any work starts.

    Raises:
        EvaluationError: a package is not installed.
    """
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
