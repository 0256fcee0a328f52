"""Ens-V, Ens-R and Ens-F: the paper's parts, and densities summed over components by SciPy."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from tests.evaluation.detectors.toy import toy_features
from unknown_detection.evaluation.detectors import DETECTORS, EnsF

pytest.importorskip("sklearn.mixture", reason="scikit-learn fits the mixture")


def scored(rows, seed, base_methods=EnsF.base_methods):
    features = toy_features(rows=rows, seed=seed)
    random = np.random.default_rng(seed)
    common = random.normal(size=rows)
    return dataclasses.replace(
        features, scores={part: common + random.gamma(2, 1 + i, size=rows) for i, part in enumerate(base_methods)}
    )


FITTED, TESTED = scored(500, 1), scored(40, 2)


def test_parts_are_those_of_the_paper():
    # BROAD, section 3, in its words; MDS_l is the last layer.
    paper = {
        "ens_v": "GradNorm, ODIN, MDS_all, MDS_l, CADet, Dice, MSP, Max logits",
        "ens_r": "GradNorm, ODIN, MDS_all, MDS_l, CADet, ReAct, ViM, D_alpha",
        "ens_f": "MSP, Max logits, MDS_all, MDS_l, EBO",
    }
    ours = {"MDS_l": "mahalanobis", "MDS_all": "mahalanobis_all", "D_alpha": "doctor", "EBO": "energy"}
    for name, words in paper.items():
        named = [ours.get(word, word.lower().replace(" ", "_")) for word in words.split(", ")]
        assert {*DETECTORS[name].base_methods} == {base.replace("logits", "logit") for base in named}


@pytest.mark.parametrize("components", [1, 3, 10])
def test_score_is_the_negated_log_density(components):
    detector = DETECTORS["ens_f"].clone(components=components).fit(FITTED)
    scaler, mixture = detector.mixture
    values = np.stack([TESTED.scores[part] for part in EnsF.base_methods], axis=1)
    standard = (values - scaler.mean_) / scaler.scale_
    density = sum(
        weight * stats.multivariate_normal(mean, covariance).pdf(standard)
        for weight, mean, covariance in zip(mixture.weights_, mixture.means_, mixture.covariances_, strict=True)
    )
    assert len(mixture.weights_) == components
    np.testing.assert_allclose(detector.score(TESTED), -np.log(density), rtol=1e-8)


def test_one_component_is_the_gaussian_of_the_rows_classified_right():
    right = FITTED.logits.argmax(axis=1) == FITTED.labels
    assert not right.all()
    fitted = np.stack([FITTED.scores[part][right] for part in EnsF.base_methods], axis=1)
    tested = np.stack([TESTED.scores[part] for part in EnsF.base_methods], axis=1)
    gaussian = stats.multivariate_normal(fitted.mean(axis=0), np.cov(fitted.T, ddof=0))
    scores = DETECTORS["ens_f"].clone(components=1).fit(FITTED).score(TESTED)
    # Standardizing adds the logarithm of the deviations to every row; scikit-learn adds 1e-6 to every variance.
    difference = scores + gaussian.logpdf(tested)
    np.testing.assert_allclose(difference, -np.log(fitted.std(axis=0)).sum(), atol=1e-3)


def test_scores_that_are_all_equal_tell_nothing():
    """The density along them is one constant: those of rows differ by as much as without them."""

    def constant(rows, value):
        return dataclasses.replace(rows, scores={**rows.scores, "energy": np.full(len(rows), value)})

    first, other = (
        DETECTORS["ens_f"].clone(components=1).fit(constant(FITTED, value)).score(constant(TESTED, value))
        for value in (0.0, 2.0)
    )
    np.testing.assert_allclose(first, other, rtol=1e-12)
    assert len(np.unique(first)) == len(TESTED)


def test_the_fit_is_repeatable_and_follows_its_seed():
    first, repeated, other = (DETECTORS["ens_f"].clone(seed=seed).fit(FITTED).score(TESTED) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, repeated)
    assert not np.array_equal(first, other)
