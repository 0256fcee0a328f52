"""Benchmarks for out-of-distribution (unknown) detection: build and load a release, score detectors, compute figures.

    >>> import unknown_detection as ud
    >>> release = ud.load("build/digits")  # or ORG/NAME on the Hub
    >>> features = ud.extract(model, release, "digits,digits-train", cache="build/digits-features")
    >>> scores = ud.score(features, ["msp", ud.detectors.KNN(k=50), lowest_logit])
    >>> figures = ud.evaluate(scores, release)
    >>> figures["detector"].unique().tolist()
    ['msp', 'knn', 'lowest_logit']

Here `model` is a torch module and `lowest_logit` a function of `Features`. Every step is also a command of
`unknown-detection`, and takes objects, folders and files alike. A metric takes scores and truth, whoever computed
them; higher scores mean more unknown, everywhere:

    >>> ud.auroc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75

Each name is imported on first use, so that `import unknown_detection` alone loads neither NumPy and Arrow nor any
optional package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import unknown_detection.starting  # noqa: F401  from here on, Ctrl-C is no traceback in a command of ours

if TYPE_CHECKING:
    from unknown_detection.evaluation import detectors, protocols
    from unknown_detection.evaluation.detectors.base import Detector
    from unknown_detection.evaluation.errors import BuildError, EvaluationError
    from unknown_detection.evaluation.evaluate import evaluate
    from unknown_detection.evaluation.features.extract import extract
    from unknown_detection.evaluation.metrics.metrics import (
        augrc,
        aupr_in,
        aupr_out,
        aurc,
        auroc,
        fpr_at_95_tpr,
        metric,
        oscr,
    )
    from unknown_detection.evaluation.models.features import Features, Head
    from unknown_detection.evaluation.models.text import TextModel
    from unknown_detection.evaluation.releases import load
    from unknown_detection.evaluation.report.report import report
    from unknown_detection.evaluation.run import run
    from unknown_detection.evaluation.scoring.run import score
    from unknown_detection.steps import build, compare, doctor, materialize, verify

_DEFINED = {
    "evaluation": ("detectors", "protocols"),
    "evaluation.detectors.base": ("Detector",),
    "evaluation.errors": ("BuildError", "EvaluationError"),
    "evaluation.features.extract": ("extract",),
    "evaluation.metrics.metrics": ("aupr_in", "aupr_out", "augrc", "aurc", "auroc", "fpr_at_95_tpr", "metric", "oscr"),
    "evaluation.models.features": ("Features", "Head"),
    "evaluation.models.text": ("TextModel",),
    "evaluation.releases": ("load",),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.report.report": ("report",),
    "evaluation.run": ("run",),
    "evaluation.scoring.run": ("score",),
    "steps": ("build", "compare", "doctor", "materialize", "verify"),
}
"""The public names by the module that defines them; those of `evaluation` are modules themselves."""

_MODULES = {name: module for module, names in _DEFINED.items() for name in names}

__all__ = [
    "BuildError",
    "Detector",
    "EvaluationError",
    "Features",
    "Head",
    "TextModel",
    "augrc",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "build",
    "compare",
    "detectors",
    "doctor",
    "evaluate",
    "extract",
    "fpr_at_95_tpr",
    "load",
    "materialize",
    "metric",
    "oscr",
    "protocols",
    "report",
    "run",
    "score",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name == "__version__":
        return importlib.import_module(f"{__name__}.commands").version()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{_MODULES[name]}"
    if _MODULES[name] == "evaluation":
        return importlib.import_module(f"{module}.{name}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    """List the public names, imported or not, and none of what this module imports for itself."""
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})
