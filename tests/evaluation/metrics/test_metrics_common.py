"""What holds for every metric: a new one joins by being one of METRICS, exceptions are named sets."""

from functools import partial

import numpy as np
import pytest

from tests.evaluation.metrics import formulas
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics import metrics, ranking
from unknown_detection.evaluation.metrics.metrics import METRICS, metric
from unknown_detection.evaluation.metrics.ranking import rank

AT_95_TPR = {
    "fpr_at_95_tpr": metrics.fpr_at_95_tpr,
    "detection_error": formulas.detection_error,
    "interpolated_fpr_at_95_tpr": formulas.interpolated_fpr_at_95_tpr,
    "least_detection_error_at_95_tpr": formulas.least_detection_error_at_95_tpr,
}
ONE_SIDE_IS_ENOUGH = {"aurc", "eaurc", "augrc", "accuracy"}
NEVER_ABOVE_THAT_OF_ACCEPTING_ALL = {"least_detection_error_at_95_tpr_known_positive"}
DEPEND_ON_THE_NUMBER_OF_ROWS = {"aurc", "eaurc"}  # means over k = 1..n, which tend to an integral
KINDS = ("no ties", "ties", "constant")
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


@every_metric
def test_it_is_a_float_from_0_to_1_that_follows_from_the_order_of_scores_alone(name):
    """Not from the order of rows, the scale of scores, the type of columns, or the blocks it is computed in."""
    for kind in KINDS:
        scores, flags = rows(kind)
        scores.flags.writeable = flags.flags.writeable = False  # what is given stays as it is
        expected = value(name, scores, flags)
        assert type(expected) is float
        assert 0 <= expected <= 1
        order = np.random.default_rng(1).permutation(len(scores))
        assert value(name, scores[order], flags[order]) == pytest.approx(expected, rel=0, abs=1e-12)
        for transformed in (3 * scores - 7, np.exp(scores), np.arctan(scores), (scores - 1) ** 3):
            assert value(name, transformed, flags) == expected
        for same_scores, same_flags in (
            (scores.tolist(), flags.tolist()),
            (scores.astype(np.float32), flags.astype(np.uint8)),  # eighths are exact in float32
            ((scores * 8).astype(np.int16), flags.astype(float)),
            (np.repeat(scores, 2)[::2], np.repeat(flags, 2)[::2]),
        ):
            assert value(name, same_scores, same_flags) == expected
        if name not in DEPEND_ON_THE_NUMBER_OF_ROWS:
            assert value(name, np.tile(scores, 2), np.tile(flags, 2)) == pytest.approx(expected, abs=1e-14)
    assert value(name, [0.0, -0.0, 1, -1, 0.0], [0, 1, 1, 0, 1]) == value(name, [0, 0, 1, -1, 0], [0, 1, 1, 0, 1])


@every_metric
def test_blocks_are_only_a_matter_of_speed(name, monkeypatch):
    for size in (1, 3, 64):
        for kind in KINDS:
            expected = value(name, *rows(kind))
            with monkeypatch.context() as patch:
                patch.setattr(ranking, "_BLOCK", size)
                assert value(name, *rows(kind)) == pytest.approx(expected, rel=0, abs=1e-14)


@pytest.mark.parametrize("name", sorted(METRICS.keys() - {"accuracy"}))
def test_better_scores_are_better(name):
    _, flags = rows("ties")
    noise = np.random.default_rng(3).random(len(flags))
    sign = {"higher": 1, "lower": -1}[METRICS[name].better]
    perfect, good, random, bad = (sign * value(name, noise + shift * flags, flags) for shift in (1, 0.5, 0, -1))
    assert perfect > good > random
    assert random >= bad if name in NEVER_ABOVE_THAT_OF_ACCEPTING_ALL else random > bad


@pytest.mark.parametrize("name", sorted(METRICS.keys() - ONE_SIDE_IS_ENOUGH))
def test_one_side_alone_is_refused(name):
    for flag, sentence in ((0, "3 known and 0 unknown"), (1, "0 known and 3 unknown")):
        with pytest.raises(EvaluationError, match=sentence):
            value(name, [0.1, 0.2, 0.2], [flag] * 3)


@pytest.mark.parametrize("scores", [[0.1, 0.2, 0.3], [0.2, 0.2, 0.2], [0.1]])
def test_a_model_that_is_always_right_or_always_wrong_has_a_risk(scores):
    for error in (0, 1):
        errors = [error] * len(scores)
        assert metrics.aurc(scores, errors) == error
        assert formulas.eaurc(scores, errors) == pytest.approx(0, abs=1e-15)
        assert value("accuracy", scores, errors) == 1 - error


