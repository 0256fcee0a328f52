"""The metrics against scikit-learn, pytorch-ood and the formulas of OpenOOD's evaluation, on the same scores."""

import numpy as np
import pytest
from sklearn import metrics as sk

from tests.evaluation.metrics.formulas import (
    balanced_accuracy,
    detection_error,
    interpolated_fpr_at_95_tpr,
    least_detection_error_at_95_tpr,
)
from unknown_detection.evaluation.metrics.metrics import aupr_in, aupr_out, aurc, auroc, fpr_at_95_tpr, oscr

SIZES = (6, 20, 997, 20_000)
TOLERANCE = 1e-9  # that of the issue; what is found is below 1e-12


def rows(size, step=0.0):
    """Scores of two overlapping sides, without ties unless rounded to a step."""
    random = np.random.default_rng(size)
    unknown = random.random(size) < 0.42
    scores = random.normal(size=size) + unknown
    if step:
        return np.round(scores / step) * step, unknown
    assert len(np.unique(scores)) == size
    return scores, unknown


each_size = pytest.mark.parametrize("size", SIZES)
with_and_without_ties = pytest.mark.parametrize("step", [0, 0.5])


@each_size
@with_and_without_ties
def test_equal_to_scikit_learn(size, step):
    scores, unknown = rows(size, step)
    assert auroc(scores, unknown) == pytest.approx(sk.roc_auc_score(unknown, scores), abs=TOLERANCE)
    for ours, positive, sure in ((aupr_out, unknown, scores), (aupr_in, ~unknown, -scores)):
        expected = sk.average_precision_score(positive, sure)
        assert ours(scores, unknown, estimator="average_precision") == pytest.approx(expected, abs=TOLERANCE)
        precision, recall, _ = sk.precision_recall_curve(positive, sure)
        assert ours(scores, unknown, estimator="trapezoid") == pytest.approx(sk.auc(recall, precision), abs=TOLERANCE)
    for side, positive, sure in (("unknown", unknown, scores), ("known", ~unknown, -scores)):
        fpr, tpr, _ = sk.roc_curve(positive, sure, drop_intermediate=False)
        first = np.flatnonzero(tpr >= 0.95)[0]
        assert fpr_at_95_tpr(scores, unknown, positive=side) == pytest.approx(fpr[first], abs=TOLERANCE)
        expected = 0.5 * (1 - tpr[first]) + 0.5 * fpr[first]
        assert detection_error(scores, unknown, positive=side) == pytest.approx(expected, abs=TOLERANCE)
    rejected = scores > 0.5
    expected = sk.balanced_accuracy_score(unknown, rejected)
    assert balanced_accuracy(unknown, rejected) == pytest.approx(expected, abs=TOLERANCE)


@each_size
@with_and_without_ties
def test_equal_to_the_formulas_of_ood_metrics(size, step):
    """Those of its version 1.1.2, written out: it requires NumPy 1. Its error weights the rates by numbers of rows."""
    scores, unknown = rows(size, step)
    for side, positive, sure in (("unknown", unknown, scores), ("known", ~unknown, -scores)):
        fpr, tpr, _ = sk.roc_curve(positive, sure)
        expected = np.interp(0.95, tpr, fpr)
        assert interpolated_fpr_at_95_tpr(scores, unknown, positive=side) == pytest.approx(expected, abs=TOLERANCE)
        # All thresholds: it drops those on straight lines of the curve, the least error among them.
        fpr, tpr, _ = sk.roc_curve(positive, sure, drop_intermediate=False)
        expected = min(0.5 * (1 - tpr[i]) + 0.5 * fpr[i] for i, rate in enumerate(tpr) if rate >= 0.95)
        error = least_detection_error_at_95_tpr(scores, unknown, positive=side)
        assert error == pytest.approx(expected, abs=TOLERANCE)


@each_size
@with_and_without_ties
def test_equal_to_pytorch_ood(size, step):
    torch = pytest.importorskip("torch", reason="pytorch-ood computes on tensors")
    po = pytest.importorskip("pytorch_ood.metrics.functional", reason="compares with pytorch-ood")
    torch.set_num_threads(1)
    scores, unknown = rows(size, step)
    values, labels = torch.tensor(scores), torch.tensor(np.where(unknown, -1, 0))
    assert auroc(scores, unknown) == pytest.approx(float(po.auroc(values, labels)), abs=TOLERANCE)
    for ours, side in ((aupr_out, "ood"), (aupr_in, "id")):
        expected = float(po.aupr(values, labels, positive=side))
        assert ours(scores, unknown, estimator="trapezoid") == pytest.approx(expected, abs=TOLERANCE)
    expected = float(po.fpr_at_tpr(values, labels, tpr=0.95))
    assert fpr_at_95_tpr(scores, unknown, positive="unknown") == pytest.approx(expected, abs=TOLERANCE)
    swapped = float(po.fpr_at_tpr(-values, -1 - labels, tpr=0.95))
    assert fpr_at_95_tpr(scores, unknown, positive="known") == pytest.approx(swapped, abs=TOLERANCE)
    wrong = np.random.default_rng(2).random(size) < 0.2
    expected = float(po.oscr_score(values, torch.tensor(wrong.astype(int)), labels))
    assert oscr(scores, unknown, wrong) == pytest.approx(expected, abs=TOLERANCE)
    if not step:  # theirs counts ties in the order of rows
        accuracy_area = po.aurra(-values, torch.tensor(~(unknown | wrong)))
        assert aurc(scores, unknown | wrong) == pytest.approx(1 - accuracy_area, abs=TOLERANCE)
