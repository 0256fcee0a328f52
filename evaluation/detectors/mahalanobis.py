"""Mahalanobis distance to the classes (MDS), of the last layer, the first block, all blocks, or the logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from evaluation.detectors.base import Method, Scores
from evaluation.detectors.fitting import class_means, require_labels, require_rows_of_each_class
from evaluation.detectors.nearest import cuda_device
from evaluation.detectors.rows import Doubles, as_float64, chunks, require_width, score_in_chunks
from evaluation.errors import EvaluationError
from evaluation.models.features import Features, Floats, Head

_ROUNDINGS = 8
"""Allowed rounding error of each of D features, in units in the last place of its typical value.

For float32 logits with a constant sum, from layers of 64 to 2,048 synthetic features and 10 to 1,000 classes, the
variance left unexplained by the other logits was at most D (2.4 units)^2.
"""

Layers = Callable[[Features], Mapping[str, Floats]]
"""Selects the layers to read from `Features`, by their description for errors, each (n, D)."""


@dataclass(frozen=True)
class ClassGaussians:
    """One Gaussian per class, with a shared covariance.

    Attributes:
        centre: mean of the class means, shape (D,); subtracted first, because differences of large numbers lose
            digits.
        scale: standard deviation within classes of each feature, shape (D,); 1 where it is 0.
        factor: lower Cholesky factor of the covariance of features divided by `scale`, shape (D, D).
        means: class means mapped by `whiten`, shape (C, D).
        shrinkage: weight of the Ledoit-Wolf target in the covariance; 0 if none was needed.
    """

    centre: Doubles
    scale: Doubles
    factor: Doubles
    means: Doubles
    shrinkage: float

    def whiten(self, values: Doubles) -> Doubles:
        """Whiten features: map them so that the covariance is the identity.

        Args:
            values: shape (m, D).

        Returns:
            Shape (m, D).
        """
        return _whiten(values, self.centre, self.scale, self.factor)

    def distances(self, values: Doubles, device: str | None = None) -> Scores:
        """Compute the squared Mahalanobis distance to the nearest class mean.

        Args:
            values: shape (m, D).
            device: device of torch to compute on, in float64 too; None for NumPy.

        Returns:
            Shape (m,), dimensionless.
        """
        if device is not None:
            return self._distances_on(device, values)
        white = self.whiten(values)
        # A matrix product finds the nearest mean; the distance to it is then computed without cancellation.
        nearest = (np.einsum("cd,cd->c", self.means, self.means) - 2 * (white @ self.means.T)).argmin(axis=1)
        white -= self.means[nearest]
        squares: Scores = np.einsum("nd,nd->n", white, white)
        return squares

    def device(self, rows: int) -> str | None:
        """Return the device for the distances of a number of rows."""
        classes, width = self.means.shape
        return cuda_device(rows * width * (width + classes))

    def _distances_on(self, device: str, values: Doubles) -> Scores:
        import torch

        arrays = ((values - self.centre) / self.scale, self.factor, self.means)
        scaled, factor, means = (torch.from_numpy(array).to(device) for array in arrays)
        white = torch.linalg.solve_triangular(factor, scaled.T, upper=False).T
        nearest = ((means * means).sum(dim=1) - 2 * (white @ means.T)).argmin(dim=1)
        squares: Scores = ((white - means[nearest]) ** 2).sum(dim=1).cpu().numpy()
        return squares


def _whiten(values: Doubles, centre: Doubles, scale: Doubles, factor: Doubles) -> Doubles:
    scaled = (values - centre) / scale
    white: Doubles = solve_triangular(factor, scaled.T, lower=True, overwrite_b=True, check_finite=False).T
    return white


def fit_class_gaussians(
    name: str, values: Floats, labels: npt.NDArray[np.int64], classes: int, ids: npt.NDArray[np.str_]
) -> ClassGaussians:
    """Fit class means and the within-class covariance.

    The covariance is S = 1/n sum (x - mean_y) (x - mean_y)^T. If it is singular up to rounding, as with fewer than D +
    C rows, a constant feature, or logits with a constant sum, it is shrunk to (1 - r) S + r tr(S)/D I with the r of
    Ledoit and Wolf.

    Source: Lee et al., A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks,
    NeurIPS 2018, equation 1; Ledoit and Wolf, A Well-conditioned Estimator for Large-dimensional Covariance Matrices,
    Journal of Multivariate Analysis 88, 2004, section 3.

    Args:
        name: description of the values, for errors.
        values: shape (n, D).
        labels: class of each row, 0 to `classes` - 1; each class has a row.
        classes: number C of classes.
        ids: the n ids.

    Raises:
        EvaluationError: all values equal their class mean, or one is NaN or infinite.
    """
    count, width = values.shape
    means = class_means(name, values, labels, classes, ids)
    covariance = np.zeros((width, width))
    fourth = 0.0
    for rows in chunks(count, 3 * width):
        residuals = as_float64(name, values, rows, ids) - means[labels[rows]]
        covariance += residuals.T @ residuals
        fourth += float((np.einsum("nd,nd->n", residuals, residuals) ** 2).sum())
    covariance /= count
    if not np.trace(covariance) > 0:
        raise EvaluationError(
            f"The {name} do not vary within classes: all {count:,} rows equal their class's mean. Fit on more rows, "
            "or leave this detector out."
        )
    # The part of each feature's variance that rounding may have caused.
    squares = (means**2).mean(axis=0) + np.diag(covariance)
    rounding = (_ROUNDINGS * np.finfo(values.dtype).eps) ** 2 * squares
    shrinkage = 0.0
    factored = None if count - classes < width else _scaled_cholesky(covariance, rounding)
    if factored is None:
        shrinkage = _ledoit_wolf(covariance, fourth, count)
        target = shrinkage * np.trace(covariance) / width
        covariance *= 1 - shrinkage
        covariance[np.diag_indices(width)] += target
        factored = _scaled_cholesky(covariance, rounding)
    if factored is None:
        raise EvaluationError(
            f"The covariance of {name} is singular, even with shrinkage {shrinkage:.1e}, from {count:,} rows of "
            f"{width:,} features. Leave this detector out."
        )
    scale, factor = factored
    centre = means.mean(axis=0)
    return ClassGaussians(centre, scale, factor, _whiten(means, centre, scale, factor), shrinkage)


def _scaled_cholesky(covariance: Doubles, rounding: Doubles) -> tuple[Doubles, Doubles] | None:
    """Return standard deviations and the factor of the correlations; None if these are singular up to rounding.

    Args:
        covariance: shape (D, D).
        rounding: variance that rounding may add to each feature, shape (D,).
    """
    variance = np.diag(covariance)
    if not (variance > 0).all():
        return None
    scale = np.sqrt(variance)
    try:
        factor: Doubles = np.linalg.cholesky(covariance / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return None
    # A squared pivot is the fraction of a feature's variance that the features before it leave unexplained.
    unexplained = np.diag(factor) ** 2
    noise = len(scale) * np.maximum(np.finfo(float).eps, rounding / variance)
    return (scale, factor) if (unexplained > noise).all() else None


def _ledoit_wolf(covariance: Doubles, fourth: float, count: int) -> float:
    """Return the weight of the identity: the estimated error of S over its squared distance to the target.

    Args:
        covariance: S, shape (D, D).
        fourth: sum over rows of the fourth power of the residual's norm.
        count: number n of rows.
    """
    width = len(covariance)
    squares = float(np.einsum("ij,ij->", covariance, covariance))
    error = (fourth / count - squares) / count
    distance = squares - float(np.trace(covariance)) ** 2 / width
    return 1.0 if distance <= 0 else min(error / distance, 1.0)


@dataclass(frozen=True)
class Mahalanobis:
    """The fitted detector: mean over layers of the squared distance to the nearest class.

    Attributes:
        layers: selects the layers from `Features`.
        gaussians: the fitted classes by layer.
    """

    layers: Layers
    gaussians: Mapping[str, ClassGaussians]

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        inputs = self.layers(features)
        if list(inputs) != list(self.gaussians):
            raise EvaluationError(
                f"The detector was fitted on {len(self.gaussians)} layers, but there are {len(inputs)}. Extract both "
                "splits with one model."
            )
        total = np.zeros(len(features))
        for name, values in inputs.items():
            fitted = self.gaussians[name]
            classes, width = fitted.means.shape
            require_width(name, values, width)
            total += score_in_chunks(
                partial(fitted.distances, device=fitted.device(len(features))),
                {name: values},
                features.ids,
                doubles_per_row=4 * width + 2 * classes,
            )
        return total / len(self.gaussians)


def _fit(features: Features, detector: str, layers: Layers) -> Mahalanobis:
    require_labels(features, detector)
    classes = features.logits.shape[1]
    require_rows_of_each_class(features.labels, classes, 2, detector)
    fitted = {
        name: fit_class_gaussians(name, values, features.labels, classes, features.ids)
        for name, values in layers(features).items()
    }
    return Mahalanobis(layers, fitted)


class _Blocks(Mapping[str, Floats]):
    """The first blocks by description, each read on access."""

    def __init__(self, blocks: Sequence[Floats], count: int) -> None:
        self.blocks = blocks
        self.numbers = {f"features of block {number + 1}": number for number in range(count)}

    def __getitem__(self, name: str) -> Floats:
        return self.blocks[self.numbers[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)


def _last(features: Features) -> Mapping[str, Floats]:
    return {"penultimate features": features.penultimate}


def _logits(features: Features) -> Mapping[str, Floats]:
    return {"logits": features.logits}


def _all(features: Features) -> Mapping[str, Floats]:
    _require_blocks(features)
    return _Blocks(features.blocks, len(features.blocks))


def _first(features: Features) -> Mapping[str, Floats]:
    _require_blocks(features)
    return _Blocks(features.blocks, 1)


def _require_blocks(features: Features) -> None:
    if not features.blocks:
        raise EvaluationError("There are no features of the model's blocks; extract with blocks.")


def make_mahalanobis(features: Features, head: Head | None) -> Mahalanobis:
    """Mahalanobis distance to the nearest class, of the penultimate features (MDS_l).

    Formula: min_c (z - mean_c)^T S^-1 (z - mean_c) with S the covariance within classes, `fit_class_gaussians`.
    Source: Lee et al. 2018, equation 2, without input preprocessing; this layer alone: BROAD, section 3.

    Args:
        features: labelled in-distribution rows, at least two of each class.
        head: not read.

    Raises:
        EvaluationError: a class has fewer rows, a row is unlabelled, or the covariance cannot be inverted.
    """
    return _fit(features, "mahalanobis", _last)


def make_mahalanobis_first(features: Features, head: Head | None) -> Mahalanobis:
    """As `make_mahalanobis`, of the first block's pooled features (MDS_f; BROAD, section 3)."""
    return _fit(features, "mahalanobis_first", _first)