@pytest.mark.parametrize(
    ("scores", "flags"),
    [([1, 2, 3], [0, 1]), ([1, 2], [[0], [1]]), ([1, 2], 1), ([[1, 2]], [0, 1]), ([], []), (["low", "high"], [0, 1]),
     ([1, 1j], [0, 1]), ([1, np.nan], [0, 1]), ([np.inf, 1], [0, 1]), ([1, 2], [0, 2]), ([1, 2], [0, np.nan]),
     ([1, 2], ["known", "unknown"]), (np.ma.array([1, 2], mask=[0, 1]), [0, 1]),
      ([1, 2], np.ma.array([0, 1], mask=[0, 1]))],
    ids=["flags less", "flags 2-D", "one flag", "scores 2-D", "none", "text", "complex", "nan", "inf", "two",
         "nan flag", "text flags", "masked scores", "masked flags"],
)  # fmt: skip
def test_what_is_not_a_column_of_scores_and_one_of_flags_is_refused(scores, flags):
    """Every metric ranks its rows, by `rank`; what lies under a mask is no value."""
    for function in (metrics.auroc, rank):
        with stops(EvaluationError):
            function(scores, flags)


def test_a_side_or_an_estimator_that_does_not_exist_is_refused():
    for function in AT_95_TPR.values():
        with stops(EvaluationError):
            function([0, 1], [0, 1], positive="ood")
    with stops(EvaluationError, "average_precision"):
        metrics.aupr_in([0, 1], [0, 1], estimator="simpson")


def test_a_decorated_function_is_a_metric(monkeypatch):
    """That of the docstring: of two known rows, one lies below the only unknown one."""
    monkeypatch.setattr(metrics, "METRICS", dict(METRICS))

    @metric("Known rows below all unknown ones", "higher", factor=1.0)
    def clear(ranking):
        return float(ranking.known[ranking.unknown == 0].max() / ranking.known[-1])

    added = metrics.METRICS["clear"]
    assert (added.name, added.better, added.factor, added.takes) == ("clear", "higher", 1.0, "unknown")
    assert added.of(rank([0.1, 0.9, 0.4], [0, 0, 1])[0]) == 0.5
    assert clear(rank([0.1, 0.2, 0.4], [0, 0, 1])[0]) == 1

    def cell():
        return metric("Half", "higher", name="half")(lambda ranking: 0.5)

    first, second = cell(), cell()  # as a notebook's cell that is run again
    assert metrics.METRICS["half"].of is second is not first
    with stops(EvaluationError):
        metric("Half", "higher", name="half")(clear)
    with stops(EvaluationError):
        metric("AUROC", "higher", name="auroc")(clear)
    with stops(EvaluationError):
        metric("Other", "lowest")
    for wrong in ({"takes": "wrong"}, {"positive": "no"}, {"factor": "100"}, {"title": None}, {"name": "a b"}):
        with stops(EvaluationError):
            metric(**{"title": "Other", "better": "lower", "name": "other"} | wrong)(clear)
    with stops(EvaluationError):
        metric("Other", "lower")(partial(clear))
    assert not {"other", "a b"} & metrics.METRICS.keys()


def test_metrics_are_found_by_name_column_or_function():
    assert metrics.find_metrics(["FPR95", metrics.auroc, "oscr"]) == [
        METRICS[name] for name in ("fpr_at_95_tpr_known_positive", "auroc", "oscr")
    ]
    with stops(EvaluationError, "balanced_accuracy"):
        metrics.find_metrics("balanced_accuracy")


@pytest.mark.parametrize(
    "scores",
    [
        np.array([2**53, 2**53 + 1, 2**53 + 2]),
        np.array([2**63, 2**63 + 1, 2**63 + 2], np.uint64),
        np.array([-(2**63), -(2**63) + 1, 2**62]),
        np.longdouble(1) + np.arange(3) * np.finfo(np.longdouble).eps,
    ],
    ids=["int64", "uint64", "negative", "longdouble"],
)
def test_scores_that_float64_would_make_equal_keep_their_order(scores):
    """The unknown row is in the middle: it is above one of two known rows."""
    assert metrics.auroc(scores, [0, 1, 0]) == 0.5
    assert metrics.auroc(scores, [0, 0, 1]) == 1


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("gradient", "Can't call numpy.. on Tensor that requires grad"),
        ("bfloat16", "BFloat16"),
        ("ragged", "inhomogeneous"),
    ],
)
def test_what_numpy_cannot_read_is_refused(kind, sentence):
    if kind == "ragged":
        values = [[1.0], [1.0, 2.0]]
    else:
        torch = pytest.importorskip("torch", reason="makes tensors")
        values = torch.zeros(2, dtype=torch.bfloat16) if kind == "bfloat16" else torch.zeros(2, requires_grad=True)
    for name, arguments in (("scores", (values, [0, 1])), ("flags", ([0, 1], values))):
        with pytest.raises(EvaluationError, match=f"The {name} cannot be read as an array: .*{sentence}.* Give one"):
            metrics.auroc(*arguments)
