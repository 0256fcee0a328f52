"""ViM and its residual, NECO, CoP and CoRP against NumPy's decompositions and scikit-learn's components."""

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.evaluation.detectors.toy import FITTED, HEAD, TESTED, WIDTH, assert_scores, toy_features, units
from unknown_detection.evaluation.detectors import NECO, CoP, CoRP, Residual, ViM, subspace
from unknown_detection.evaluation.models.features import Head


@pytest.mark.parametrize("dimension", [0, 1, 6, 11, None])
def test_residual_and_vim_are_what_the_principal_directions_leave(dimension):
    """By a singular value decomposition; ViM is the virtual logit less the energy."""
    origin = -np.linalg.pinv(HEAD.weight.astype(float)) @ HEAD.bias.astype(float)
    dimensions = WIDTH // 2 if dimension is None else dimension
    principal = np.linalg.svd(FITTED.penultimate.astype(float) - origin)[2][:dimensions]

    def residuals(features):
        differences = features.penultimate.astype(float) - origin
        return np.array([np.linalg.norm(d - principal.T @ (principal @ d)) for d in differences])

    assert_scores(Residual(dimension=dimension), residuals(TESTED), 1e-9)
    alpha = np.mean(FITTED.logits.max(axis=1).astype(float)) / np.mean(residuals(FITTED))
    expected = alpha * residuals(TESTED) - logsumexp(TESTED.logits.astype(float), axis=1)
    assert_scores(ViM(dimension=dimension), expected, 1e-9)


@pytest.mark.parametrize(("width", "dimension"), [(2048, 1000), (768, 512), (1024, 512), (512, 256), (10, 5)])
def test_principal_dimension_is_that_of_the_authors(width, dimension):
    assert subspace._principal_dimension(width) == dimension


@pytest.mark.parametrize("classes", [4, WIDTH, 20])
@pytest.mark.parametrize("equal_rows", [False, True])
def test_the_origin_is_the_pseudoinverses(classes, equal_rows):
    random = np.random.default_rng(0)
    weight, bias = random.standard_normal((classes, WIDTH)), random.standard_normal(classes)
    if equal_rows:
        weight[-1] = weight[0]
        weight[:, -1] = weight[:, 0]
    fitted = dataclasses.replace(FITTED, logits=random.standard_normal((len(FITTED), classes)))
    detector = Residual().fit(fitted, Head(weight, bias))
    np.testing.assert_allclose(detector.origin, -np.linalg.pinv(weight) @ bias, rtol=1e-9, atol=1e-12)


def test_the_residual_of_a_single_feature_is_its_distance_from_the_origin():
    """Zero dimensions are principal, and -W^+ b is 2 for W = (1, 2) and b = (-2, -4): |3 - 2| = 1."""
    fitted = dataclasses.replace(
        toy_features(rows=2), labels=np.array([0, 1]), logits=np.eye(2), penultimate=np.array([[9.0], [8.0]])
    )
    head = Head(np.array([[1.0], [2.0]]), np.array([-2.0, -4.0]))
    tested = dataclasses.replace(fitted.take([0]), penultimate=np.array([[3.0]]))
    np.testing.assert_allclose(Residual(dimension=0).fit(fitted, head).score(tested), [1.0])


def components_of(fitted, explained):
    """Scikit-learn's fitted components, and how many hold that share of the variance."""
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn finds the components")
    components = decomposition.PCA(svd_solver="full").fit(fitted)
    return components, np.flatnonzero(np.cumsum(components.explained_variance_ratio_) >= explained)[0] + 1


@pytest.mark.parametrize("times_logit", [1, 0])
@pytest.mark.parametrize("explained", [0.3, 0.9, 0.99])
def test_neco_is_the_share_of_the_length_in_the_first_components(explained, times_logit):
    preprocessing = pytest.importorskip("sklearn.preprocessing", reason="scikit-learn standardizes")
    scaler = preprocessing.StandardScaler()
    components, count = components_of(scaler.fit_transform(FITTED.penultimate.astype(float)), explained)
    standard = scaler.transform(TESTED.penultimate.astype(float))
    expected = np.linalg.norm(components.transform(standard)[:, :count], axis=1) / np.linalg.norm(standard, axis=1)
    logits = TESTED.logits.max(axis=1) if times_logit else 1
    assert_scores(NECO(explained=explained, times_logit=times_logit), -expected * logits, 1e-8)


def test_a_constant_feature_and_a_row_at_the_mean_are_no_hindrance():
    z = FITTED.penultimate.astype(float)
    z[:, 0] = 3.0
    fitted = NECO().fit(dataclasses.replace(FITTED, penultimate=z))
    at_mean = dataclasses.replace(TESTED.take([0]), penultimate=fitted.mean[None])
    assert fitted.mean.shape == (WIDTH,)
    assert fitted.score(at_mean).tolist() == [0.0]


def errors(fitted, tested, explained):
    """The norm of what the first principal components leave of each tested row."""
    components, count = components_of(fitted, explained)
    centred, basis = tested - components.mean_, components.components_[:count]
    return np.linalg.norm(centred - centred @ basis.T @ basis, axis=1)


@pytest.mark.parametrize("explained", [0.5, 0.85, 0.99])
def test_cop_is_the_reconstruction_error_of_directions(explained):
    assert_scores(CoP(explained=explained), errors(units(FITTED), units(TESTED), explained), 1e-8)


@pytest.mark.parametrize("explained", [0.5, 0.9])
def test_corp_is_that_of_random_fourier_features(explained):
    detector = CoRP(explained=explained, frequencies=40).fit(FITTED)
    fitted, tested = (
        np.sqrt(2 / 40) * np.cos(units(features) @ detector.weight + detector.phase) for features in (FITTED, TESTED)
    )
    np.testing.assert_allclose(detector.score(TESTED), errors(fitted, tested, explained), rtol=1e-8)


@pytest.mark.parametrize("gamma", [0.5, 3.0])
def test_inner_products_of_the_random_features_are_the_gaussian_kernel(gamma):
    """Within five standard errors of the mean of 2 cos a cos b over the frequencies, at most 2 / sqrt(M)."""
    detector = CoRP(gamma=gamma, frequencies=20_000)
    random = np.random.default_rng(detector.seed)
    detector.weight = np.sqrt(2 * gamma) * random.standard_normal((WIDTH, 20_000))
    detector.phase = 2 * np.pi * random.random(20_000)
    mapped, rows = detector._map(TESTED.penultimate[:8].astype(float)), units(TESTED)[:8]
    kernel = np.exp(-gamma * ((rows[:, None] - rows) ** 2).sum(axis=2))
    np.testing.assert_allclose(mapped @ mapped.T, kernel, atol=10 / np.sqrt(20_000))


def test_another_seed_draws_other_frequencies():
    one, same, other = (CoRP(seed=seed).fit(FITTED).score(TESTED) for seed in (0, 0, 1))
    assert one.tolist() == same.tolist() != other.tolist()
