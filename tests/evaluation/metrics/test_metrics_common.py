"""What holds for every metric: a new one joins by its line in METRICS, exceptions are named sets."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics import ranking
from unknown_detection.evaluation.metrics.metrics import (
    METRICS,
    all_metrics,
    aupr_in,
    aupr_out,
    aurc,
    auroc,
    balanced_accuracy,
    detection_error,
    eaurc,
    fpr_at_95_tpr,
    interpolated_fpr_at_95_tpr,
    least_detection_error,
    least_detection_error_at_95_tpr,
    oscr,
)
from unknown_detection.evaluation.metrics.ranking import rank

FUNCTIONS = {
    "aurc": aurc,
    "eaurc": eaurc,
    "auroc": auroc,
    "oscr": lambda scores, unknown: oscr(scores, unknown, unknown),  # no known row is misclassified
    "aupr_in_average_precision": partial(aupr_in, estimator="average_precision"),
    "aupr_in_trapezoid": partial(aupr_in, estimator="trapezoid"),
    "aupr_out_average_precision": partial(aupr_out, estimator="average_precision"),
    "aupr_out_trapezoid": partial(aupr_out, estimator="trapezoid"),
    "fpr_at_95_tpr_known_positive": partial(fpr_at_95_tpr, positive="known"),
    "fpr_at_95_tpr_unknown_positive": partial(fpr_at_95_tpr, positive="unknown"),
    "detection_error_known_positive": partial(detection_error, positive="known"),
    "detection_error_unknown_positive": partial(detection_error, positive="unknown"),
    "interpolated_fpr_at_95_tpr_known_positive": partial(interpolated_fpr_at_95_tpr, positive="known"),
    "interpolated_fpr_at_95_tpr_unknown_positive": partial(interpolated_fpr_at_95_tpr, positive="unknown"),
    "least_detection_error_at_95_tpr_known_positive": partial(least_detection_error_at_95_tpr, positive="known"),
    "least_detection_error_at_95_tpr_unknown_positive": partial(least_detection_error_at_95_tpr, positive="unknown"),
    "least_detection_error": least_detection_error,
}
WITHOUT_FUNCTION = {"accuracy"}  # a mean, which needs none
OF_DECISIONS = {"balanced_accuracy"}
ONE_SIDE_IS_ENOUGH = {"aurc", "eaurc", "accuracy"}
KNOW_NO_SCORES = {"accuracy"}
NEVER_ABOVE_THAT_OF_ACCEPTING_ALL = {
    "least_detection_error_at_95_tpr_known_positive",
    "least_detection_error_at_95_tpr_unknown_positive",
}
DEPEND_ON_THE_NUMBER_OF_ROWS = {"aurc", "eaurc"}  # means over k = 1..n, which tend to an integral
MIRRORED = {  # what it becomes when the sides change places
    "auroc": "auroc",
    "least_detection_error": "least_detection_error",
    "aupr_in_average_precision": "aupr_out_average_precision",
    "aupr_in_trapezoid": "aupr_out_trapezoid",
    "fpr_at_95_tpr_known_positive": "fpr_at_95_tpr_unknown_positive",
    "detection_error_known_positive": "detection_error_unknown_positive",
    "interpolated_fpr_at_95_tpr_known_positive": "interpolated_fpr_at_95_tpr_unknown_positive",
    "least_detection_error_at_95_tpr_known_positive": "least_detection_error_at_95_tpr_unknown_positive",
    "balanced_accuracy": "balanced_accuracy",
}
every_metric = pytest.mark.parametrize("name", list(METRICS))


def value(name, scores, flags):
    return METRICS[name].of(rank(scores, flags)[0])


def rows(kind, n=200):
    """Scores on a grid, where the transforms below are strictly monotone in floats too, and flags of 40 % of them."""
    random = np.random.default_rng(7)
    flags = random.random(n) < 0.4
    scores = {
        "no ties": random.permutation(n) / 8 + flags * 5,
        "ties": random.integers(0, 12, n) / 8 + flags * 0.5,
        "constant": np.full(n, 0.25),
    }[kind]
    return scores, flags


every_kind = pytest.mark.parametrize("kind", ["no ties", "ties", "constant"])


def test_every_metric_but_those_named_has_a_function():
    assert FUNCTIONS.keys() | WITHOUT_FUNCTION | OF_DECISIONS == METRICS.keys()


@pytest.mark.parametrize("name", list(FUNCTIONS))
@every_kind
def test_the_function_gives_what_the_table_gives(name, kind):
    assert FUNCTIONS[name](*rows(kind)) == value(name, *rows(kind))


@every_kind
def test_all_metrics_are_those_of_the_table(kind):
    scores, unknown = rows(kind)
    errors = unknown | (np.arange(len(unknown)) % 7 == 0)
    expected = {
        name: value(name, scores, errors if metric.takes == "errors" else unknown)
        for name, metric in METRICS.items()
        if name not in OF_DECISIONS
    }
    expected["oscr"] = oscr(scores, unknown, errors)
    assert all_metrics(scores, unknown, errors) == expected


@every_metric
def test_names_titles_and_sides_agree(name):
    metric = METRICS[name]
    assert metric.name == name
    assert metric.title
    ends = {f"_{side}_positive": side for side in ("known", "unknown")}
    expected = {"aupr_in": "known", "aupr_out": "unknown"}.get(name[:8].rstrip("_"), "")
    assert metric.positive == next((side for end, side in ends.items() if name.endswith(end)), expected)


@every_metric
@every_kind
def test_the_order_of_rows_does_not_matter(name, kind):
    scores, flags = rows(kind)
    expected = value(name, scores, flags)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(scores))
        assert value(name, scores[order], flags[order]) == pytest.approx(expected, rel=0, abs=1e-12)


@every_metric
@every_kind
@pytest.mark.parametrize(
    "transform",
    [lambda x: 3 * x - 7, np.exp, np.arctan, lambda x: (x - 1) ** 3],
    ids=["linear", "exp", "arctan", "cube"],
)
def test_strictly_monotone_transforms_of_scores_change_nothing(name, kind, transform):
    scores, flags = rows(kind)
    assert value(name, transform(scores), flags) == value(name, scores, flags)


@every_metric
@every_kind
def test_lists_views_and_other_types_are_as_good(name, kind):
    scores, flags = rows(kind)
    expected = value(name, scores, flags)
    every_second = np.repeat(scores, 2)[::2], np.repeat(flags, 2)[::2]
    for same_scores, same_flags in (
        (scores.tolist(), flags.tolist()),
        (tuple(scores), flags.astype(int)),
        (scores.astype(np.float32), flags.astype(np.uint8)),  # eighths are exact in float32
        ((scores * 8).astype(np.int16), flags.astype(float)),
        every_second,
    ):
        assert value(name, same_scores, same_flags) == expected


@every_metric
def test_the_result_is_a_float_from_0_to_1(name):
    for kind in ("no ties", "ties", "constant"):
        found = value(name, *rows(kind))
        assert type(found) is float
        assert 0 <= found <= 1


@every_metric
def test_input_stays_as_it_is(name):
    scores, flags = rows("ties")
    scores.flags.writeable = flags.flags.writeable = False
    value(name, scores, flags)


@every_metric
def test_negative_zero_ties_with_zero(name):
    flags = [0, 1, 1, 0, 1]
    assert value(name, [0.0, -0.0, 1, -1, 0.0], flags) == value(name, [0.0, 0.0, 1, -1, 0.0], flags)


@every_metric
@every_kind
def test_blocks_are_only_a_matter_of_speed(name, kind, monkeypatch):
    expected = value(name, *rows(kind))
    for size in (1, 3, 64):
        monkeypatch.setattr(ranking, "_BLOCK", size)
        assert value(name, *rows(kind)) == pytest.approx(expected, rel=0, abs=1e-14)


@pytest.mark.parametrize("name", sorted(METRICS.keys() - DEPEND_ON_THE_NUMBER_OF_ROWS))
@every_kind
def test_rows_counted_twice_change_nothing(name, kind):
    scores, flags = rows(kind)
    assert value(name, np.tile(scores, 2), np.tile(flags, 2)) == pytest.approx(value(name, scores, flags), abs=1e-14)


@pytest.mark.parametrize(("name", "mirrored"), MIRRORED.items())
@every_kind
def test_sides_that_change_places_mirror_the_metric(name, mirrored, kind):
    scores, flags = rows(kind)
    assert value(name, scores, flags) == value(mirrored, -scores, ~flags)


@pytest.mark.parametrize("name", sorted(METRICS.keys() - KNOW_NO_SCORES))
def test_better_scores_are_better(name):
    _, flags = rows("ties")
    noise = np.random.default_rng(3).random(len(flags))
    sign = {"higher": 1, "lower": -1}[METRICS[name].better]
    perfect, good, random, bad = (sign * value(name, noise + shift * flags, flags) for shift in (1, 0.5, 0, -1))
    assert perfect > good > random
    assert random >= bad if name in NEVER_ABOVE_THAT_OF_ACCEPTING_ALL else random > bad


@every_metric
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(name, bad):
    scores, flags = rows("ties")
    scores[17] = bad
    with pytest.raises(EvaluationError, match="1 of 200 scores are NaN or infinite, first in row 17"):
        value(name, scores, flags)


@every_metric
@pytest.mark.parametrize(
    ("scores", "flags", "sentence"),
    [
        ([0.1, 0.2, 0.3], [0, 1], r"Flags have the shape \(2,\), but there are 3 scores"),
        ([0.1, 0.2], [[0], [1]], r"Flags have the shape \(2, 1\)"),
        ([0.1, 0.2], 1, r"Flags have the shape \(\)"),
        ([[0.1, 0.2]], [0, 1], r"Scores have the shape \(1, 2\)"),
        ([], [], r"Scores have the shape \(0,\)"),
        (["low", "high"], [0, 1], "give one real number per row"),
        ([0.1, 1j], [0, 1], "give one real number per row"),
        ([0.1, 0.2], [0, 2], "neither bool nor 0 and 1"),
        ([0.1, 0.2], [0, np.nan], "neither bool nor 0 and 1"),
        ([0.1, 0.2], [0, -1], "neither bool nor 0 and 1"),
        ([0.1, 0.2], ["known", "unknown"], "neither bool nor 0 and 1"),
    ],
)
def test_what_is_not_a_column_of_scores_and_one_of_flags_is_refused(name, scores, flags, sentence):
    with pytest.raises(EvaluationError, match=sentence):
        value(name, scores, flags)


@pytest.mark.parametrize("name", sorted(METRICS.keys() - ONE_SIDE_IS_ENOUGH))
@pytest.mark.parametrize(("flag", "sentence"), [(0, "3 known and 0 unknown"), (1, "0 known and 3 unknown")])
def test_one_side_alone_is_refused(name, flag, sentence):
    with pytest.raises(EvaluationError, match=sentence):
        value(name, [0.1, 0.2, 0.2], [flag] * 3)


@pytest.mark.parametrize("scores", [[0.1, 0.2, 0.3], [0.2, 0.2, 0.2], [0.1]])
def test_a_model_that_is_always_right_or_always_wrong_has_a_risk(scores):
    for error in (0, 1):
        errors = [error] * len(scores)
        assert aurc(scores, errors) == error
        assert eaurc(scores, errors) == pytest.approx(0, abs=1e-15)
        assert value("accuracy", scores, errors) == 1 - error


@pytest.mark.parametrize(
    "function",
    [fpr_at_95_tpr, detection_error, interpolated_fpr_at_95_tpr, least_detection_error_at_95_tpr],
)
def test_a_side_that_does_not_exist_is_refused(function):
    with pytest.raises(EvaluationError, match="There is no class 'ood'; choose known or unknown"):
        function([0, 1], [0, 1], positive="ood")


@pytest.mark.parametrize("function", [aupr_in, aupr_out])
def test_an_estimator_that_does_not_exist_is_refused(function):
    with pytest.raises(EvaluationError, match="There is no estimator 'simpson'; choose average_precision"):
        function([0, 1], [0, 1], estimator="simpson")


@pytest.mark.parametrize("name", [*FUNCTIONS, *OF_DECISIONS])
@pytest.mark.parametrize("masked", [0, 1])
def test_masked_values_are_refused(name, masked):
    """What lies under a mask is no value: here, a score that would make the order perfect."""
    function = FUNCTIONS.get(name, lambda scores, unknown: balanced_accuracy(unknown, scores))
    columns = [np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])]
    open_mask = [np.ma.array(column, mask=False) for column in columns]
    assert function(*open_mask) == function(*columns)
    columns[masked] = np.ma.array(columns[masked], mask=[0, 0, 1, 0])
    with pytest.raises(
        EvaluationError, match=r"^Some (scores|flags|decisions) are masked\. Leave these rows out of all"
    ):
        function(*columns)


def test_decisions_that_are_not_are_refused():
    with pytest.raises(EvaluationError, match="Decisions must be bool, or 0 and 1; compare"):
        balanced_accuracy([0, 1], [0.2, 0.7])


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_one_sort_serves_for_any_number_of_flags(drawn):
    scores, first, second = zip(*drawn, strict=True)
    for together, alone in zip(
        rank(scores, first, second), (rank(scores, first)[0], rank(scores, second)[0]), strict=True
    ):
        assert together.known.tolist() == alone.known.tolist()
        assert together.unknown.tolist() == alone.unknown.tolist()
