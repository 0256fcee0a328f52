"""Bootstrap samples by counts of ranks, against the drawn rows themselves and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from unknown_detection.evaluation.metrics.bootstrap import resampled, row_counts
from unknown_detection.evaluation.metrics.metrics import METRICS, aurc, oscr

NAMES = ("auroc", "fpr_at_95_tpr_known_positive", "aupr_in_average_precision", "aurc", "oscr", "accuracy")


@pytest.mark.parametrize("digits", [1, 8], ids=["tied", "apart"])
def test_samples_are_the_metrics_of_the_rows_that_were_drawn(digits):
    numbers = np.random.default_rng(0)
    known, unknown = numbers.normal(size=90).round(digits), (numbers.normal(size=60) + 1).round(digits)
    labelled = numbers.random(90) < 0.8
    errors = (numbers.random(90) < 0.2) | ~labelled
    counts = row_counts(90, 20, "known"), row_counts(60, 20, "unknown")
    values = resampled(known, unknown, errors, counts, {name: METRICS[name] for name in NAMES}, labelled)
    for sample, (of_known, of_unknown) in enumerate(zip(*counts, strict=True)):
        scores = np.concatenate([np.repeat(known, of_known), np.repeat(unknown, of_unknown)])
        truth = np.repeat([0, 1], [90, 60])
        wrong = np.concatenate([np.repeat(errors, of_known), np.ones(60, bool)])
        false, true, _ = roc_curve(1 - truth, -scores, drop_intermediate=False)
        expected = {
            "auroc": roc_auc_score(truth, scores),
            "fpr_at_95_tpr_known_positive": false[np.argmax(true >= 0.95)],
            "aupr_in_average_precision": average_precision_score(1 - truth, -scores),
            "aurc": aurc(scores, wrong),
            "oscr": oscr(scores, truth, wrong),
            "accuracy": 1 - np.repeat(errors[labelled], of_known[labelled]).mean(),
        }
        assert {name: of[sample] for name, of in values.items()} == pytest.approx(expected, abs=1e-12)


def test_as_many_rows_are_drawn_as_there_are_and_the_same_by_the_same_name():
    counts = row_counts(50, 400, "a")
    assert (counts.sum(axis=1) == 50).all()
    assert np.array_equal(counts, row_counts(50, 400, "a"))
    assert not np.array_equal(counts, row_counts(50, 400, "b"))
    assert counts.mean() == 1 and counts.var() == pytest.approx(1 - 1 / 50, abs=0.05)  # of a binomial
