"""Joined frames: scores are joined to rows by id, worked out by hand on five rows; how rows are chosen and ranked."""

import hashlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.evaluation.made_rows import make_rows
from tests.sentences import assert_sentence, stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.frame import (
    by_errors,
    by_split,
    join,
    known_rows,
    left_out,
    unknown_splits,
)
from unknown_detection.evaluation.truth import SEEN, find_overlaps

NAMES = {"c": ("cat", "dog"), "d": ("dog",)}

ROWS = [
    ("c", "test", "t0", 0),
    ("c", "test", "t1", 1),
    ("c", "near_ood", "n0", -1),
    ("c", "validation", "v0", 0),
    ("c", "validation", "v1", 1),
]


def index(*more):
    rows = pd.DataFrame([*ROWS, *more], columns=["config", "split", "id", "label"])
    return rows.astype(dict.fromkeys(("config", "split", "id"), "category"))


def scores(ids, values=None, detector="msp", **columns):
    values = [float(n) for n in range(len(ids))] if values is None else values
    names = [detector] * len(ids) if isinstance(detector, str) else detector
    return pa.table({"id": ids, "detector": names, "score": values, **columns})


def joined(table, *more, **fitted_on):
    return join(index(*more), table, NAMES, where="mine.csv", **fitted_on)


def refusal(table, *more, **fitted_on):
    with pytest.raises(EvaluationError) as refused:
        joined(table, *more, **fitted_on)
    return str(refused.value)


def test_a_split_that_is_not_judged_may_be_left_out_whole():
    msp = joined(scores(["n0", "t1", "t0"]))["msp"]
    assert msp["id"].tolist() == ["t0", "t1", "n0"]
    assert msp["score"].tolist() == [2.0, 1.0, 0.0]
    assert not {"prediction", "wrong"} & {*msp}
    assert "2 rows of c/validation" in refusal(scores(["n0", "t1", "t0", "v1"]))


def test_an_image_of_several_configs_is_one_known_row_and_splits_of_one_name_stay_apart():
    """Counted twice, it changed the AUPR, and two splits called textures were one."""
    rows = make_rows(
        *(("a", "test", "in_distribution", [0, 1]), ("b", "test", "in_distribution", [0, 1, 2])),
        *(("a", "textures", "far_ood", [3, 4]), ("b", "textures", "far_ood", [4, 5, 6]), ("b", "sun", "far_ood", [7])),
    )
    shared = rows["id"].astype(str).str.replace("b/test", "a/test")
    rows = rows.assign(id=shared.astype("category"))
    assert sorted(known_rows(rows)["score"]) == [0, 1, 2]
    expected = {"a/textures": [3, 4], "b/textures": [4, 5, 6], "sun": [7]}
    for splits in (by_split(rows[rows["role"] == "far_ood"]), unknown_splits(rows, ["far_ood"])):
        assert {name: sorted(of["score"]) for name, of in splits.items()} == expected


def test_rows_that_detectors_were_fitted_on_need_no_score():
    table = scores(["n0", "t1", "t0", "v1"])
    assert joined(table, fitted_on=pa.array(["v0"]))["msp"]["id"].tolist() == ["t0", "t1", "n0", "v1"]
    # Rows to evaluate need one all the same.
    assert "1 id (t0)" in refusal(scores(["n0", "t1"]), fitted_on=pa.array(["t0"]))


def test_scores_without_provenance_may_lack_the_fit_half_of_a_split_and_no_other_part_of_it():
    """Of a class of one row, the fit half is that row; of two, the one whose SHA-256 is less."""
    third = ("c", "validation", "v2", 1)
    less, other = sorted(("v1", "v2"), key=lambda id_: hashlib.sha256(f"fit half\t{id_}".encode()).digest())
    assert joined(scores(["n0", "t1", "t0", other]), third)["msp"]["id"].tolist() == ["t0", "t1", "n0", other]
    for kept in ([less], ["v0", other], ["v0", less]):
        assert "of the 3 rows of c/validation" in refusal(scores(["n0", "t1", "t0", *kept]), third)
    assert "1 id (t0)" in refusal(scores(["n0", "t1", other]), third)


def test_an_id_in_two_splits_has_the_same_score_in_both():
    msp = joined(scores(["t0", "t1", "n0"]), ("d", "test", "t1", 0))["msp"]
    assert msp["id"].tolist() == ["t0", "t1", "n0", "t1"]
    assert msp["score"].tolist() == [0.0, 1.0, 2.0, 1.0]


def test_predictions_are_needed_where_there_is_a_class():
    """They may be of none of the classes; mistakes are among predictions."""
    msp = joined(scores(["t0", "t1", "n0"], prediction=pa.array([1, -1, None])))["msp"]
    assert msp["prediction"].tolist() == [1, -1, -1] and msp["prediction"].dtype == np.int64
    message = refusal(scores(["t0", "t1", "n0"], prediction=pa.array([1, None, 0])))
    assert_sentence(message, "mine.csv", "t1")
    with stops(EvaluationError, "prediction"):
        by_errors(joined(scores(["t0", "t1", "n0"]))["msp"])


@pytest.mark.parametrize("number", [2, -2])
def test_a_prediction_that_is_no_class_is_refused(number):
    """Of the classes of each row's own config."""
    for predicted, named in (([0, number, 0, 0], (number, "t1")), ([1, 1, 1, 1], (1, "d0"))):
        table = scores(["t0", "t1", "n0", "d0"], prediction=predicted)
        assert_sentence(refusal(table, ("d", "test", "d0", 0)), *named)


CLEAN = {"source_id": ["s/0", "s/1", "s/2"], "label": [0, 1, 2]}


def test_what_is_made_from_a_duplicate_goes_with_it_and_what_it_is_made_from_too():
    rows = make_rows(
        ("broad-reference", "test", "in_distribution", [0, 1, 2], CLEAN),
        ("broad-corruptions", "blur", "corruption", [3, 4, 5], CLEAN),
        duplicates=["broad-reference/test/in_distribution/0001", "broad-corruptions/blur/corruption/0002"],
    )
    lost = left_out(rows, "without_duplicates")
    assert sorted(rows["id"][lost]) == [
        *(f"broad-corruptions/blur/corruption/000{n}" for n in (1, 2)),
        *(f"broad-reference/test/in_distribution/000{n}" for n in (1, 2)),
    ]
    assert left_out(rows, "without_overlap") is None


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"id_overlap": ["cat", None, None]}, ["cat", "", ""]),
        ({"id_overlap": ["cat", None, None], "known_object_seen": [True, True, False]}, ["cat", SEEN, ""]),
        ({"id_overlap": [True, False, None]}, [SEEN, "", ""]),  # BROAD's releases of before
        ({"id_overlap": pa.nulls(3)}, ["", "", ""]),
    ],
    ids=["classes", "and objects", "objects", "nothing"],
)
def test_overlaps_are_read_from_either_column(columns, expected):
    assert find_overlaps(pa.table(columns)).to_pylist() == expected
    assert find_overlaps(pa.table({"id": ["a"]})) is None
