"""Mahalanobis distance to the classes (MDS) of the last layer, the first block, all blocks or the logits; RMDS.

Mahalanobis++ and the radial distance are those of features divided by their length or a power of it. GMM has a
covariance for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import FEATURES, LOGITS, RowDetector, Scores, setting
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features, Floats, Integers

_ROUNDINGS = 8
"""Allowed rounding error of each of D features, in units in the last place of its typical value.

For float32 logits with a constant sum, from layers of 64 to 2,048 synthetic features and 10 to 1,000 classes, the
variance left unexplained by the other logits was at most D (2.4 units)^2.
"""

_MOST = 8 << 30
"""Bytes of covariances that are fitted at most (ours): 1,000 classes of 1,000 features, or 250 of 2,048."""


@dataclass(frozen=True)
class ClassGaussians:
    """One Gaussian per class, with a shared covariance.

    `centre`, the mean of the class means, is subtracted first, because differences of large numbers lose digits;
    `scale` are the features' standard deviations within classes, `factor` (D, D) the lower Cholesky factor of the
    covariance of features divided by these, and `means` (C, D) the class means, whitened: mapped so that the
    covariance is the identity. `shrinkage` is the weight of the Ledoit-Wolf target in the covariance, 0 for none.
    """

    centre: Doubles
    scale: Doubles
    factor: Doubles
    means: Doubles
    shrinkage: float

    def distances(self, values: Doubles) -> Scores:
        """Compute the squared Mahalanobis distance of values, shape (m, D), to the nearest class mean, shape (m,)."""
        # A matrix product finds the nearest mean; the distance to it is then computed without cancellation.
        white = whiten((values - self.centre) / self.scale, self.factor)
        white -= self.means[(arrays.dots(self.means, self.means) - 2 * (white @ self.means.T)).argmin(axis=1)]
        return arrays.dots(white, white)


def whiten(values: Doubles, factor: Doubles) -> Doubles:
    """Map centred values, which are overwritten, so that a covariance with this Cholesky factor is the identity."""
    return solve_triangular(factor, values.T, lower=True, overwrite_b=True, check_finite=False).T


def fit_class_gaussians(
    name: str, values: Floats, labels: Integers, classes: int, of: Callable[[Doubles], Doubles] = lambda chunk: chunk
) -> ClassGaussians:
    """Fit class means and the within-class covariance of values, described by `name`, after applying `of` to rows.

    The covariance is S = 1/n sum (x - mean_y) (x - mean_y)^T. If it is singular up to rounding, as with fewer than D +
    C rows, a constant feature, or logits with a constant sum, it is shrunk to (1 - r) S + r tr(S)/D I with the r of
    Ledoit and Wolf.

    Source: Lee et al., A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks,
    NeurIPS 2018, equation 1; Ledoit and Wolf, A Well-conditioned Estimator for Large-dimensional Covariance Matrices,
    Journal of Multivariate Analysis 88, 2004, section 3.
    """
    count, width = values.shape
    means = arrays.class_means(values, labels, classes, of)
    covariance = np.zeros((width, width))
    fourth = 0.0
    for rows, chunk in arrays.pieces(values):
        residuals = of(chunk) - means[labels[rows]]
        covariance += residuals.T @ residuals
        fourth += float((arrays.dots(residuals, residuals) ** 2).sum())
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
    assert factored is not None  # the target's part exceeds the rounding
    scale, factor = factored
    centre = means.mean(axis=0)
    return ClassGaussians(centre, scale, factor, whiten((means - centre) / scale, factor), shrinkage)


def _scaled_cholesky(covariance: Doubles, rounding: Doubles) -> tuple[Doubles, Doubles] | None:
    """Return standard deviations and the factor of the correlations; None if these are singular up to rounding.

    `rounding` is the variance that it may add to each feature, shape (D,).
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
    noise = len(scale) * np.maximum(np.finfo(float).eps, rounding / variance)
    return (scale, factor) if (np.diag(factor) ** 2 > noise).all() else None


def _ledoit_wolf(covariance: Doubles, fourth: float, count: int) -> float:
    """Return the weight of the identity: the estimated error of S over its squared distance to the target.

    `fourth` is the sum over the n rows of the fourth power of the residual's norm.
    """
    squares = float(np.einsum("ij,ij->", covariance, covariance))
    error = (fourth / count - squares) / count
    distance = squares - float(np.trace(covariance)) ** 2 / len(covariance)
    return 1.0 if distance <= 0 else min(error / distance, 1.0)


