"""NAC-UE against torch's gradient of the divergence, and counts by loops."""

import dataclasses
import math

import numpy as np
import pytest

from tests.evaluation.detectors.toy import WIDTH, toy_features, toy_head
from unknown_detection.evaluation.detectors import NACUE

HEAD = toy_head()
FITTED, TESTED = toy_features(rows=120, seed=1), toy_features(rows=20, seed=2, unknown=10)


def states(features, steepness):
    """The sigmoid of each feature times the gradient of the divergence from the uniform distribution."""
    torch = pytest.importorskip("torch", reason="torch differentiates")
    z = torch.from_numpy(features.penultimate).double().requires_grad_()
    logits = z @ torch.from_numpy(HEAD.weight).double().T + torch.from_numpy(HEAD.bias)
    divergence = torch.nn.functional.kl_div(logits.log_softmax(1), torch.full_like(logits, 1 / 4), reduction="sum")
    (gradient,) = torch.autograd.grad(divergence, z)
    return torch.sigmoid(steepness * z * gradient).detach().numpy()


@pytest.mark.parametrize(("steepness", "bins", "enough"), [(1.0, 50, 10), (100.0, 8, 50), (5.0, 500, 1)])
def test_scores_are_shares_of_covered_neurons(steepness, bins, enough):
    steps = [math.log(1 + (math.sqrt(1000) - 1) * step / (bins // 2 - 1), 1000) for step in range(bins // 2)]
    ends = steps[:-1] + [1 - end for end in steps[::-1]]

    def place(state):
        return sum(end <= state for end in ends[:-1])  # none is beyond the last

    fitted = [[place(state) for state in row] for row in states(FITTED, steepness)]
    expected = []
    for row in states(TESTED, steepness):
        counts = [sum(other[d] == place(row[d]) for other in fitted) for d in range(WIDTH)]
        expected.append(-np.mean([min(1, count / enough) for count in counts]))
    exact = [
        dataclasses.replace(rows, logits=rows.penultimate.astype(float) @ HEAD.weight.T.astype(float) + HEAD.bias)
        for rows in (FITTED, TESTED)
    ]
    detector = NACUE(steepness=steepness, bins=bins, enough=enough).fit(exact[0], HEAD)
    np.testing.assert_allclose(detector.score(exact[1]), expected, rtol=1e-12)
