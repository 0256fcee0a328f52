"""NCI against its definition, by loops; `test_against_pytorch_ood.py` compares it with pytorch-ood's."""

import dataclasses

import numpy as np
import pytest

from tests.evaluation.detectors.toy import WIDTH, toy_features, toy_head
from unknown_detection.evaluation.detectors import NCI
from unknown_detection.evaluation.errors import EvaluationError

HEAD = toy_head()
FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


@pytest.mark.parametrize("alpha", [0.0, 0.0001, 0.1])
def test_scores_are_the_projection_on_the_centred_features_and_their_l1_norm(alpha):
    mean = np.mean([z.astype(float) for z in FITTED.penultimate], axis=0)
    expected = []
    for z, logits in zip(TESTED.penultimate.astype(float), TESTED.logits, strict=True):
        weights = HEAD.weight[np.argmax(logits)].astype(float)
        projection = sum(w * (x - m) for w, x, m in zip(weights, z, mean, strict=True))
        expected.append(-projection / sum((z - mean) ** 2) ** 0.5 - alpha * sum(map(abs, z)))
    np.testing.assert_allclose(NCI(alpha=alpha).fit(FITTED, HEAD).score(TESTED), expected, rtol=1e-11)


def test_a_row_at_the_mean_has_no_score():
    half = dataclasses.replace(
        FITTED, penultimate=np.repeat([[0.0], [1.0]], len(FITTED) // 2, axis=0) * np.ones(WIDTH)
    )
    tested = dataclasses.replace(TESTED.take([0]), penultimate=np.full((1, WIDTH), 0.5))
    with pytest.raises(EvaluationError, match=f"The score of '{tested.ids[0]}' is nan"):
        NCI().fit(half, HEAD).score(tested)