class _Distances(RowDetector):
    """The mean over layers of the squared distance to the nearest class."""

    layer: ClassVar[str] = FEATURES

    def _layers(self, features: Features) -> Iterator[tuple[str, Floats]]:
        """Yield the layers with their names in errors; each is read when it is asked for."""
        if self.layer in (FEATURES, LOGITS):
            yield from self._read(features, [self.layer]).items()
            return
        arrays.require_blocks(features.blocks, self.name)
        for number in range(1 if self.layer == "first block" else len(features.blocks)):
            yield f"features of block {number + 1}", features.blocks[number]

    def _learn(self, features: Features) -> None:
        classes = features.logits.shape[1]
        arrays.require_rows_of_each_class(features.labels, classes, 2, self.name)
        self.gaussians = []
        for name, values in self._layers(features):
            arrays.require_finite(name, values, features.ids)
            self.gaussians.append(fit_class_gaussians(name, values, features.labels, classes, self._map))

    def score(self, features: Features) -> Scores:
        """See `Detector.score`."""
        self._require_fitted()
        total = np.zeros(len(features))
        for (name, values), fitted in zip(self._layers(features), self.gaussians, strict=True):
            total += arrays.score_in_chunks(partial(self._distances, fitted), {name: values}, features.ids)
        return total / len(self.gaussians)

    def _map(self, values: Doubles) -> Doubles:
        """Map rows before anything is fitted to them, or measured; by default, leave them as they are."""
        return values

    def _distances(self, fitted: ClassGaussians, values: Doubles) -> Scores:
        return fitted.distances(self._map(values))


class Mahalanobis(_Distances):
    """Mahalanobis distance to the nearest class, of the penultimate features (MDS_l).

    Formula: min_c (z - mean_c)^T S^-1 (z - mean_c) with S the covariance within classes, `fit_class_gaussians`; at
    least two rows of each class are needed. If S is singular up to rounding, it is shrunk as by Ledoit and Wolf (ours;
    the authors' code takes the pseudoinverse).
    Source: Lee et al. 2018, equation 2, without input preprocessing; this layer alone: BROAD, section 3.
    """

    name, title = "mahalanobis", "MDS"
    source = "Lee et al. 2018, equation 2; Guille-Escuret et al. 2023, section 3"
    compared = "pytorch-ood 0.4"


class MahalanobisFirst(_Distances):
    """As `Mahalanobis`, of the first block's pooled features (MDS_f; BROAD, section 3)."""

    name, title, source = "mahalanobis_first", "MDS (first)", Mahalanobis.source
    layer = "first block"


class MahalanobisAll(_Distances):
    """As `Mahalanobis`, averaged over all blocks with equal weights (MDS_all; BROAD, section 3).

    Formula: 1/B sum_b min_c (z_b - mean_bc)^T S_b^-1 (z_b - mean_bc). Blocks are neither scaled nor weighted by their
    width: for in-distribution rows, a block's term is about its D_b, so wide blocks count more.
    """

    name, title, source = "mahalanobis_all", "MDS (all)", f"{Mahalanobis.source} (mean of blocks)"
    compared = "pytorch-ood 0.4"
    layer = "blocks"


class MahalanobisLogits(_Distances):
    """As `Mahalanobis`, of the logits (MD of Abdelzad et al. 2020, section 4.4)."""

    name, title = "mahalanobis_logits", "MDS (logits)"
    source = "Lee et al. 2018, equation 2; Abdelzad et al. 2020, section 4.4"
    layer = LOGITS


class RMDS(Mahalanobis):
    """Relative Mahalanobis distance of the penultimate features (RMDS).

    Formula: min_c MD_c(z) - MD_0(z), with MD_c(z) = (z - mean_c)^T S^-1 (z - mean_c) as in `Mahalanobis`, and MD_0 the
    same with the mean and the covariance of all fitted rows, whatever their class. Either covariance is shrunk as by
    Ledoit and Wolf if it is singular up to rounding, see `fit_class_gaussians` (ours).
    Source: Ren et al., A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection, 2021, section 3.
    """

    name, title, source = "rmds", "RMDS", "Ren et al. 2021, section 3"
    compared = "pytorch-ood 0.4"

    def _learn(self, features: Features) -> None:
        super()._learn(features)
        one_class = np.zeros_like(features.labels)
        self.background = fit_class_gaussians(FEATURES, features.penultimate, one_class, 1, self._map)

    def _distances(self, fitted: ClassGaussians, values: Doubles) -> Scores:
        mapped = self._map(values)
        return fitted.distances(mapped) - self.background.distances(mapped)


