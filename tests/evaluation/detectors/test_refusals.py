"""What a detector cannot be fitted on, and rows that it has no score for: `tests/sentences.txt` has what it says."""

import dataclasses

import numpy as np
import pytest

from tests.evaluation.detectors.toy import CLASSES, FITTED, HEAD, TESTED, WIDTH
from tests.sentences import stops
from unknown_detection.evaluation.detectors import (
    ASH,
    DETECTORS,
    FDBD,
    GLMCM,
    GMM,
    KNN,
    MCM,
    MSP,
    NCI,
    OODL,
    SHE,
    CADRef,
    CARef,
    Mahalanobis,
    MahalanobisFirst,
    NegLabel,
    NNGuide,
    OpenMax,
    ViM,
    mahalanobis,
)
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Head


def changed(rows=FITTED, **fields):
    return dataclasses.replace(rows, **fields)


def few(of_class, count):
    """Fitted rows, with fewer of a class."""
    own = FITTED.labels == of_class
    return FITTED.take(~own | (np.cumsum(own) <= count))


ONE = TESTED.take([0])
ZEROS, HALVES = changed(ONE, penultimate=np.zeros((1, WIDTH))), changed(ONE, penultimate=np.full((1, WIDTH), 0.5))
# The mean is 0.5 without rounding.
AROUND_HALF = changed(penultimate=np.repeat([[0.0], [1.0]], len(FITTED) // 2, axis=0) * np.ones(WIDTH))
# With a half pruned, the six kept add up to -0.01, all twelve to -12.01: exp(1201) is infinite.
NEGATIVE = changed(ONE, penultimate=np.array([[1, 1, 1, -1, -1, -1.01, *[-2] * 6]]))
INFINITE = changed(ONE, logits=np.array([[0, 0, np.inf, 0]]))
PAIR = changed(FITTED.take(slice(8)), labels=np.repeat([0, 1], 4), logits=np.eye(2).repeat(4, axis=0) * 5.0)
EQUAL = changed(penultimate=np.ones((len(FITTED), WIDTH)) * (FITTED.labels % 2)[:, None])
TWICE = Head(HEAD.weight[[0, 1, 0, 3]], HEAD.bias)
WITHOUT_TEXTS = dataclasses.replace(HEAD, negatives=None)
LARGE = changed(penultimate=FITTED.penultimate.astype(float) * 1e8).take(slice(2 * CLASSES))

NOT_FITTED = [
    ("as many neighbours as rows", KNN(k=161), FITTED, HEAD),
    ("no neighbours", NNGuide(k=0), FITTED, HEAD),
    ("no row of a class", SHE(), few(2, 0), HEAD),
    ("one row of two classes", Mahalanobis(), FITTED.take(FITTED.labels % 2 == 0), HEAD),
    ("two rows of a class", OpenMax(), few(1, 2), HEAD),
    ("equal distances", OpenMax(), PAIR, None),
    ("no distance", OpenMax(euclidean_weight=0, cosine_weight=0), FITTED, HEAD),
    ("rows that do not differ", Mahalanobis(), EQUAL, HEAD),
    ("a singular covariance", GMM(), LARGE, HEAD),
    ("too many covariances", GMM(), FITTED, HEAD),
    ("nothing outside the subspace", ViM(), FITTED.take(slice(5)), HEAD),
    *((f"{dimension} dimensions", ViM(dimension=dimension), FITTED, HEAD) for dimension in (-1, WIDTH, 2.5)),
    ("no blocks", MahalanobisFirst(), changed(blocks=()), HEAD),
    ("no blocks", OODL(), changed(blocks=()), HEAD),
    ("fewer rows than scores", DETECTORS["ens_f"].clone(), FITTED.take(slice(50)), HEAD),
    *(("no texts", detector, None, WITHOUT_TEXTS) for detector in (MCM(), GLMCM(), NegLabel())),
    ("no negative labels", NegLabel(), None, dataclasses.replace(HEAD, negatives=HEAD.negatives[:0])),
]
NOT_SCORED = [
    ("infinite logits", MSP(), INFINITE),
    ("a row at the mean", FDBD(), HALVES),
    ("a row at the mean", NCI(), HALVES),
    ("a row of zeros", CARef(), ZEROS),
    ("a row of zeros", CADRef(), ZEROS),
    ("a class like the predicted one", FDBD(), changed(ONE, penultimate=HEAD.weight[[0]])),
    ("features that are no activations", ASH(pruned=0.5), NEGATIVE),
]


def named(cases):
    return [f"{detector.name}: {what}" for what, detector, *_ in cases]


def with_scores(rows):
    """Rows with the scores that Ens-F combines."""
    bases = DETECTORS["ens_f"].base_methods
    scores = {base: np.random.default_rng([7, place]).normal(size=len(rows)) for place, base in enumerate(bases)}
    return changed(rows, scores=scores)


@pytest.mark.parametrize(("what", "detector", "fitted", "head"), NOT_FITTED, ids=named(NOT_FITTED))
def test_what_a_detector_is_not_fitted_on(what, detector, fitted, head, monkeypatch):
    if detector.requires:
        pytest.importorskip("sklearn", reason="scikit-learn fits it")
    if what == "too many covariances":
        monkeypatch.setattr(mahalanobis, "_MOST", 4000)
    if detector.name == "ens_f":
        fitted = with_scores(fitted)
    with stops(EvaluationError, "text" if what == "no texts" else ""):
        detector.clone().fit(fitted, head)


@pytest.mark.parametrize(("what", "detector", "tested"), NOT_SCORED, ids=named(NOT_SCORED))
def test_rows_that_have_no_score(what, detector, tested):
    if detector.requires:
        pytest.importorskip("sklearn", reason="scikit-learn fits it")
    fitted = AROUND_HALF if tested is HALVES else with_scores(FITTED)
    fitted = detector.clone().fit(fitted, TWICE if what == "a class like the predicted one" else HEAD)
    with stops(EvaluationError, tested.ids[0] if len(tested) == 1 else ""):
        fitted.score(tested)
