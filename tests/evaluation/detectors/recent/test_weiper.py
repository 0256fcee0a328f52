"""WeiPer+KLD against its definition, by loops, and its smoothing against torch's convolution."""

import itertools

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy

from tests.evaluation.detectors.toy import CLASSES, toy_features, toy_head
from unknown_detection.evaluation.detectors import WeiPer

HEAD = toy_head()
FITTED, TESTED = toy_features(rows=80, seed=1), toy_features(rows=10, seed=2, unknown=5)


def shares(values, low, high, bins):
    """The share of the values in each of equal bins from low to just above high."""
    edges = np.linspace(low, high + 1e-8, bins + 1)
    return [sum(a <= x < b for x in values) / len(values) for a, b in itertools.pairwise(edges)]


def smoothed(of_row, width):
    """The mean over a window, of which the greater half of an even one is ahead; ends are repeated."""
    before = (width - 1) // 2
    last = len(of_row) - 1
    return [
        np.mean([of_row[min(max(place + step, 0), last)] for step in range(-before, width - before)])
        for place in range(len(of_row))
    ]


def divergence(of_row, typical, width, added):
    one, other = np.array(smoothed(of_row, width)) + added, np.array(typical) + added
    return entropy(one, other) + entropy(other, one)  # both are divided by their sums


@pytest.mark.parametrize(
    ("bins", "smoothing", "smoothing_logits", "weights"), [(20, 4, 5, (2.5, 0.1)), (7, 1, 2, (0.3, 2.0))]
)
def test_scores_are_divergences_less_the_mean_confidence(bins, smoothing, smoothing_logits, weights):
    detector = WeiPer(*weights, repeats=3, bins=bins, smoothing=smoothing, smoothing_logits=smoothing_logits, seed=5)
    detector.fit(FITTED, HEAD)
    layers = detector.matrix.reshape(3, CLASSES, -1)
    for layer in layers:
        lengths = np.linalg.norm(layer - HEAD.weight, axis=1) / np.linalg.norm(HEAD.weight, axis=1)
        np.testing.assert_allclose(lengths, 1.8, rtol=1e-6)

    def both(features):
        z = features.penultimate.astype(float)
        return z, np.concatenate([z @ layer.T + HEAD.bias for layer in layers], axis=1)

    ends = [(values.min(), values.max()) for values in both(FITTED)]
    typical = [
        np.mean([shares(row, *of, bins) for row in values], axis=0)
        for values, of in zip(both(FITTED), ends, strict=True)
    ]
    expected = []
    for z, logits in zip(*both(TESTED), strict=True):
        first = divergence(shares(z, *ends[0], bins), typical[0], smoothing, 0.01)
        second = divergence(shares(logits, *ends[1], bins), typical[1], smoothing_logits, 0.025)
        confidence = np.mean([softmax(logits[i * CLASSES : (i + 1) * CLASSES]).max() for i in range(3)])
        expected.append(first + weights[0] * second - weights[1] * confidence)
    np.testing.assert_allclose(detector.score(TESTED), expected, rtol=1e-8)


@pytest.mark.parametrize("width", [1, 4, 5, 40])
def test_smoothing_is_the_authors_convolution(width):
    torch = pytest.importorskip("torch", reason="torch convolves")
    of_row = np.random.default_rng(0).random(30)
    kernel = torch.nn.Conv1d(1, 1, width, padding="same", padding_mode="replicate", bias=False, dtype=torch.float64)
    torch.nn.init.constant_(kernel.weight, 1 / width)
    expected = kernel(torch.from_numpy(of_row)[None, None]).detach().numpy()[0, 0]
    np.testing.assert_allclose(smoothed(of_row, width), expected, rtol=1e-12)