class MahalanobisPP(Mahalanobis):
    """Mahalanobis distance of features of length 1 to the nearest class (Mahalanobis++).

    Formula: as `Mahalanobis` with z / ||z|| in place of z, for the fit and for the score.
    Source: Müller and Hein, Mahalanobis++: Improving OOD Detection via Feature Normalization, ICML 2025, section 4.
    Nothing is to be set or searched.
    """

    name, title, source = "mahalanobis_pp", "Mahalanobis++", "Müller and Hein 2025, section 4"
    compared = "the authors' code (53de550); scikit-learn"

    _map = staticmethod(arrays.unit)


class RMDSPP(RMDS):
    """Relative Mahalanobis distance of features of length 1 (relative Mahalanobis++).

    Formula: as `RMDS` with z / ||z|| in place of z, in the distance to the classes and to all rows.
    Source: Müller and Hein 2025, section 4, as `MahalanobisPP`.
    """

    name, title, source = "rmds_pp", "RMDS++", "Müller and Hein 2025, section 4"
    compared = MahalanobisPP.compared

    _map = staticmethod(arrays.unit)


class MahalanobisRadial(Mahalanobis):
    """Mahalanobis distance of radially scaled features.

    Formula: as `Mahalanobis` with z / ||z||^beta in place of z: beta = 0 is `Mahalanobis`, beta = 1 Mahalanobis++.
    Source: Janiak, Binkowski and Kajdanowicz, A Geometry-Based View of Mahalanobis OOD Detection, 2025 (arXiv
    2510.15202), the map phi_beta. The authors choose beta by spectra and intrinsic dimension of the known rows; here
    it is searched, and the default and the list are ours.
    """

    name, title, source = "mahalanobis_radial", "Mahalanobis (radial)", "Janiak et al. 2025, the map phi_beta"
    compared = "scikit-learn"

    beta: float = setting(1.0, 0.0, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, allowed=ranges.at_least(0))

    def _map(self, values: Doubles) -> Doubles:
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        return values / np.where(norms > 0, norms, 1.0) ** self.beta


class GMM(RowDetector):
    """Negative log density of the features under a mixture of one Gaussian a class (GMM).

    Formula: -log sum_c n_c / n N(z; m_c, S_c + r I) with n_c, m_c and S_c the number, mean and covariance of the
    fitted rows of class c, and r the `regularization`.
    Source: a classical baseline without a paper of its own, in pytorch-ood 2025 in this form; its r is 1e-6. OpenOOD's
    fits a mixture without labels to 50 principal components.
    """

    name, title, source = "gmm", "GMM", "pytorch-ood 2025 (no paper)"
    compared = "pytorch-ood 0.4"

    regularization: float = setting(1e-6, 1e-4, 1e-2, 1.0, allowed=ranges.POSITIVE)

    def _learn(self, features: Features) -> None:
        classes, width = features.logits.shape[1], features.penultimate.shape[1]
        arrays.require_rows_of_each_class(features.labels, classes, 1, self.name)
        if classes * width**2 * 8 > _MOST:
            raise EvaluationError(
                f"gmm fits a covariance to each of {classes:,} classes, of {width:,} features: "
                f"{classes * width**2 * 8 / (1 << 30):,.0f} GiB. Leave it out; mahalanobis has one for all of them."
            )
        order = np.argsort(features.labels, kind="stable")
        self.means: list[Doubles] = []
        self.factors: list[Doubles] = []
        constants: list[float] = []
        for rows in np.split(order, np.cumsum(np.bincount(features.labels, minlength=classes))[:-1]):
            z = features.penultimate[rows].astype(np.float64)
            self.means.append(z.mean(axis=0))
            z -= self.means[-1]
            covariance = z.T @ z / len(z)
            covariance[np.diag_indices(width)] += self.regularization
            try:
                factor = np.linalg.cholesky(covariance)
            except np.linalg.LinAlgError as error:
                raise EvaluationError(
                    f"The covariance of class {len(constants)} is singular with regularization "
                    f"{self.regularization:g}, from {len(z):,} rows of {width:,} features. Give gmm a greater one."
                ) from error
            self.factors.append(np.asarray(factor, np.float64))
            logarithm = np.log(np.diag(factor)).sum() + width / 2 * np.log(2 * np.pi)
            constants.append(np.log(len(z) / len(features)) - logarithm)
        self.constants = np.array(constants)

    def _rows(self, z: Doubles) -> Scores:
        distances = np.empty((len(z), len(self.means)))
        for column, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            white = whiten(z - mean, factor)
            distances[:, column] = arrays.dots(white, white)
        return -logsumexp(self.constants - distances / 2, axis=1)
