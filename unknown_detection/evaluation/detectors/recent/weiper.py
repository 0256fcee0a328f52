"""WeiPer+KLD: the distribution of a row's features and perturbed logits against that of the fitted rows."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import uniform_filter1d
from scipy.special import softmax

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import RowDetector, Scores, setting
from unknown_detection.evaluation.models.features import Doubles, Features

_AT_ONCE = 64
"""Rows whose perturbed logits are held at once: 51 MB of 100 perturbations of 1,000 classes."""

_SMOOTHED, _SMOOTHED_LOGITS = 0.01, 0.025
"""What the authors' code adds to the shares in bins of features, and of perturbed logits."""


class WeiPer(RowDetector):
    """KL divergences of a row's values from the typical distribution, less a mean confidence (WeiPer+KLD).

    Formula: K(h(z), p) + lambda_1 K(h(V z + c), q) - lambda_2 1/r sum_i max_c softmax(W_i z + b)_c. W_i is W with
    delta |w_c| g / |g| added to each row, g normal, and V and c are all W_i and b; h is the share of a row's values in
    each of `bins` equal bins between the least and the greatest of the fitted rows, p and q its mean over these; K(h,
    p) = sum (h' - p') log(h' / p'), where h' is the mean of h over `smoothing` bins, and both get 0.01, or 0.025 of
    logits, and sum to 1.
    Source: Granz, Heurich and Landgraf, WeiPer: OOD Detection using Weight Perturbations of Class Projections, NeurIPS
    2024, section 3, and the authors' code. The defaults are theirs for CIFAR-10, where they search all of them; here
    `--set` searches more than the two weights. In float64: a rounding of float32 moves values to other bins.

    Args:
        lambda_1: weight of the perturbed logits' divergence.
        lambda_2: weight of the mean confidence.
        distance: delta, the length of perturbations relative to the weights.
        repeats: r, the number of perturbed layers.
        bins: number of bins.
        smoothing: bins that are averaged, of features.
        smoothing_logits: bins that are averaged, of perturbed logits.
        rows: maximum number of rows to fit on, drawn by id (theirs is 300,000).
        seed: random seed of the perturbations and of that draw.
    """

    name, title, source = "weiper", "WeiPer+KLD", "Granz et al. 2024, section 3"
    compared = "the authors' code (1c27a4f)"
    reads_head = True
    at_once = _AT_ONCE

    lambda_1: float = setting(2.5, 0.1, 1.0, allowed=ranges.at_least(0))
    lambda_2: float = setting(0.1, 0.25, 1.0, allowed=ranges.at_least(0))
    distance: float = setting(1.8, allowed=ranges.POSITIVE)
    repeats: int = setting(100, allowed=ranges.at_least(1))
    bins: int = setting(100, allowed=ranges.at_least(2))
    smoothing: int = setting(4, allowed=ranges.at_least(1))
    smoothing_logits: int = setting(15, allowed=ranges.at_least(1))
    rows: int = setting(10_000, allowed=ranges.at_least(1))
    seed: int = 0

    def _learn(self, features: Features) -> None:
        weight, bias = self.matrix, self.bias
        noise = np.random.default_rng(self.seed).standard_normal((int(self.repeats), *weight.shape))
        noise *= self.distance * np.linalg.norm(weight, axis=1)[:, None] / np.linalg.norm(noise, axis=2, keepdims=True)
        self.matrix, self.bias = (weight + noise).reshape(-1, weight.shape[1]), np.tile(bias, int(self.repeats))
        self.classes = len(bias)
        places = arrays.draw_rows(features.ids, int(self.rows), self.seed)
        parts = [places[rows] for rows in arrays.chunks(len(places), at_once=_AT_ONCE)]
        ends: list[tuple[float, float]] = [(np.inf, -np.inf)] * 2
        for part in parts:
            pairs = zip(ends, self._values(features.penultimate[part].astype(np.float64)), strict=True)
            ends = [(min(low, values.min()), max(high, values.max())) for (low, high), values in pairs]
        self.ends = ends
        sums = [0.0, 0.0]
        for part in parts:
            shares = self._shares(self._values(features.penultimate[part].astype(np.float64)))
            sums = [total + of_rows.sum(axis=0) for total, of_rows in zip(sums, shares, strict=True)]
        self.typical = [np.asarray(total) / len(places) for total in sums]

    def _values(self, z: Doubles) -> tuple[Doubles, Doubles]:
        return z, z @ self.matrix.T + self.bias

    def _shares(self, values: tuple[Doubles, Doubles]) -> list[Doubles]:
        """Return the share of each row's values in every bin, of the features and of the perturbed logits."""
        count, found = int(self.bins), []
        for of_rows, (low, high) in zip(values, self.ends, strict=True):
            place = np.floor((of_rows - low) * (count / (high + 1e-8 - low)))  # the greatest value is in the last bin
            cells = np.arange(len(of_rows))[:, None] * (count + 2) + np.clip(place, -1, count).astype(np.int64) + 1
            table = np.bincount(cells.ravel(), minlength=len(of_rows) * (count + 2)).reshape(-1, count + 2)
            found.append(table[:, 1:-1] / of_rows.shape[1])
        return found

    def _rows(self, z: Doubles) -> Scores:
        values = self._values(z)
        widths, added = (int(self.smoothing), int(self.smoothing_logits)), (_SMOOTHED, _SMOOTHED_LOGITS)
        of_features, of_logits = map(_divergence, self._shares(values), self.typical, widths, added)
        confidence = softmax(values[1].reshape(len(z), -1, self.classes), axis=2).max(axis=2).mean(axis=1)
        return of_features + self.lambda_1 * of_logits - self.lambda_2 * confidence


def _divergence(shares: Doubles, typical: Doubles, width: int, added: float) -> Scores:
    """Return the symmetric divergence of smoothed rows of shares (n, B) from typical ones (B,)."""
    smooth = uniform_filter1d(shares, width, axis=1, mode="nearest", origin=width % 2 - 1) + added
    smooth /= smooth.sum(axis=1, keepdims=True)
    expected = (typical + added) / (typical + added).sum()
    return ((smooth - expected) * np.log(smooth / expected)).sum(axis=1)
