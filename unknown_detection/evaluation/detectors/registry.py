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
    one.name: one
    for family in _FAMILIES
    for one in vars(family).values()
    if isinstance(one, type) and issubclass(one, Detector) and one.name and one.__module__ == family.__name__
}
"""The class of each detector by its name, in the order of the families' modules and within them."""

_READS = {"features": "one pass", "members": "several models", "images": "a second pass over the images"}


def method(name: str, own: Mapping[str, type[Detector]] | None = None) -> type[Detector]:
    """Look up a detector's class."""
    known = {**METHODS, **(own or {})}
    require_known("detector", [name], known)
    return known[name]


def table() -> list[dict[str, str]]:
    """Describe every detector: its name, class, title, paper, what it needs and what it is fitted on, in words."""
    return [
        {
            "name": one.name,
            "class": one.__name__,
            "title": one.title,
            "paper": one.source,
            "needs": ", ".join([_READS[one.reads], *(["the last layer"] if one.reads_head else []), *one.requires])
            + (f"; the scores of {', '.join(one.base_methods)}" if one.base_methods else ""),
            "fitted on": "" if one.fits_on == "none" else one.fits_on,
            "searched": ", ".join(one.search),
        }
        for one in METHODS.values()
    ]
