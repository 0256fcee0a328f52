"""Joining scores to rows by id: every answer worked out by hand on five rows."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.scoring.joining import ReleaseIndex, join_scores
from unknown_detection.evaluation.scoring.rows import Rows

NAMES = {"c": ("cat", "dog"), "d": ("dog",)}

ROWS = [
    ("c", "test", "t0", 0),
    ("c", "test", "t1", 1),
    ("c", "near_ood", "n0", -1),
    ("c", "validation", "v0", 0),
    ("c", "validation", "v1", 1),
]


def index(*more):
    config, split, id_, label = map(np.array, zip(*ROWS, *more, strict=True))
    role = np.where(label < 0, "near_ood", "in_distribution")
    return ReleaseIndex(Rows(id_, config, split, role, label, id_, id_, np.zeros(len(id_))), NAMES)


def scores(ids, values=None, detector="msp", **columns):
    values = [float(n) for n in range(len(ids))] if values is None else values
    names = [detector] * len(ids) if isinstance(detector, str) else detector
    return pa.table({"id": ids, "detector": names, "score": values, **columns})


def joined(table, *more, **fitted_on):
    return join_scores(index(*more), table, "mine.csv", **fitted_on)


def refusal(table, *more, **fitted_on):
    with pytest.raises(EvaluationError) as refused:
        joined(table, *more, **fitted_on)
    return str(refused.value)


def test_confidences_come_with_their_rows_and_nan_where_there_is_none():
    ids = ["n0", "t1", "t0"]
    msp = joined(scores(ids, confidence=pa.array([None, 0.5, 0.75], pa.float64())))["msp"]
    assert msp.confidence[:2].tolist() == [0.75, 0.5]
    assert np.isnan(msp.confidence[2])
    assert joined(scores(ids))["msp"].confidence is None


def test_scores_come_in_the_order_of_the_rows():
    msp = joined(scores(["v1", "n0", "t1", "v0", "t0"], prediction=[0, 1, 1, 1, 0]))["msp"]
    assert msp.id.tolist() == ["t0", "t1", "n0", "v0", "v1"]
    assert msp.score.tolist() == [4.0, 2.0, 1.0, 3.0, 0.0]
    assert msp.prediction.tolist() == [0, 1, 1, 1, 0]


def test_a_split_that_is_not_judged_may_be_left_out_whole():
    msp = joined(scores(["n0", "t1", "t0"]))["msp"]
    assert msp.id.tolist() == ["t0", "t1", "n0"]
    assert msp.score.tolist() == [2.0, 1.0, 0.0]
    assert msp.prediction is None
    assert "2 rows of c/validation" in refusal(scores(["n0", "t1", "t0", "v1"]))


def test_rows_that_detectors_were_fitted_on_need_no_score():
    table = scores(["n0", "t1", "t0", "v1"])
    assert joined(table, fitted_on=pa.array(["v0"]))["msp"].id.tolist() == ["t0", "t1", "n0", "v1"]
    # Rows to evaluate need one all the same.
    assert "1 id (t0)" in refusal(scores(["n0", "t1"]), fitted_on=pa.array(["t0"]))


def test_scores_without_provenance_may_lack_the_fit_half_of_a_split_and_no_other_part_of_it():
    """Of a class of one row, the fit half is that row; of two, the one whose SHA-256 is less."""
    third = ("c", "validation", "v2", 1)
    less, other = sorted(("v1", "v2"), key=lambda id_: hashlib.sha256(f"fit half\t{id_}".encode()).digest())
    assert joined(scores(["n0", "t1", "t0", other]), third)["msp"].id.tolist() == ["t0", "t1", "n0", other]
    for kept in ([less], ["v0", other], ["v0", less]):
        assert "of the 3 rows of c/validation" in refusal(scores(["n0", "t1", "t0", *kept]), third)
    assert "1 id (t0)" in refusal(scores(["n0", "t1", other]), third)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (scores(["t0", "t1", "v0", "v1"]), "mine.csv lacks scores of msp for 1 id (n0) of the 1 rows of c/near_ood"),
        (scores(["t0", "n0", "t1", "t0", "n0"], detector=["msp"] * 3 + ["energy"] * 2), "of energy for 1 id (t1)"),
        (scores(["t0", "t1", "n0", "x", "x", "y"]), "2 ids (x, y)"),
        (scores(["t0", "t1", "n0", "t1"]), "mine.csv has several scores of msp for 1 id (t1)"),
    ],
)
def test_ids_that_are_missing_of_no_row_or_there_twice_are_counted_and_named(table, says):
    assert says in refusal(table)


def test_an_id_may_be_there_for_two_detectors():
    by_detector = joined(scores(["t0", "n0", "t1"] * 2, [0, 1, 2, 3, 4, 5.0], ["msp"] * 3 + ["energy"] * 3))
    assert list(by_detector) == ["msp", "energy"]
    assert by_detector["energy"].score.tolist() == [3.0, 5.0, 4.0]


def test_an_id_in_two_splits_has_the_same_score_in_both():
    msp = joined(scores(["t0", "t1", "n0"]), ("d", "test", "t1", 0))["msp"]
    assert msp.id.tolist() == ["t0", "t1", "n0", "t1"]
    assert msp.score.tolist() == [0.0, 1.0, 2.0, 1.0]


def test_predictions_may_be_numbers_or_names_and_are_needed_where_there_is_a_class():
    numbers = joined(scores(["t0", "t1", "n0"], prediction=pa.array([1, 0, None])))["msp"]
    names = joined(scores(["t0", "t1", "n0"], **{"class": ["dog", "cat", None]}))["msp"]
    assert numbers.prediction.tolist() == names.prediction.tolist() == [1, 0, -1]
    assert numbers.prediction.dtype == np.int64
    message = refusal(scores(["t0", "t1", "n0"], prediction=pa.array([1, None, 0])))
    assert "The prediction of msp in mine.csv is missing for labelled rows: 1 id (t1)" in message


def test_a_prediction_and_a_class_that_contradict_each_other_are_refused():
    """Of classes cat and dog; a row with one of them takes what is there."""
    ids = ["t0", "t1", "n0"]
    both = {"prediction": pa.array([1, None, 0]), "class": pa.array(["dog", "cat", None])}
    assert joined(scores(ids, **both))["msp"].prediction.tolist() == [1, 0, 0]
    message = refusal(scores(ids, prediction=[1, 1, 0], **{"class": ["dog", "cat", "cat"]}))
    says = "contradict each other: prediction 1 and class cat and the like at 1 id (t1)"
    assert f"The prediction and the class of msp in mine.csv {says}. Keep the column" in message
    message = refusal(scores(ids, prediction=[-1, 1, -1], **{"class": ["dog", "dog", None]}))
    assert "prediction -1 and class dog and the like at 1 id (t0)" in message


def test_names_of_predicted_classes_in_another_case_or_encoding():
    """Full width, as Unicode's compatibility forms have it (UAX #15)."""
    names = joined(scores(["t0", "t1", "n0"], **{"class": ["Dog", "\uff43\uff41\uff54", None]}))["msp"]
    assert names.prediction.tolist() == [1, 0, -1]


def test_a_detector_may_predict_none_of_the_classes():
    msp = joined(scores(["t0", "t1", "n0"], prediction=[-1, 1, -1]))["msp"]
    assert msp.prediction.tolist() == [-1, 1, -1]


def test_names_are_of_the_classes_of_each_row_s_own_config():
    msp = joined(scores(["t0", "t1", "n0", "d0"], **{"class": ["dog"] * 4}), ("d", "test", "d0", 0))["msp"]
    assert msp.prediction.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    "columns", [{"prediction": [0, 2, 0]}, {"prediction": [0, -2, 0]}, {"class": ["cat", "Dogs", "cat"]}]
)
def test_a_prediction_that_is_no_class_is_refused(columns):
    message = refusal(scores(["t0", "t1", "n0"], **columns))
    assert "one of the 2 classes of c" in message
    assert f"classes of c: {next(iter(columns.values()))[1]} and the like at 1 id (t1)" in message
