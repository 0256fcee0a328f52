"""The optimizer paper's protocol on figures, against its tables and formulas written out."""

from dataclasses import replace

import pytest

from tests.evaluation.made_rows import figure, only
from tests.evaluation.metrics.test_mixture import MIXTURES
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.protocols.robustness import detector_robustness, optimizer_robustness

FPR = figure(0.1, "fpr_at_95_tpr_known_positive", config="mnist", unknown="far_ood_fashion", positive="known")
AUROC = replace(FPR, metric="auroc", positive="")
OPTIMIZERS = ("adam", "rmsprop", "adamax", "nadam", "sgd", "adagrad", "adadelta")


def two_models(of, mean, variance):
    """Two values in percent with this mean and population variance, as fractions."""
    return [replace(of, value=(mean + sign * variance**0.5) / 100) for sign in (-1, 1)]


def table_3():
    """Runs of two models whose moments are those of table 3, for FPR and AUROC."""
    runs = {}
    for name, row in zip(OPTIMIZERS, MIXTURES["table 3"], strict=False):
        pairs = zip(two_models(FPR, *row[0]), two_models(AUROC, *row[2]), strict=True)
        runs[name] = [list(pair) for pair in pairs]
    return runs


def test_the_table_of_the_paper():
    measured = detector_robustness(table_3())
    assert {f.protocol for f in measured} == {"optimizer-robustness"}

    def reported(metric, statistic):
        return only(measured, metric=metric, statistic=statistic).reported

    # Table 3 prints 8.634 and 5.506, 97.756 and 0.219; by the paper's equations the means are a little higher (see
    # test_mixture). Table 5 prints 20.258 and 0.005.
    assert reported(FPR.metric, "mixture_mean") == pytest.approx(8.634, abs=0.003)
    assert reported(FPR.metric, "mixture_variance") == pytest.approx(5.506, abs=0.0005)
    assert reported(FPR.metric, "robustness") == pytest.approx(20.258, abs=0.01)
    assert reported("auroc", "mixture_mean") == pytest.approx(97.756, abs=0.006)
    assert reported("auroc", "mixture_variance") == pytest.approx(0.219, abs=0.001)
    assert reported("auroc", "robustness") == pytest.approx(0.005, abs=0.0005)


def test_values_keep_the_unit_of_the_figure():
    measured = detector_robustness(table_3())
    names = ("mixture_mean", "mixture_variance", "robustness")
    mean, variance, score = (only(measured, metric=FPR.metric, statistic=name) for name in names)
    assert mean.value == pytest.approx(mean.reported / 100)
    assert variance.value == pytest.approx(variance.reported / 100**2)
    assert score.value == pytest.approx(mean.value * variance.value**0.5)
    mean, variance, score = (only(measured, metric="auroc", statistic=name) for name in names)
    assert score.value == score.reported == pytest.approx(variance.value**0.5 / mean.value)


def test_an_optimizer_is_judged_over_the_sets_of_unknowns():
    # Table 7: Adam over four sets of unknowns.
    sets = ("fashion", "omniglot", "gaussian", "uniform")
    models = [[], []]
    for name, row in zip(sets, MIXTURES["table 7"], strict=False):
        for model, added in zip(models, two_models(replace(FPR, unknown=name), *row[0]), strict=True):
            model.append(added)
    measured = optimizer_robustness({"adam": models})["adam"]
    mean = only(measured, statistic="mixture_mean")
    assert mean.unknown == "fashion + omniglot + gaussian + uniform"
    assert mean.reported == pytest.approx(4.162, abs=0.002)
    assert only(measured, statistic="mixture_variance").reported == pytest.approx(11.733, abs=0.003)


def test_statistics_among_the_figures_are_passed_over():
    runs = table_3()
    with_means = {
        name: [[*model, replace(FPR, statistic="mean")] for model in models] for name, models in runs.items()
    }
    assert detector_robustness(with_means) == detector_robustness(runs)


def test_without_duplicates_rows_are_mixed_apart():
    runs = {
        name: [[of, replace(of, rows="without_duplicates", value=0.5 + 0.1 * i)] for i, of in enumerate(pair)]
        for name, pair in (("adam", two_models(FPR, 10, 4)), ("sgd", two_models(FPR, 12, 4)))
    }
    means = {f.rows: f.reported for f in detector_robustness(runs) if f.statistic == "mixture_mean"}
    assert means == pytest.approx({"as_published": 11, "without_duplicates": 55}, abs=1e-6)


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ({"adam": [[FPR], [FPR]], "sgd": [[FPR], [FPR, AUROC]]}, "the figure auroc of mnist, far_ood_fashion"),
        ({"adam": [[FPR], [FPR]], "sgd": [[replace(FPR, unknown="other")], [FPR]]}, "Not all models have the figure"),
    ],
)
def test_what_cannot_be_compared_is_refused(runs, sentence):
    with pytest.raises(EvaluationError, match=sentence):
        detector_robustness(runs)
