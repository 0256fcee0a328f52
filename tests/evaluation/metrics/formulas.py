"""Formulas as functions of scores and flags, for tests."""

import numpy as np

from unknown_detection.evaluation.metrics import metrics
from unknown_detection.evaluation.metrics.ranking import rank


def _of_scores(formula):
    return lambda scores, flags, **options: formula(rank(scores, flags)[0], **options)


eaurc = _of_scores(metrics.eaurc)
detection_error = _of_scores(metrics.detection_error)
interpolated_fpr_at_95_tpr = _of_scores(metrics.interpolated_fpr_at_95_tpr)
least_detection_error_at_95_tpr = _of_scores(metrics.least_detection_error_at_95_tpr)


def balanced_accuracy(unknown, rejected):
    """Of decisions, in place of scores."""
    return metrics.roc_area(rank(np.asarray(rejected).astype(np.int8), unknown)[0])
