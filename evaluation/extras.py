"""Packages that only some commands need: those of the extra `evaluate`.

Tested by `tests/evaluation/test_main.py`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from evaluation.errors import EvaluationError

EXTRA = (
    "matplotlib",
    "networkx",
    "pytorch_ood",
    "safetensors",
    "sklearn",
    "threadpoolctl",
    "timm",
    "torch",
    "torchvision",
)
"""Modules that the extra brings."""


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
        raise EvaluationError(without(missing, to, instead))


def without(missing: Sequence[str], to: str, instead: str = "") -> str:
    """The sentence on packages that are not installed."""
    found = "it" if len(missing) == 1 else "them"
    return (
        f"expected {', '.join(missing)} to {to}, found {found} not installed; install {found} with "
        "pip install 'unknown-detection[evaluate]' (in a checkout: pip install -e '.[evaluate]')"
        f"{f', or {instead}' if instead else ''}."
    )
