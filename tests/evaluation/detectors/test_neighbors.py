"""Nearest neighbours, their guidance and relations against loops over all pairs."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax
from scipy.stats import yeojohnson
from threadpoolctl import threadpool_limits

from tests.evaluation.detectors.toy import TESTED, assert_scores, toy_features
from tests.evaluation.detectors.toy import units as directions
from tests.sentences import stops
from unknown_detection.evaluation.detectors import KNN, CombOOD, NNGuide, Relation, nearest, neighbors
from unknown_detection.evaluation.errors import EvaluationError

FITTED = toy_features(rows=120, seed=1)


def distances(fitted, tested):
    """From each tested direction to all fitted ones, ascending."""
    return np.sort(cdist(directions(tested), directions(fitted)), axis=1)


@pytest.fixture(params=["numpy", "torch"])
def library(request, monkeypatch):
    """A CPU searches with NumPy, a GPU with torch; both ways must give the same."""
    if request.param == "torch":
        pytest.importorskip("torch", reason="searches on GPUs")
        monkeypatch.setattr(nearest, "torch_device", lambda multiplications, *kinds: "cpu")


@pytest.mark.parametrize("k", [1, 2, 50, 119, 120])
@pytest.mark.parametrize("bank_rows", [7, 100, 1024])
def test_knn_is_the_kth_smallest_distance(k, bank_rows, library, monkeypatch):
    """Also where parts of the rows are searched in threads."""
    monkeypatch.setattr(nearest, "_BANK_ROWS", bank_rows)
    monkeypatch.setattr(nearest, "_PRODUCTS", 10 * len(FITTED))
    monkeypatch.setattr(nearest, "_LEAST_ROWS", 1)
    with threadpool_limits(2):
        assert_scores(KNN(k=k), distances(FITTED, TESTED)[:, k - 1], fitted=FITTED)


@pytest.mark.parametrize("k", [1, 3, 40, 150])
def test_rows_that_float32_cannot_tell_apart_are_told_apart(k, library):
    """Half of the bank lies within 1e-5 of one direction, where products differ by 1e-10."""
    random = np.random.default_rng(0)
    values = random.normal(size=(300, 12))
    values[::2] = values[0] + 1e-5 * random.normal(size=(150, 12))
    bank = dataclasses.replace(toy_features(rows=300), penultimate=values)
    tested = dataclasses.replace(TESTED, penultimate=np.concatenate([values[:20:2], values[1:41:2]]))
    scores = KNN(k=k).fit(bank).score(tested)
    np.testing.assert_allclose(scores, distances(bank, tested)[:, k - 1], rtol=1e-9, atol=1e-15)


def test_a_search_takes_the_device_that_it_is_given(monkeypatch):
    pytest.importorskip("torch", reason="searches in float32")
    monkeypatch.setattr(nearest, "WORTH", 0)
    detector = KNN(k=7).fit(FITTED)
    for device in ("cuda:99", "gpu"):
        with pytest.raises(EvaluationError, match=f"torch cannot use {device}: "), nearest.on_device(device):
            pass
    with nearest.on_device("cpu"):
        detector.score(TESTED)


def test_few_neighbours_of_many_rows_are_found_by_groups(library):
    """The greatest of 16 products each bound the k-th; some rows are left over, and the nearest are together."""
    fitted = toy_features(rows=1003, seed=1)
    fitted = fitted.take(np.argsort(fitted.penultimate[:, 0]))
    for k in (1, 15):
        assert_scores(KNN(k=k), distances(fitted, TESTED)[:, k - 1], fitted=fitted)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_lengths_change_nothing(scale, kind, library):
    fitted, tested = (
        dataclasses.replace(rows, penultimate=(rows.penultimate.astype(np.float64) * scale).astype(kind))
        for rows in (FITTED, TESTED)
    )
    for make in (KNN, NNGuide, Relation):
        expected = make().fit(FITTED).score(TESTED)
        np.testing.assert_allclose(make().fit(fitted).score(tested), expected, rtol=1e-6)


def test_rows_of_zeros_are_at_distance_one_of_all_directions(library):
    tested = dataclasses.replace(TESTED, penultimate=np.zeros_like(TESTED.penultimate))
    for k in (1, 30):
        np.testing.assert_allclose(KNN(k=k).fit(FITTED).score(tested), np.ones(30))


def test_memory_that_runs_out_is_said(monkeypatch):
    torch = pytest.importorskip("torch", reason="searches on GPUs")

    def fails(*arguments, **how):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(nearest, "torch_device", lambda multiplications, *kinds: "cpu")
    monkeypatch.setattr(torch, "cat", fails)
    with stops(EvaluationError):
        KNN(k=7).fit(FITTED).score(TESTED)


def test_nearly_equal_rows_have_their_exact_distance(library):
    # From products of float64 unit vectors, a distance of 1e-9 is lost: 1 - 5e-19 is 1.
    close = dataclasses.replace(FITTED, penultimate=FITTED.penultimate.astype(np.float64))
    close.penultimate[:, 0] += 1.0
    moved = dataclasses.replace(close, penultimate=close.penultimate.copy())
    moved.penultimate[:, 0] *= 1 + 1e-9
    expected = np.linalg.norm(directions(moved) - directions(close), axis=1)
    assert (expected < 1e-8).all()
    np.testing.assert_array_equal(KNN(k=1).fit(close).score(moved), expected)


def guided(fitted, tested, *ks):
    """Scores for each k."""
    scores = {k: [] for k in ks}
    for z, logits in zip(tested.penultimate.astype(float), tested.logits.astype(float), strict=True):
        similarities = [
            logsumexp(other_logits) * (z @ other) / (np.linalg.norm(z) * np.linalg.norm(other))
            for other, other_logits in zip(fitted.penultimate.astype(float), fitted.logits.astype(float), strict=True)
        ]
        for k in ks:
            scores[k].append(-logsumexp(logits) * np.mean(sorted(similarities, reverse=True)[:k]))
    return scores


def test_nnguide_is_the_energy_times_the_mean_similarity_to_the_nearest(library, monkeypatch):
    for k, expected in guided(FITTED, TESTED, 1, 10, 119, 120).items():
        for bank_rows in (7, 1024):
            monkeypatch.setattr(nearest, "_BANK_ROWS", bank_rows)
            assert_scores(NNGuide(k=k), expected, fitted=FITTED)


def test_energies_below_zero_turn_the_order(library):
    """Then the vectors of the bank point away, and the least similar rows are the nearest."""
    fitted, tested = (dataclasses.replace(rows, logits=rows.logits - 30) for rows in (FITTED, TESTED))
    assert_scores(NNGuide(k=5), guided(fitted, tested, 5)[5], fitted=fitted, tested=tested)


@pytest.mark.parametrize("less", [1, 0])
def test_relation_is_the_negated_mean_over_the_bank(less, monkeypatch):
    bank = dataclasses.replace(FITTED, penultimate=FITTED.penultimate - less)  # with 1 some directions oppose
    tested = dataclasses.replace(TESTED, penultimate=TESTED.penultimate - less)
    relations = [
        [
            max(0.0, z @ other) * (softmax(logits) @ softmax(other_logits))
            for other, other_logits in zip(directions(bank), FITTED.logits.astype(np.float64), strict=True)
        ]
        for z, logits in zip(directions(tested), TESTED.logits.astype(np.float64), strict=True)
    ]
    for power, cutoff in ((1.0, 0.0), (1.0, 0.03), (4.0, 0.0), (0.5, 0.1)):
        expected = [-np.mean([relation**power * (relation > cutoff) for relation in of_row]) for of_row in relations]
        for bank_rows in (50, 1024):
            monkeypatch.setattr(neighbors, "_BANK_ROWS", bank_rows)
            assert_scores(Relation(power=power, cutoff=cutoff), expected, 1e-11, bank, tested)


@pytest.mark.parametrize(("power", "cutoff"), [(1.0, 0.0), (1.0, 0.03), (4.0, 0.0), (0.5, 0.1)])
def test_relations_in_float32_have_its_precision(power, cutoff, monkeypatch):
    """The sum of positive numbers is as precise as each: a few roundings of 6e-8."""
    pytest.importorskip("torch", reason="multiplies in float32")
    bank, tested = (dataclasses.replace(rows, penultimate=rows.penultimate - 1) for rows in (FITTED, TESTED))
    detector = Relation(power=power, cutoff=cutoff).fit(bank)
    expected = detector.score(tested)
    monkeypatch.setattr(nearest, "WORTH", 0)
    monkeypatch.setattr(neighbors, "_BANK_ROWS", 5)
    scores = detector.score(tested)
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-7)
    assert not np.array_equal(scores, expected)


@pytest.mark.parametrize("k", [1, 50])
def test_combood_adds_a_parametric_and_a_nearest_distance(k):
    pytest.importorskip("sklearn", reason="scikit-learn fits combood")
    fitted, tested = (features.penultimate.astype(float) for features in (FITTED, TESTED))
    normal = []
    for column, other in zip(fitted.T, tested.T, strict=True):
        mean, deviation = column.mean(), column.std()
        made, power = yeojohnson((column - mean) / deviation)
        of_tested = yeojohnson((other - mean) / deviation, power)
        normal.append([(values - made.mean()) / made.std() for values in (made, of_tested)])
    x, y = (np.stack([pair[side] for pair in normal], axis=1) for side in (0, 1))
    inverse = np.linalg.inv(np.cov(x, rowvar=False) + np.eye(x.shape[1]))
    squares = distances(FITTED, TESTED)[:, k - 1] ** 2
    expected = np.einsum("nd,de,ne->n", y, inverse, y) + np.sqrt(x.shape[1]) * np.log(squares)
    assert_scores(CombOOD(k=k), expected, 1e-5, FITTED)
