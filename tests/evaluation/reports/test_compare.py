"""Two reports side by side: differences worked out by hand, and no comparison over different rows."""

import math

import pytest

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.protocols.figures import Figure
from unknown_detection.evaluation.protocols.results import Run, tidy
from unknown_detection.evaluation.reports.compare import compare


def figure(value, metric, factor, unknown="near_ood"):
    return Figure("p", "c", "s", "test", unknown, metric, "", "as_published", "", "", value, factor, 4, 6)


def report(values, variant="adam", digest="ab", detector="msp"):
    """Figures by (metric, factor), a value for each seed."""
    judged = []
    for (metric, factor), seeds in values.items():
        for seed, value in enumerate(seeds):
            run = Run(f"{variant}-{seed}", variant, seed, "", f"{seed}", {}, {})
            judged.append((run, detector, [figure(value, metric, factor)]))
    return tidy(judged, release="digits", release_digest=digest)


def test_differences_are_in_the_paper_s_unit_and_know_what_is_good():
    first = report({("auroc", 100.0): [0.90, 0.92], ("aurc", 1000.0): [0.050]})
    second = report({("auroc", 100.0): [0.93], ("aurc", 1000.0): [0.060]})
    found = compare(first, second)
    auroc, aurc = found.pairs
    assert (auroc.detector, auroc.figure["metric"], auroc.figure["unknown"]) == ("msp", "auroc", "near_ood")
    assert auroc.first.value == pytest.approx(91.0)
    assert auroc.first.deviation == pytest.approx(math.sqrt(2))  # sample deviation of 90 and 92
    assert auroc.second.deviation is None
    assert (auroc.difference, auroc.verdict) == (pytest.approx(2.0), "better")
    assert (aurc.difference, aurc.verdict) == (pytest.approx(10.0), "worse")
    assert compare(first, first).pairs[0].verdict == "same"


def test_nan_has_no_verdict():
    values = report({("auroc", 100.0): [math.nan]})
    assert compare(values, report({("auroc", 100.0): [0.5]})).pairs[0].verdict == "undefined"


def test_what_only_one_has_is_counted():
    first = report({("auroc", 100.0): [0.9], ("aurc", 1000.0): [0.05]})
    found = compare(first, report({("auroc", 100.0): [0.9], ("eaurc", 1000.0): [0.05], ("accuracy", 100.0): [1.0]}))
    assert [pair.figure["metric"] for pair in found.pairs] == ["auroc"]
    assert (found.only_first, found.only_second) == (1, 2)


def test_two_ways_of_training_can_be_compared_where_each_report_has_one():
    values = {("auroc", 100.0): [0.9]}
    assert [pair.variant for pair in compare(report(values, "adam"), report(values, "sgd")).pairs] == [""]


def test_another_release_is_refused_and_both_are_named():
    values = {("auroc", 100.0): [0.9]}
    with pytest.raises(EvaluationError, match=r"different releases: digits \(ab\) and digits \(cd\)"):
        compare(report(values), report(values, digest="cd"))


def test_scores_of_ones_own_are_compared_whatever_their_files_are_called():
    values = {("auroc", 100.0): [0.9]}
    (pair,) = compare(report(values, detector="mine"), report({("auroc", 100.0): [0.8]}, detector="theirs")).pairs
    assert (pair.detector, pair.verdict) == ("mine, theirs", "worse")


def test_nothing_in_common_is_refused():
    with pytest.raises(EvaluationError, match="have no figure in common: their detectors are msp and msp"):
        compare(report({("auroc", 100.0): [0.9]}), report({("aurc", 1000.0): [0.9]}))


def test_the_largest_differences_are_those_of_rates_whatever_their_unit():
    first = report({("auroc", 100.0): [0.90], ("aurc", 1000.0): [0.050], ("accuracy", 100.0): [0.7]})
    second = report({("auroc", 100.0): [0.93], ("aurc", 1000.0): [0.060], ("accuracy", 100.0): [0.7]})
    found = compare(first, second)
    assert [pair.figure["metric"] for pair in found.largest(5)] == ["auroc", "aurc"], "0.03 and 0.01, not 3 and 10"
    assert found.verdicts() == {"better": 1, "worse": 1, "same": 1}


def test_figures_are_chosen_by_detector_metric_and_split():
    judged = [
        (
            Run("r", "", 0, "", "", {}, {}),
            detector,
            [figure(0.5, "auroc", 100.0, unknown) for unknown in ("near_ood", "x")],
        )
        for detector in ("msp", "knn")
    ]
    table = tidy(judged, release="digits", release_digest="ab")
    found = compare(table, table)

    def chosen(**by):
        return [(pair.detector, pair.figure["unknown"]) for pair in found.select(**by).pairs]

    assert chosen(detectors=["knn"]) == [("knn", "near_ood"), ("knn", "x")]
    assert chosen(splits={"c": {"x"}}) == [("msp", "x"), ("knn", "x")]
    assert len(chosen(splits={"c": set()}, metrics=["auroc"])) == 4
    for wrong in ({"detectors": ["odin"]}, {"metrics": ["aurc"]}, {"splits": {"d": set()}}, {"splits": {"c": {"y"}}}):
        with pytest.raises(EvaluationError):
            found.select(**wrong)