def make_mahalanobis_all(features: Features, head: Head | None) -> Mahalanobis:
    """As `make_mahalanobis`, averaged over all blocks with equal weights (MDS_all; BROAD, section 3).

    Formula: 1/B sum_b min_c (z_b - mean_bc)^T S_b^-1 (z_b - mean_bc). Blocks are neither scaled nor weighted by their
    width: for in-distribution rows, a block's term is about its D_b, so wide blocks count more.
    """
    return _fit(features, "mahalanobis_all", _all)


def make_mahalanobis_logits(features: Features, head: Head | None) -> Mahalanobis:
    """As `make_mahalanobis`, of the logits (MD of Abdelzad et al. 2020, section 4.4)."""
    return _fit(features, "mahalanobis_logits", _logits)


_LEE = "Lee et al. 2018, equation 2"
_BROAD = f"{_LEE}; Guille-Escuret et al. 2023, section 3"
MAHALANOBIS = Method("mahalanobis", "MDS_l", _BROAD, make_mahalanobis, fit="train")
MAHALANOBIS_FIRST = Method("mahalanobis_first", "MDS_f", _BROAD, make_mahalanobis_first, fit="train")
MAHALANOBIS_ALL = Method("mahalanobis_all", "MDS_all", f"{_BROAD} (mean of blocks)", make_mahalanobis_all, fit="train")
MAHALANOBIS_LOGITS = Method(
    "mahalanobis_logits", "MD", f"{_LEE}; Abdelzad et al. 2020, section 4.4", make_mahalanobis_logits, fit="train"
)
