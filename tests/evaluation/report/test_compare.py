"""Two reports side by side: differences worked out by hand, and no comparison over different rows."""

import math

import pytest

from evaluation.errors import EvaluationError
from evaluation.protocols.figures import Figure
from evaluation.protocols.results import Run, tidy
from evaluation.report.compare import compare


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
    assert auroc.first == pytest.approx(91.0)
    assert auroc.first_deviation == pytest.approx(math.sqrt(2))  # sample deviation of 90 and 92
    assert auroc.second_deviation is None
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


def test_nothing_in_common_is_refused():
    values = {("auroc", 100.0): [0.9]}
    with pytest.raises(EvaluationError, match="have no figure in common; write both"):
        compare(report(values), report(values, detector="energy"))
