"""VRA against its definition, by loops, and against pytorch-ood's where nothing is below the lower threshold."""

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.evaluation.detectors.toy import toy_features, toy_head
from unknown_detection.evaluation.detectors import VRA, base
from unknown_detection.evaluation.errors import EvaluationError

HEAD = toy_head()
FITTED, TESTED = toy_features(rows=200, seed=1), toy_features(rows=30, seed=2, unknown=20)


def quantile(values, share):
    """The quantile of a list, interpolated linearly."""
    values = sorted(map(float, values))
    place = share * (len(values) - 1)
    low = int(place)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (place - low)


@pytest.mark.parametrize(("lower", "upper"), [(0.6, 0.9), (0.0, 0.5), (0.25, 0.25), (0.0, 1.0)])
def test_low_activations_become_zero_and_high_ones_the_threshold(lower, upper, monkeypatch):
    monkeypatch.setattr(base, "_CHUNK", 1000)  # five features at a time
    least = [quantile(column, lower) for column in FITTED.penultimate.T]
    most = [quantile(column, upper) for column in FITTED.penultimate.T]
    shaped = [
        [0.0 if x < low else high if x > high else x for x, low, high in zip(z, least, most, strict=True)]
        for z in TESTED.penultimate.astype(float)
    ]
    logits = np.array(shaped) @ HEAD.weight.T.astype(float) + HEAD.bias
    detector = VRA(lower=lower, upper=upper).fit(FITTED, HEAD)
    np.testing.assert_allclose(detector.score(TESTED), -logsumexp(logits, axis=1), rtol=1e-6)
    assert detector.predict(TESTED).tolist() == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize("upper", [0.85, 0.95])
def test_scores_are_pytorch_oods_where_no_activation_is_below_the_lower_threshold(upper):
    """Theirs keeps thresholds in float32, and raises what is below the lower one; of fitted rows nothing is."""
    torch = pytest.importorskip("torch", reason="pytorch-ood compares; it needs torch")
    theirs = pytest.importorskip("pytorch_ood.detector", reason="pytorch-ood compares")
    maps = torch.from_numpy(FITTED.penultimate)[:, :, None, None]
    weight, bias = torch.from_numpy(HEAD.weight), torch.from_numpy(HEAD.bias)
    rival = theirs.VRA(None, lambda z: z.flatten(1) @ weight.T + bias, lower_percentile=0.0, upper_percentile=upper)
    expected = rival.fit_feature_maps(maps, torch.from_numpy(FITTED.labels)).predict_feature_maps(maps)
    scores = VRA(lower=0.0, upper=upper).fit(FITTED, HEAD).score(FITTED)
    np.testing.assert_allclose(scores, expected.numpy(), rtol=1e-5)


def test_a_lower_threshold_above_the_upper_one_is_refused():
    with pytest.raises(
        EvaluationError, match=r"lower of vra must not exceed upper, found 0\.9 and 0\.5; give another"
    ):
        VRA(lower=0.9, upper=0.5).fit(FITTED, HEAD)
