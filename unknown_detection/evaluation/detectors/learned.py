"""Detectors that scikit-learn fits: OODL, a one-class support vector machine, and the mixtures Ens-V, Ens-R and Ens-F.

Tested by `tests/evaluation/detectors/test_oodl.py` and `tests/evaluation/detectors/test_ensembles.py`.
"""

from __future__ import annotations

import numpy as np

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import LOGITS, RowDetector, Scores, setting
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features, Floats


class OODL(RowDetector):
    """One-class support vector machine on a block's standardized features (OODL).

    Formula: -sum_i a_i exp(-g ||x - v_i||^2) with x = (f - mean) / deviation, v_i and a_i the support vectors and
    coefficients, g = 1 / (D var(x)); the offset, a constant, is omitted.
    Source: Abdelzad et al., Detecting Out-of-Distribution Inputs in Deep Neural Networks Using an Early-Layer Output,
    2019, section 3; kernel, g, nu = 0.001 and the standardization as in their code. They choose the layer by the error
    on unknown validation rows, and find early ones best; here `depth` is searched.

    Args:
        depth: position of the block, from 0 for the first to 1 for the last; the nearest is used.
        nu: upper bound of the fraction of fitted rows outside.
        rows: maximum number of rows to fit on, because the time grows with its square; drawn by id, whatever their
            order.
        seed: random seed of that draw.
    """

    name, title, source = "oodl", "OODL", "Abdelzad et al. 2019, section 3"
    cost = "search"
    requires = ("sklearn",)

    depth: float = setting(0.0, 0.25, 0.5, 0.75, 1.0, allowed=ranges.SHARE)
    nu: float = setting(0.001, 0.01, 0.1, allowed=ranges.Range("above 0, up to 1", lambda value: 0 < value <= 1))
    rows: int = setting(10_000, allowed=ranges.at_least(2))
    seed: int = 0

    def _learn(self, features: Features) -> None:
        from sklearn.svm import OneClassSVM  # optional, and slow to import

        arrays.require_blocks(features.blocks, self.name)
        self.block = round(self.depth * (len(features.blocks) - 1))
        ((name, values),) = self._inputs(features).items()
        arrays.require_finite(name, values, features.ids)
        fitted = values[arrays.draw_rows(features.ids, int(self.rows), self.seed)].astype(np.float64)
        self.mean, deviation = fitted.mean(axis=0), fitted.std(axis=0)
        self.scale = np.where(deviation > 0, deviation, 1.0)
        standard = (fitted - self.mean) / self.scale
        self.gamma = float(1 / (standard.shape[1] * standard.var()))
        machine = OneClassSVM(kernel="rbf", nu=self.nu, gamma=self.gamma).fit(standard)
        self.vectors, self.weights = machine.support_vectors_, machine.dual_coef_[0]

    def _inputs(self, features: Features) -> dict[str, Floats]:
        return {f"features of block {self.block + 1}": features.blocks[self.block]}

    def _rows(self, values: Doubles) -> Scores:
        standard = (values - self.mean) / self.scale
        squares = (standard**2).sum(axis=1)[:, None] + (self.vectors**2).sum(axis=1)
        # scikit-learn's own `score_samples` takes three to ten times as long.
        squares -= 2 * (standard @ self.vectors.T)
        return -np.exp(-self.gamma * np.maximum(squares, 0.0)) @ self.weights


class ScoreMixture(RowDetector):
    """Negative log density of a Gaussian mixture of other detectors' scores.

    Formula: -log sum_i w_i N(s; m_i, S_i) with s the combined scores, standardized by mean and deviation of the fitted
    rows, and full covariances fitted by expectation maximization.
    Source: BROAD (Guille-Escuret et al., Expecting the Unexpected, 2023), section 3 and appendix C: fitted on
    correctly classified held-out rows, with as many components as detect errors among held-out rows best; of 1, 2, 5,
    10 and 20 (tables 6 and 7), 10 there. Standardizing is ours; it keeps the regularization of the covariances (1e-6)
    small relative to every score.

    Args:
        components: number of Gaussians, for each of which enough rows must be correctly classified.
        seed: random seed of the initialization.
    """

    source = "Guille-Escuret et al. 2023, section 3"
    fits_on = "validation"
    inputs = (LOGITS,)  # which tell right rows
    chosen_by = "errors"
    requires = ("sklearn",)

    components: int = setting(10, 1, 2, 5, 20, allowed=ranges.at_least(1))
    seed: int = 0

    def _learn(self, features: Features) -> None:
        components, bases = int(self.components), self.base_methods
        (scores,) = self._inputs(features).values()
        scores = scores[arrays.labels_if_correct(features) >= 0]
        # A full covariance of k scores needs k + 1 rows.
        least = components * (len(bases) + 1)
        if len(scores) < least:
            raise EvaluationError(
                f"{self.name} needs at least {least:,} correctly classified rows to fit {components} components of "
                f"{len(bases)} scores, found {len(scores):,} of {len(features):,}. Fit on more rows, or give fewer "
                "components."
            )
        from sklearn.mixture import GaussianMixture  # optional, and slow to import
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from threadpoolctl import threadpool_limits

        self.mixture = make_pipeline(StandardScaler(), GaussianMixture(components, random_state=self.seed))
        # The rounding of multi-threaded sums differs between machines, and on a busy machine they take minutes.
        with threadpool_limits(1):
            self.mixture.fit(scores)

    def _inputs(self, features: Features) -> dict[str, Floats]:
        return {
            f"scores of {', '.join(self.base_methods)}": np.stack(
                [features.scores[base] for base in self.base_methods], axis=1
            )
        }

    def _rows(self, scores: Doubles) -> Scores:
        return -np.asarray(self.mixture.score_samples(scores))


class EnsV(ScoreMixture):
    """The mixture of BROAD for vision transformers, see `ScoreMixture`."""

    name, title = "ens_v", "Ens-V"
    base_methods = ("gradnorm", "odin", "mahalanobis_all", "mahalanobis", "cadet", "dice", "msp", "max_logit")


class EnsR(ScoreMixture):
    """The mixture of BROAD for ResNets, see `ScoreMixture`."""

    name, title = "ens_r", "Ens-R"
    base_methods = ("gradnorm", "odin", "mahalanobis_all", "mahalanobis", "cadet", "react", "vim", "doctor")


class EnsF(ScoreMixture):
    """The fast mixture of BROAD, see `ScoreMixture`."""

    name, title = "ens_f", "Ens-F"
    base_methods = ("msp", "max_logit", "mahalanobis_all", "mahalanobis", "energy")
