"""Two reports side by side: differences worked out by hand, and no comparison over different rows."""

import math

import pandas as pd
import pytest

from tests.evaluation.made_rows import figure, of_run
from unknown_detection.evaluation.commands.compare import compare, largest, select
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.report.figures import tidy

AUROC, AURC = ("auroc", 100.0), ("aurc", 1000.0)


def report(values, variant="adam", digest="ab", detector="msp"):
    """Figures by (metric, factor), a value for each seed."""
    return tidy(
        (of_run(detector, variant, seed, release_digest=digest), [figure(value, metric, factor=factor)])
        for (metric, factor), seeds in values.items()
        for seed, value in enumerate(seeds)
    )


def test_differences_are_in_the_paper_s_unit_and_know_what_is_good():
    first = report({AUROC: [0.90, 0.92], AURC: [0.050], ("eaurc", 1000.0): [0.1], ("accuracy", 100.0): [0.5]})
    second = report({AUROC: [0.93], AURC: [0.060], ("eaurc", 1000.0): [math.nan], ("accuracy", 100.0): [0.5]})
    pairs = compare(first, second)
    assert [*pairs["verdict"]] == ["better", "worse", "undefined", "same"]
    auroc = pairs.iloc[0]
    assert (auroc["first"], auroc["difference"]) == (pytest.approx(91.0), pytest.approx(2.0))
    assert auroc["first_std"] == pytest.approx(math.sqrt(2))  # sample deviation of 90 and 92
    assert math.isnan(auroc["second_std"])
    assert pairs["difference"][1] == pytest.approx(10.0)
    assert [*largest(pairs, 5)["metric"]] == ["auroc", "aurc"], "rates differ by 0.02 and 0.01, not by 2 and 10"


def test_what_only_one_has_is_counted():
    pairs = compare(
        report({AUROC: [0.9], AURC: [0.05]}),
        report({AUROC: [0.9], ("eaurc", 1000.0): [0.05], ("accuracy", 100.0): [1.0]}),
    )
    assert [*pairs["metric"]] == ["auroc"]
    assert pairs.attrs == {"only_first": 1, "only_second": 2}


def test_two_ways_of_training_and_two_files_of_scores_are_compared_whatever_they_are_called():
    values = {AUROC: [0.9]}
    assert [*compare(report(values, "adam"), report(values, "sgd"))["variant"]] == [""]
    pairs = compare(report(values, detector="mine"), report({AUROC: [0.8]}, detector="theirs"))
    assert [*zip(pairs["detector"], pairs["verdict"], strict=True)] == [("mine, theirs", "worse")]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (report({AUROC: [0.9]}, digest="cd"), r"different releases: digits \(ab\) and digits \(cd\)"),
        (report({AURC: [0.9]}), "have no figure in common: their metrics are auroc and aurc"),
        (pd.concat([report({AUROC: [0.9]}, detector=of) for of in ("knn", "odin")]), "are msp and knn, odin"),
        (pd.concat([report({AUROC: [0.9]}, of) for of in ("sgd", "lion")]), "training methods are adam and sgd, lion"),
    ],
)
def test_other_rows_and_nothing_in_common_are_refused(second, says):
    with pytest.raises(EvaluationError, match=says):
        compare(report({AUROC: [0.9]}), second)


def test_figures_without_some_rows_are_compared_only_where_both_lack_as_many():
    def judged(left_out, duplicates):
        measured = [
            figure(0.5),
            figure(0.6, rows="without_overlap", left_out=left_out),
            figure(0.7, rows="without_duplicates"),
        ]
        return tidy([(of_run(duplicates_sha256=duplicates), measured)])

    every = ["as_published", "without_overlap", "without_duplicates"]
    assert [*compare(judged(2, "x"), judged(2, "x"))["rows"]] == every
    assert [*compare(judged(2, "x"), judged(3, "x"))["rows"]] == [every[0], every[2]]
    assert [*compare(judged(2, "x"), judged(2, "y"))["rows"]] == every[:2]


def test_figures_are_chosen_by_detector_metric_and_split():
    figures = [figure(0.5, unknown=unknown) for unknown in ("near_ood", "x, wrong")]
    table = tidy((of_run(name), figures) for name in ("msp", "knn"))
    pairs = compare(table, table)

    def chosen(**by):
        selected = select(pairs, **by)
        return [*zip(selected["detector"], selected["unknown"], strict=True)]

    assert chosen(detectors=["knn"]) == [("knn", "near_ood"), ("knn", "x, wrong")]
    assert chosen(splits="c/x") == [("msp", "x, wrong"), ("knn", "x, wrong")]
    assert len(chosen(splits="c", metrics=["auroc"])) == 4
    for wrong in ({"detectors": ["odin"]}, {"metrics": ["aurc"]}, {"splits": "d"}, {"splits": "c/y"}):
        with pytest.raises(EvaluationError):
            select(pairs, **wrong)
