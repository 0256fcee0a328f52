"""Evaluate detectors of unknowns on releases: metrics, detectors, protocols, reports.

Each step is also a command of `python -m unknown_detection evaluate`; `timm:resnet50.a1_in1k` with `pretrained=True`
is a model, too:

    >>> from unknown_detection.evaluation import auroc, extract, score
    >>> features = extract("build/unknown-detection", "model.py:cnn", "build/features", weights="weights.pt")
    >>> scores = score("build/features", ["msp", "knn"])
    >>> scores.column_names
    ['id', 'detector', 'score', 'prediction']

A metric takes scores and truth, whoever computed them; higher scores mean more unknown:

    >>> auroc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75

`score` takes detectors of your own beside names: a function of `Features`, an object with the method of `Detector`, or
a `Method`, which says how one is fitted and searched.

These names are the public interface. Each is imported on first use, so that `import evaluation` alone imports neither
NumPy and Arrow nor any optional package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import unknown_detection.starting  # noqa: F401  from here on, Ctrl-C is no traceback

if TYPE_CHECKING:
    from unknown_detection.evaluation.detectors.base import Detector, Method
    from unknown_detection.evaluation.errors import EvaluationError
    from unknown_detection.evaluation.features.extract import extract
    from unknown_detection.evaluation.metrics.metrics import aupr_in, aupr_out, aurc, auroc, fpr_at_95_tpr, oscr
    from unknown_detection.evaluation.models.features import Features, Head
    from unknown_detection.evaluation.releases import open_release
    from unknown_detection.evaluation.reports.evaluate import evaluate
    from unknown_detection.evaluation.reports.report import report
    from unknown_detection.evaluation.scoring.run import score

_DEFINED = {
    "detectors.base": ("Detector", "Method"),
    "errors": ("EvaluationError",),
    "features.extract": ("extract",),
    "metrics.metrics": ("aupr_in", "aupr_out", "aurc", "auroc", "fpr_at_95_tpr", "oscr"),
    "models.features": ("Features", "Head"),
    "releases": ("open_release",),
    "reports.evaluate": ("evaluate",),
    "reports.report": ("report",),
    "scoring.run": ("score",),
}
_MODULES = {name: module for module, names in _DEFINED.items() for name in names}
"""The public names with the module that defines each."""

__all__ = [
    "Detector",
    "EvaluationError",
    "Features",
    "Head",
    "Method",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "evaluate",
    "extract",
    "fpr_at_95_tpr",
    "open_release",
    "oscr",
    "report",
    "score",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"unknown_detection.evaluation.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
