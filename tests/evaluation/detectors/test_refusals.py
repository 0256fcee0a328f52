"""What a detector cannot be fitted on, and rows that it has no score for: `tests/sentences.txt` has what it says."""

import dataclasses

import numpy as np
import pytest

from tests.evaluation.detectors.toy import CLASSES, FITTED, HEAD, TESTED, WIDTH, toy_features
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
    SCALE,
    SHE,
    VRA,
    CADRef,
    CARef,
    DeepEnsemble,
    Mahalanobis,
    MahalanobisAll,
    MahalanobisFirst,
    MutualInformation,
    NegLabel,
    NNGuide,
    OpenMax,
    ViM,
    logits,
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
    ("equal weights of two classes", FDBD(), FITTED, TWICE),
    ("nothing outside the subspace", ViM(), FITTED.take(slice(5)), HEAD),
    *((f"{dimension} dimensions", ViM(dimension=dimension), FITTED, HEAD) for dimension in (-1, WIDTH, 2.5)),
    ("no feature that is kept", ASH(pruned=0.99), None, HEAD),
    ("no feature that is kept", SCALE(pruned=0.99), None, HEAD),
    ("a threshold above the other", VRA(lower=0.9, upper=0.5), FITTED, HEAD),
    ("no blocks", MahalanobisFirst(), changed(blocks=()), HEAD),
    ("no blocks", OODL(), changed(blocks=()), HEAD),
    ("equal rows of a block", OODL(), changed(blocks=(np.ones((160, 4)),)), HEAD),
    ("no scores to combine", DETECTORS["ens_r"].clone(), FITTED, HEAD),
    ("fewer rows than scores", DETECTORS["ens_f"].clone(), FITTED.take(slice(50)), HEAD),
    *((f"scores that are {value}", DETECTORS["ens_f"].clone(), value, HEAD) for value in (2.0, np.nan)),
    *(("no texts", detector, None, WITHOUT_TEXTS) for detector in (MCM(), GLMCM(), NegLabel())),
    ("no negative labels", NegLabel(), None, dataclasses.replace(HEAD, negatives=HEAD.negatives[:0])),
]
NOT_SCORED = [
    ("infinite logits", MSP(), INFINITE),
    ("a row at the mean", FDBD(), HALVES),
    ("a row at the mean", NCI(), HALVES),
    ("a row of zeros", CARef(), ZEROS),
    ("a row of zeros", CADRef(), ZEROS),
    ("features that are no activations", ASH(pruned=0.5), NEGATIVE),
    ("fewer blocks", MahalanobisAll(), changed(TESTED, blocks=TESTED.blocks[:2])),
    ("other blocks", MahalanobisAll(), changed(TESTED, blocks=(TESTED.blocks[1], *TESTED.blocks[1:]))),
    ("fewer blocks", OODL(depth=1.0), changed(TESTED, blocks=TESTED.blocks[:1])),
    ("other blocks", OODL(), changed(TESTED, blocks=TESTED.blocks[1:])),
    ("missing scores", DETECTORS["ens_f"].clone(), changed(TESTED, scores={})),
    ("one member", MutualInformation(), toy_features(members=1)),
    ("one member", DeepEnsemble(), toy_features(members=1)),
    ("members of other classes", MutualInformation(), changed(members=(FITTED.logits, FITTED.logits[:, :2]))),
]


def named(cases):
    return [f"{detector.name}: {what}" for what, detector, *_ in cases]


def with_scores(rows, energies=None):
    """Rows with the scores that Ens-F combines."""
    bases = DETECTORS["ens_f"].base_methods
    scores = {base: np.random.default_rng([7, place]).normal(size=len(rows)) for place, base in enumerate(bases)}
    return changed(rows, scores=scores if energies is None else {**scores, "energy": np.full(len(rows), energies)})


@pytest.mark.parametrize(("what", "detector", "fitted", "head"), NOT_FITTED, ids=named(NOT_FITTED))
def test_what_a_detector_is_not_fitted_on(what, detector, fitted, head, monkeypatch):
    if detector.requires:
        pytest.importorskip("sklearn", reason="scikit-learn fits it")
    if what == "too many covariances":
        monkeypatch.setattr(mahalanobis, "_MOST", 4000)
    if detector.name == "ens_f":
        fitted = with_scores(FITTED, fitted) if isinstance(fitted, float) else with_scores(fitted)
    with stops(EvaluationError, "text" if what == "no texts" else ""):
        detector.clone().fit(fitted, head)


@pytest.mark.parametrize(("what", "detector", "tested"), NOT_SCORED, ids=named(NOT_SCORED))
def test_rows_that_have_no_score(what, detector, tested):
    if detector.requires:
        pytest.importorskip("sklearn", reason="scikit-learn fits it")
    fitted = AROUND_HALF if tested is HALVES else with_scores(FITTED)
    fitted = detector.clone().fit(fitted, HEAD)
    with stops(EvaluationError, tested.ids[0] if len(tested) == 1 else ""):
        fitted.score(tested)


MODELS = [changed(logits=member, members=()) for member in FITTED.members]


@pytest.mark.parametrize(
    "other",
    [
        changed(MODELS[1], ids=FITTED.ids[::-1]),
        changed(MODELS[1], labels=FITTED.labels[::-1]),
        changed(MODELS[1], logits=FITTED.logits[:, :-1]),
        FITTED.take(slice(5)),
        None,
    ],
    ids=["ids", "labels", "classes", "rows", "no other"],
)
def test_models_of_other_rows_or_classes_are_not_averaged(other):
    with stops(EvaluationError):
        logits.average([MODELS[0], *([] if other is None else [other])])
