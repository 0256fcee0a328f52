"""ReAct, DICE, ASH and SCALE against their definitions, row by row and weight by weight."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.special import logsumexp

from tests.evaluation.detectors.toy import CLASSES, WIDTH, toy_features, toy_head
from tests.sentences import stops
from unknown_detection.evaluation.detectors import ASH, DICE, SCALE, ReAct, base, shaping
from unknown_detection.evaluation.errors import EvaluationError

HEAD = toy_head()
FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


def energies(rows, weight=HEAD.weight):
    """The energy of each row, from its logits one at a time."""
    scores = []
    for row in rows:
        logits = [sum(float(w) * float(x) for w, x in zip(weight[c], row, strict=True)) for c in range(CLASSES)]
        scores.append(-logsumexp(np.array(logits) + HEAD.bias.astype(float)))
    return np.array(scores)


@pytest.mark.parametrize("quantile", [0.0, 0.3, 0.85, 0.9, 0.99])
def test_react_clips_at_the_quantile_of_all_fitted_activations(quantile):
    threshold = np.quantile(FITTED.penultimate.astype(np.float64).ravel(), quantile)
    clipped = [[min(float(x), threshold) for x in row] for row in TESTED.penultimate]
    scores = ReAct(quantile=quantile).fit(FITTED, HEAD).score(TESTED)
    np.testing.assert_allclose(scores, energies(clipped), rtol=1e-12)


matrices = st.sampled_from(["f2", "f4", "f8"]).flatmap(
    lambda kind: arrays(kind, array_shapes(min_dims=2, max_dims=2), elements=st.floats(-1e3, 1e3, width=16))
)


@given(matrices, st.floats(0, 1, exclude_max=True))
def test_quantiles_are_numpys(values, quantile):
    # NumPy interpolates from the nearer side, which may differ in the last digit.
    expected = np.quantile(values.astype(np.float64), quantile)
    np.testing.assert_allclose(shaping._quantile(values, quantile), expected, rtol=1e-12, atol=1e-300)


def test_react_s_threshold_takes_no_copy_of_the_fitted_features(monkeypatch):
    monkeypatch.setattr(base, "_CHUNK", 1 << 16)
    fitted = toy_features(rows=200_000)
    tracemalloc.start()
    try:
        ReAct().fit(fitted, HEAD)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < fitted.penultimate.nbytes / 2


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9])
def test_dice_drops_the_weights_that_contribute_least(sparsity):
    means = [np.mean([float(x) for x in column]) for column in FITTED.penultimate.T]
    contributions = {(c, d): HEAD.weight[c, d] * means[d] for c in range(CLASSES) for d in range(WIDTH)}
    threshold = np.quantile(list(contributions.values()), sparsity)
    weight = np.array(
        [[HEAD.weight[c, d] if contributions[c, d] > threshold else 0.0 for d in range(WIDTH)] for c in range(CLASSES)]
    )
    scores = DICE(sparsity=sparsity).fit(FITTED, HEAD).score(TESTED)
    np.testing.assert_allclose(scores, energies(TESTED.penultimate, weight), rtol=1e-12)


def shaped_one_row(row, pruned, variant):
    """ASH by sorting, as the paper words it."""
    greatest = sorted(range(len(row)), key=lambda i: (-row[i], i))[: len(row) - round(pruned * len(row))]
    before, after = sum(row), sum(row[i] for i in greatest)
    out = [0.0] * len(row)
    for i in greatest:
        out[i] = {"p": row[i], "b": before / len(greatest), "s": row[i] * np.exp(before / after) if after else 0.0}[
            variant
        ]
    return out


@pytest.mark.parametrize("variant", ["p", "b", "s"])
@pytest.mark.parametrize("pruned", [0.0, 0.5, 0.65, 0.9])
def test_ash_shapes_each_row_by_itself(variant, pruned):
    rows = TESTED.penultimate.astype(np.float64)
    rows[0], rows[1, :6] = 0.0, 1.5  # nothing to keep; equal activations at the boundary
    expected = [shaped_one_row(list(row), pruned, variant) for row in rows]
    np.testing.assert_allclose(shaping.ash(rows, pruned, variant), expected, rtol=1e-12)


@pytest.mark.parametrize("pruned", [0.0, 0.5, 0.65, 0.85])
def test_scale_multiplies_each_row_by_the_share_of_its_greatest(pruned):
    rows = TESTED.penultimate.astype(np.float64)
    rows[0], rows[1, :6] = 0.0, 1.5
    expected = []
    for row in rows:
        greatest = sorted(row, reverse=True)[: WIDTH - round(pruned * WIDTH)]
        expected.append([x * np.exp(sum(row) / sum(greatest)) if sum(greatest) else 0.0 for x in row])
    np.testing.assert_allclose(shaping.scale(rows, pruned), expected, rtol=1e-12)
    tested = dataclasses.replace(TESTED, penultimate=rows)
    np.testing.assert_allclose(SCALE(pruned=pruned).fit(None, HEAD).score(tested), energies(expected))


def test_ash_scores_are_energies_of_the_shaped_features():
    shaped = shaping.ash(TESTED.penultimate.astype(np.float64), 0.75)
    scores = ASH(pruned=0.75).fit(None, HEAD).score(TESTED)
    np.testing.assert_allclose(scores, energies(shaped), rtol=1e-12)


def test_ash_of_features_that_are_no_activations_says_which_row_it_fails_on():
    features = toy_features(rows=20, seed=2)
    # The six kept add up to -0.01, all twelve to -12.01: exp(1201) is infinite.
    features.penultimate[3] = [1, 1, 1, -1, -1, -1.01, *[-2] * 6]
    with stops(EvaluationError, features.ids[3]):
        ASH(pruned=0.5).fit(None, HEAD).score(features)


@pytest.mark.parametrize("make", [ASH, SCALE])
def test_some_features_are_kept(make):
    with stops(EvaluationError, make.name):
        make(pruned=0.99).fit(FITTED, HEAD)
