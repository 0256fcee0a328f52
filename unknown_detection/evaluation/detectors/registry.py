"""The registry of all detection methods."""

from __future__ import annotations

from collections.abc import Mapping

from unknown_detection.evaluation.detectors import (
    ensembles,
    guidance,
    images,
    logits,
    mahalanobis,
    members,
    neighbors,
    oodl,
    openmax,
    penultimate,
    posterior,
    shaping,
)
from unknown_detection.evaluation.detectors.base import Method
from unknown_detection.evaluation.errors import require_known

_FAMILIES = (
    logits,
    images,
    members,
    posterior,
    openmax,
    shaping,
    penultimate,
    neighbors,
    guidance,
    mahalanobis,
    oodl,
    ensembles,
)

METHODS: dict[str, Method] = {
    value.name: value for family in _FAMILIES for value in vars(family).values() if isinstance(value, Method)
}
"""Every `Method` that a family's module defines, by name, in the order of the modules and within them."""


def method(name: str, own: Mapping[str, Method] | None = None) -> Method:
    """Look up a method.

    Raises:
        EvaluationError: there is no method of this name; the message suggests similar ones.
    """
    known = {**METHODS, **(own or {})}
    require_known("detector", [name], known)
    return known[name]
