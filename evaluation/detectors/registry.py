"""The registry of all detection methods."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.detectors import (
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
from evaluation.detectors.base import Method
from evaluation.errors import unknown_name

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        logits.MSP,
        logits.TEMPERATURE,
        logits.MAX_LOGIT,
        images.ODIN,
        images.ODIN_MAX_LOGIT,
        logits.ENERGY,
        logits.ENTROPY,
        logits.MARGIN,
        images.MC_DROPOUT,
        images.MC_DROPOUT_MI,
        members.MUTUAL_INFORMATION,
        members.DEEP_ENSEMBLE,
        logits.DOCTOR,
        logits.LOGIT_NORM,
        posterior.GEN,
        posterior.KL_MATCHING,
        openmax.OPENMAX,
        shaping.REACT,
        shaping.DICE,
        shaping.ASH,
        shaping.ASH_B,
        shaping.ASH_P,
        shaping.SCALE,
        penultimate.SHE,
        penultimate.VIM,
        penultimate.RESIDUAL,
        neighbors.KNN,
        guidance.NNGUIDE,
        penultimate.GRADNORM,
        penultimate.FDBD,
        mahalanobis.MAHALANOBIS,
        mahalanobis.MAHALANOBIS_FIRST,
        mahalanobis.MAHALANOBIS_ALL,
        mahalanobis.MAHALANOBIS_LOGITS,
        mahalanobis.RMDS,
        neighbors.RELATION,
        images.CADET,
        images.RANKFEAT,
        oodl.OODL,
        ensembles.ENS_V,
        ensembles.ENS_R,
        ensembles.ENS_F,
    )
}


def method(name: str, own: Mapping[str, Method] | None = None) -> Method:
    """Look up a method.

    Args:
        name: name on the command line.
        own: methods of the user's own, by name.

    Raises:
        EvaluationError: there is no method of this name; the message suggests similar ones.
    """
    known = {**METHODS, **(own or {})}
    if name not in known:
        raise unknown_name("detector", name, known)
    return known[name]
