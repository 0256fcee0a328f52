"""Joining scores to rows by id: every answer worked out by hand on five rows."""

import numpy as np
import pyarrow as pa
import pytest

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.scoring.joining import join_scores

NAMES = {"c": ("cat", "dog"), "d": ("dog",)}


def index():
    rows = [
        ("c", "test", "t0", 0),
        ("c", "test", "t1", 1),
        ("c", "near_ood", "n0", -1),
        ("c", "validation", "v0", 0),
        ("c", "validation", "v1", 1),
    ]
    return pa.table(dict(zip(("config", "split", "id", "label"), map(list, zip(*rows, strict=True)), strict=True)))


def scores(ids, values=None, detector="msp", **columns):
    values = [float(n) for n in range(len(ids))] if values is None else values
    names = [detector] * len(ids) if isinstance(detector, str) else detector
    return pa.table({"id": ids, "detector": names, "score": values, **columns})


def joined(table, rows=None):
    return join_scores(rows or index(), table, label_names=NAMES, where="mine.csv")


def refusal(table):
    with pytest.raises(EvaluationError) as refused:
        joined(table)
    return str(refused.value)


def test_confidences_come_with_their_rows_and_nan_where_there_is_none():
    ids = ["n0", "t1", "t0"]
    msp = joined(scores(ids, confidence=pa.array([None, 0.5, 0.75], pa.float64())))["msp"]
    assert msp.confidence[:2].tolist() == [0.75, 0.5]
    assert np.isnan(msp.confidence[2])
    assert joined(scores(ids))["msp"].confidence is None


def test_scores_come_in_the_order_of_the_rows():
    msp = joined(scores(["v1", "n0", "t1", "v0", "t0"], prediction=[0, 1, 1, 1, 0]))["msp"]
    assert msp.rows.tolist() == [0, 1, 2, 3, 4]
    assert msp.score.tolist() == [4.0, 2.0, 1.0, 3.0, 0.0]
    assert msp.prediction.tolist() == [0, 1, 1, 1, 0]


def test_a_split_that_is_not_judged_may_be_left_out_whole():
    msp = joined(scores(["n0", "t1", "t0"]))["msp"]
    assert msp.rows.tolist() == [0, 1, 2]
    assert msp.score.tolist() == [2.0, 1.0, 0.0]
    assert msp.prediction is None
    assert "2 rows of c/validation" in refusal(scores(["n0", "t1", "t0", "v1"]))


def test_rows_that_detectors_were_fitted_on_need_no_score():
    table = scores(["n0", "t1", "t0", "v1"])
    msp = join_scores(index(), table, label_names=NAMES, where="mine.csv", fitted_on=pa.array(["v0"]))["msp"]
    assert msp.rows.tolist() == [0, 1, 2, 4]
    with pytest.raises(EvaluationError, match=r"1 id \(t0\)"):  # rows to evaluate need one all the same
        join_scores(index(), scores(["n0", "t1"]), label_names=NAMES, where="mine.csv", fitted_on=pa.array(["t0"]))


def test_missing_ids_are_counted_and_named():
    message = refusal(scores(["t0", "t1", "v0", "v1"]))
    assert "mine.csv lacks scores of msp for 1 id (n0) of the 1 rows of c/near_ood" in message


def test_ids_of_no_row_are_counted_once_and_named():
    assert "2 ids (x, y)" in refusal(scores(["t0", "t1", "n0", "x", "x", "y"]))


def test_an_id_twice_is_refused_but_not_for_two_detectors():
    message = refusal(scores(["t0", "t1", "n0", "t1"]))
    assert "mine.csv has several scores of msp for 1 id (t1)" in message
    by_detector = joined(scores(["t0", "n0", "t1"] * 2, [0, 1, 2, 3, 4, 5.0], ["msp"] * 3 + ["energy"] * 3))
    assert list(by_detector) == ["msp", "energy"]
    assert by_detector["energy"].score.tolist() == [3.0, 5.0, 4.0]


def test_a_detector_that_misses_an_id_is_named():
    message = refusal(scores(["t0", "n0", "t1", "t0", "n0"], detector=["msp"] * 3 + ["energy"] * 2))
    assert "lacks scores of energy" in message
    assert "1 id (t1)" in message


def test_an_id_in_two_splits_has_the_same_score_in_both():
    rows = pa.concat_tables([index(), pa.table({"config": ["d"], "split": ["test"], "id": ["t1"], "label": [0]})])
    msp = joined(scores(["t0", "t1", "n0"]), rows)["msp"]
    assert msp.rows.tolist() == [0, 1, 2, 5]
    assert msp.score.tolist() == [0.0, 1.0, 2.0, 1.0]


def test_predictions_may_be_numbers_or_names_and_are_needed_where_there_is_a_class():
    numbers = joined(scores(["t0", "t1", "n0"], prediction=pa.array([1, 0, None])))["msp"]
    names = joined(scores(["t0", "t1", "n0"], **{"class": ["dog", "cat", None]}))["msp"]
    assert numbers.prediction.tolist() == names.prediction.tolist() == [1, 0, -1]
    assert numbers.prediction.dtype == np.int64
    message = refusal(scores(["t0", "t1", "n0"], prediction=pa.array([1, None, 0])))
    assert "The prediction of msp in mine.csv is missing for labelled rows: 1 id (t1)" in message


def test_a_detector_may_predict_none_of_the_classes():
    msp = joined(scores(["t0", "t1", "n0"], prediction=[-1, 1, -1]))["msp"]
    assert msp.prediction.tolist() == [-1, 1, -1]


def test_names_are_of_the_classes_of_each_row_s_own_config():
    rows = pa.concat_tables([index(), pa.table({"config": ["d"], "split": ["test"], "id": ["d0"], "label": [0]})])
    msp = joined(scores(["t0", "t1", "n0", "d0"], **{"class": ["dog"] * 4}), rows)["msp"]
    assert msp.prediction.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    "columns", [{"prediction": [0, 2, 0]}, {"prediction": [0, -2, 0]}, {"class": ["cat", "Dog", "cat"]}]
)
def test_a_prediction_that_is_no_class_is_refused(columns):
    message = refusal(scores(["t0", "t1", "n0"], **columns))
    assert "one of the 2 classes of c" in message
    assert f"classes of c: {next(iter(columns.values()))[1]} and the like at 1 id (t1)" in message
