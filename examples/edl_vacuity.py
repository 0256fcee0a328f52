"""A detector of one's own: vacuity, the uncertainty of a network trained with `examples/train.py --method edl`.

For `--detector examples/edl_vacuity.py:EDLVacuity` of `unknown-detection evaluate score`.
"""

import numpy as np
from scipy.special import logsumexp

from unknown_detection import Detector, Features


def vacuity(features: Features) -> np.ndarray:
    """Vacuity C / S of a Dirichlet distribution with alpha_c = 1 + exp(l_c) and S = sum_c alpha_c.

    In (0, 1): 1 where no class has evidence. Logits are clamped to [-10, 10] as they are for the loss. Source: Sensoy,
    Kaplan and Kandemir, Evidential Deep Learning to Quantify Classification Uncertainty, NeurIPS 2018, section 3.
    """
    logits = features.logits.astype(np.float64).clip(-10, 10)
    classes = logits.shape[1]
    return 1 / (1 + np.exp(logsumexp(logits, axis=1)) / classes)


class EDLVacuity(Detector):
    """Vacuity as a detector, which needs no fitting."""

    name, title, source = "edl_vacuity", "EDL", "Sensoy et al. 2018, section 3"

    def score(self, features: Features) -> np.ndarray:
        """Return one score per row; shape (n,)."""
        return vacuity(features)
