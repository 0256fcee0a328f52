"""The optimizer paper's comparison on equal numbers of rows, by scikit-learn's areas."""

import hashlib
import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.evaluation.made_rows import make_rows, only
from tests.evaluation.protocols.test_registry import CIFAR, NEAR, SVHN, TEST, draw, fpr_at_95
from tests.examples.papers.scripts import script


def first_by_hash(split, role, scores, count):
    """The scores of the rows whose ids have the least SHA-256 with the protocol's key."""
    ids = [f"cifar/{split}/{role}/{i:04d}" for i in range(len(scores))]
    ranked = sorted(ids, key=lambda id_: hashlib.sha256(f"equal-numbers\t{id_}".encode()).hexdigest())
    return [scores[ids.index(id_)] for id_ in ranked[:count]]


def test_equal_numbers_draws_from_the_larger_side_by_a_keyed_hash():
    """60 known rows against 40 and 30 unknown ones, and against 80, of which 60 are drawn; by scikit-learn's areas."""
    large = draw(80, 1.5)
    groups = [*CIFAR, ("cifar", "far_ood_large", "far_ood", large)]
    measured = script("equal_numbers")["EQUAL_NUMBERS"].figures(make_rows(*groups))
    for split, role, unknown in (
        ("near_ood", "near_ood", NEAR),
        ("far_ood_svhn", "far_ood", SVHN),
        ("far_ood_large", "far_ood", large),
    ):
        count = min(60, len(unknown))
        known = first_by_hash("test", "in_distribution", TEST, count)
        drawn = first_by_hash(split, role, unknown, count)
        scores, truth = np.array([*known, *drawn]), np.repeat([0, 1], count)
        fpr = fpr_at_95(known, drawn)
        expected = {
            "fpr_at_95_tpr_known_positive": fpr,
            # At the threshold the TPR is the least share of known rows that is 95 % or more.
            "detection_error_known_positive": 0.5 * (1 - math.ceil(count * 0.95 - 1e-9) / count) + 0.5 * fpr,
            "auroc": roc_auc_score(truth, scores),
            "aupr_out_average_precision": average_precision_score(truth, scores),
            "aupr_in_average_precision": average_precision_score(1 - truth, -scores),
        }
        of_split = [f for f in measured if f["unknown"] == split]
        assert {f["metric"]: f["value"] for f in of_split} == pytest.approx(expected, abs=1e-12)
        assert {(f["n_known"], f["n_unknown"]) for f in of_split} == {(count, count)}
    # On all rows, AUPR is another one.
    everything = average_precision_score([0] * 60 + [1] * 30, [*TEST, *SVHN])
    assert only(measured, unknown="far_ood_svhn", metric="aupr_out_average_precision")["value"] > everything + 0.05
