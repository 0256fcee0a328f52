"""All detectors, by the names of the command line.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from unknown_detection.evaluation.detectors import (
    ensembles,
    images,
    logits,
    mahalanobis,
    members,
    neighbors,
    oodl,
    openmax,
    penultimate,
    shaping,
)
from unknown_detection.evaluation.detectors.base import Detector
from unknown_detection.evaluation.errors import require_known

_FAMILIES = (logits, images, members, openmax, shaping, penultimate, neighbors, mahalanobis, oodl, ensembles)

METHODS: dict[str, type[Detector]] = {
    kind.name: kind
    for family in _FAMILIES
    for kind in vars(family).values()
    if isinstance(kind, type) and issubclass(kind, Detector) and kind.name and kind.__module__ == family.__name__
}
"""The class of each detector by its name, in the order of the families' modules and within them."""

_READS = {"features": "one pass", "members": "several models", "images": "a second pass over the images"}


def find_method(name: str, own: Mapping[str, type[Detector]] | None = None) -> type[Detector]:
    """Return the class of a detector by its name, built in or among the user's `own`."""
    methods = {**METHODS, **(own or {})}
    require_known("detector", [name], methods)
    return methods[name]


def table() -> list[dict[str, str]]:
    """Describe every detector: its name, class, title, paper, what it needs and what it is fitted on, in words."""
    return [
        {
            "name": kind.name,
            "class": kind.__name__,
            "title": kind.title,
            "paper": kind.source,
            "needs": ", ".join([_READS[kind.reads], *(["the last layer"] if kind.reads_head else []), *kind.requires])
            + (f"; the scores of {', '.join(kind.base_methods)}" if kind.base_methods else ""),
            "fitted on": "" if kind.fits_on == "none" else kind.fits_on,
            "searched": ", ".join(kind.search),
        }
        for kind in METHODS.values()
    ]
