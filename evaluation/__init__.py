"""Evaluate detectors of unknowns on releases: metrics, detectors, protocols, reports.

The names in `__all__` are the public interface. Each is imported on first use, so that `import evaluation` alone
imports neither NumPy and Arrow nor any optional package:

    from evaluation import auroc, evaluate, fpr_at_95_tpr, open_release, score

    auroc(scores, unknown)                                # a metric; higher scores mean more unknown
    table = score("build/features", ["msp", "knn"])       # after `python -m evaluation extract`
    figures = evaluate(["scores.csv"], open_release("build/unknown-detection"), configs=["cifar"])

A detector of your own is any object with the method of `Detector`, or a file with the columns `id` and `score`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluation.detectors.base import Detector, Method
    from evaluation.detectors.registry import METHODS
    from evaluation.errors import EvaluationError
    from evaluation.metrics.calibration import ece
    from evaluation.metrics.metrics import (
        METRICS,
        Metric,
        all_metrics,
        aupr_in,
        aupr_out,
        aurc,
        auroc,
        balanced_accuracy,
        detection_error,
        eaurc,
        fpr_at_95_tpr,
        interpolated_fpr_at_95_tpr,
        least_detection_error,
        least_detection_error_at_95_tpr,
        oscr,
        risk_coverage,
    )
    from evaluation.models.features import Features, Head
    from evaluation.protocols.registry import PROTOCOLS
    from evaluation.protocols.results import read_figures
    from evaluation.releases import Release, open_release
    from evaluation.reports.report import evaluate, report
    from evaluation.scoring.run import score
    from evaluation.scoring.scores import Provenance, read_scores, write_scores

__all__ = [
    "METHODS",
    "METRICS",
    "PROTOCOLS",
    "Detector",
    "EvaluationError",
    "Features",
    "Head",
    "Method",
    "Metric",
    "Provenance",
    "Release",
    "all_metrics",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "balanced_accuracy",
    "detection_error",
    "eaurc",
    "ece",
    "evaluate",
    "fpr_at_95_tpr",
    "interpolated_fpr_at_95_tpr",
    "least_detection_error",
    "least_detection_error_at_95_tpr",
    "open_release",
    "oscr",
    "read_figures",
    "read_scores",
    "report",
    "risk_coverage",
    "score",
    "write_scores",
]

_MODULES = {
    "evaluation.detectors.base": (
        "Detector",
        "Method",
    ),
    "evaluation.detectors.registry": ("METHODS",),
    "evaluation.errors": ("EvaluationError",),
    "evaluation.models.features": (
        "Features",
        "Head",
    ),
    "evaluation.metrics.calibration": ("ece",),
    "evaluation.metrics.metrics": (
        "METRICS",
        "Metric",
        "all_metrics",
        "aupr_in",
        "aupr_out",
        "aurc",
        "auroc",
        "balanced_accuracy",
        "detection_error",
        "eaurc",
        "fpr_at_95_tpr",
        "interpolated_fpr_at_95_tpr",
        "least_detection_error",
        "least_detection_error_at_95_tpr",
        "oscr",
        "risk_coverage",
    ),
    "evaluation.protocols.registry": ("PROTOCOLS",),
    "evaluation.releases": (
        "Release",
        "open_release",
    ),
    "evaluation.reports.report": (
        "evaluate",
        "report",
    ),
    "evaluation.protocols.results": ("read_figures",),
    "evaluation.scoring.run": ("score",),
    "evaluation.scoring.scores": (
        "Provenance",
        "read_scores",
        "write_scores",
    ),
}
"""The public names by the module that defines them."""


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
