"""ASH, SCALE, VRA and RAS against their definitions, row by row; more is in `test_against_pytorch_ood.py`."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as made

from tests.evaluation.detectors.toy import (
    FITTED,
    HEAD,
    TESTED,
    WIDTH,
    assert_scores,
    energies,
    toy_features,
)
from unknown_detection.evaluation.detectors import RAS, VRA, ReAct, arrays, shaping

matrices = st.sampled_from(["f2", "f4", "f8"]).flatmap(
    lambda kind: made.arrays(kind, made.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-1e3, 1e3, width=16))
)


@given(matrices, st.floats(0, 1, exclude_max=True))
def test_quantiles_are_numpys(values, quantile):
    expected = np.quantile(values.astype(np.float64), quantile)
    np.testing.assert_allclose(shaping._quantile(values, quantile), expected, rtol=1e-12, atol=1e-300)


def test_react_s_threshold_takes_no_copy_of_the_fitted_features(monkeypatch):
    monkeypatch.setattr(arrays, "_CHUNK", 1 << 16)
    fitted = toy_features(rows=200_000)
    tracemalloc.start()
    try:
        ReAct().fit(fitted, HEAD)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < fitted.penultimate.nbytes / 2


@pytest.mark.parametrize(("variant", "kept"), [("p", 1.5), ("b", 3.0), ("s", 1.5 * np.e**2)])
def test_a_row_of_zeros_stays_one_and_of_equal_activations_the_first_are_kept(variant, kept):
    rows = np.array([[0.0] * 4, [1.5] * 4])
    np.testing.assert_allclose(shaping.ash(rows, 0.5, variant), [[0.0] * 4, [kept, kept, 0.0, 0.0]])
    np.testing.assert_allclose(shaping.scale(rows, 0.5), rows * np.e**2)
    assert np.count_nonzero(shaping.ash(rows, 0.99, variant)[1]) == 1, "at least one is kept"
    np.testing.assert_allclose(shaping.scale(rows, 0.99), rows * np.e**4)


@pytest.mark.parametrize(("lower", "upper"), [(0.6, 0.9), (0.0, 0.5), (0.25, 0.25), (0.0, 1.0)])
def test_low_activations_become_zero_and_high_ones_the_threshold(lower, upper, monkeypatch):
    monkeypatch.setattr(arrays, "_CHUNK", 1000)  # five features at a time
    least, most = np.quantile(FITTED.penultimate.astype(float), (lower, upper), axis=0)
    shaped = [
        [0.0 if x < low else high if x > high else x for x, low, high in zip(z, least, most, strict=True)]
        for z in TESTED.penultimate.astype(float)
    ]
    detector = assert_scores(VRA(lower=lower, upper=upper), energies(shaped), 1e-6)
    logits = np.array(shaped) @ HEAD.weight.T + HEAD.bias
    assert detector.predict(TESTED).tolist() == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize("upper", [0.85, 0.95])
def test_vra_is_pytorch_oods_where_no_activation_is_below_the_lower_threshold(upper):
    """Theirs keeps thresholds in float32, and raises what is below the lower one; of fitted rows nothing is."""
    torch = pytest.importorskip("torch", reason="pytorch-ood compares; it needs torch")
    theirs = pytest.importorskip("pytorch_ood.detector", reason="pytorch-ood compares")
    maps = torch.from_numpy(FITTED.penultimate)[:, :, None, None]
    weight, bias = torch.from_numpy(HEAD.weight), torch.from_numpy(HEAD.bias)
    rival = theirs.VRA(None, lambda z: z.flatten(1) @ weight.T + bias, lower_percentile=0.0, upper_percentile=upper)
    expected = rival.fit_feature_maps(maps, torch.from_numpy(FITTED.labels)).predict_feature_maps(maps)
    assert_scores(VRA(lower=0.0, upper=upper), expected.numpy(), 1e-5, tested=FITTED)


def test_ras_puts_the_mean_of_its_rank_for_each_value():
    profile = [np.mean([sorted(map(float, z))[rank] for z in FITTED.penultimate]) for rank in range(WIDTH)]
    shaped = [[profile[sum(other < x for other in z)] for x in z] for z in TESTED.penultimate]
    detector = assert_scores(RAS(), energies(shaped), 1e-6)
    detector.profile = np.arange(4.0)
    assert detector._shape(np.array([[0.0, 5.0, 0.0, -1.0]])).tolist() == [[1.0, 3.0, 2.0, 0.0]], "the first is less"
