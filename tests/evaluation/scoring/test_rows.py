from dataclasses import replace

import numpy as np
import pytest

from tests.evaluation.made_rows import make_rows
from unknown_detection.evaluation.errors import EvaluationError

ROWS = make_rows(
    ("cifar", "test", "in_distribution", [0.1, 0.2, 0.3], {"label": [0, 1, 2], "wrong": [False, True, False]}),
    ("cifar", "far_ood_svhn", "far_ood", [0.9, 0.8]),
    ("cifar", "near_ood", "near_ood", [0.4]),
    ("other", "far_ood_dtd", "far_ood", [0.7], {"label": [5]}),
)


def test_rows_know_their_sides_and_mistakes():
    order = np.argsort(ROWS.score)
    assert ROWS.known[order].tolist() == [True, True, True, False, False, False, False]
    # Unlabelled rows are wrong whatever is predicted, -1 for nothing included; a labelled one may be right.
    expected = [False, True, False, True, False, True, True]
    assert ROWS.wrong[order].tolist() == expected
    unpredicted = replace(ROWS, prediction=np.where(ROWS.label < 0, -1, ROWS.prediction))
    assert unpredicted.wrong[order].tolist() == expected


def test_rows_are_chosen_and_divided():
    some = ROWS.where(ROWS.score < 0.25)
    assert sorted(some.score) == [0.1, 0.2]
    assert len(some.prediction) == len(some) == 2
    assert some.duplicate is None
    assert {name: len(rows) for name, rows in ROWS.by("config").items()} == {"cifar": 6, "other": 1}
    assert list(ROWS.by("split")) == ["far_ood_dtd", "far_ood_svhn", "near_ood", "test"]


def test_unknown_splits_follow_the_roles():
    assert list(ROWS.unknown_splits(("near_ood", "far_ood"))) == ["near_ood", "far_ood_dtd", "far_ood_svhn"]


def test_rankings_hold_the_right_rows():
    ranking = ROWS.known_rows("test").against(*ROWS.unknown_splits(["near_ood"]).values())
    assert (ranking.known.tolist(), ranking.unknown.tolist()) == ([0, 1, 2, 3, 3], [0, 0, 0, 0, 1])
    ranking = ROWS.known_rows("test").by_errors()
    assert (ranking.known.tolist(), ranking.unknown.tolist()) == ([0, 1, 1, 2], [0, 0, 1, 1])


def test_missing_rows_are_named():
    with pytest.raises(EvaluationError, match="validation of cifar and other has no in-distribution rows among 7"):
        ROWS.known_rows("validation")
    with pytest.raises(EvaluationError, match=r"no rows of the role external \(found: far_ood, in_distribution, near"):
        ROWS.unknown_splits(["external"])


def test_predictions_are_asked_for():
    with pytest.raises(EvaluationError, match="has no predictions; add a column prediction"):
        replace(ROWS, prediction=None).by_errors()
