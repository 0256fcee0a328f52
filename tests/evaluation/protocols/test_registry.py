"""Each protocol on rows few enough to count, against sums done here or scikit-learn."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import auc as area_under
from sklearn.metrics import precision_recall_curve

from tests.evaluation.made_rows import auc, make_rows, only
from tests.evaluation.refusals import refusal
from tests.sentences import assert_sentence, stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.metrics import METRICS, find_metrics
from unknown_detection.evaluation.protocols import (
    PROTOCOLS,
    Protocol,
    Shown,
    against,
    default_protocol,
    figures,
    known_rows,
    measure,
    register,
)
from unknown_detection.evaluation.protocols import protocol as registry
from unknown_detection.evaluation.protocols.chosen import protocol_of
from unknown_detection.evaluation.protocols.protocol import FIGURE_KEY, matching

RANDOM = np.random.default_rng(11)
WITH_PREDICTIONS = ("unknown_detection", "misclassification_detection", "ed", "open_set", "classification")


def draw(n, shift):
    return (RANDOM.normal(size=n) + shift).tolist()


def mean_risk(scores, errors):
    """AURC of scores without ties."""
    ordered = np.asarray(errors)[np.argsort(scores)]
    return np.mean(np.cumsum(ordered) / np.arange(1, len(ordered) + 1))


def fpr_at_95(known, unknown):
    """Share of unknown rows at or below the least score that 95 % of the known rows are at or below."""
    return np.mean(np.array(unknown) <= sorted(known)[math.ceil(len(known) * 95 / 100 - 1e-9) - 1])


TEST, NEAR, SVHN, DTD = draw(60, 0), draw(40, 0.5), draw(30, 1), draw(50, 2)
WRONG = [i % 5 == 0 for i in range(60)]
CIFAR = (
    ("cifar", "test", "in_distribution", TEST, {"wrong": WRONG}),
    ("cifar", "near_ood", "near_ood", NEAR),
    ("cifar", "far_ood_svhn", "far_ood", SVHN),
    ("cifar", "far_ood_dtd", "far_ood", DTD),
    ("cifar", "validation", "in_distribution", draw(20, 0)),
    ("cifar", "external_validation", "external", draw(20, 3)),
)


def test_unknown_detection_counts_every_unknown_row_as_an_error():
    measured = figures("unknown-detection", make_rows(*CIFAR))
    figure = only(measured, setting="unknown_detection", metric="aurc")
    assert only(measured, setting="unknown_detection", metric="augrc")["n_unknown"] == 132
    expected = mean_risk([*TEST, *NEAR, *SVHN, *DTD], [*WRONG, *[True] * 120])
    assert figure["value"] == pytest.approx(expected, abs=1e-12)
    assert figure["factor"] == 1000
    assert (figure["metric"], figure["n_known"], figure["n_unknown"]) == ("aurc", 48, 132)
    assert figure["unknown"] == "test, wrong + near_ood + far_ood_dtd + far_ood_svhn"
    # Also where unknown rows carry a label.
    labelled = [(*group, {"label": [0] * len(group[3])}) if group[1] == "near_ood" else group for group in CIFAR]
    assert figures("unknown-detection", make_rows(*labelled)) == measured


def test_misclassification_is_of_in_distribution_test_rows_alone():
    measured = [
        f for f in figures("unknown-detection", make_rows(*CIFAR)) if f["setting"] == "misclassification_detection"
    ]
    assert [f["metric"] for f in measured] == ["accuracy", "aurc", "eaurc", "augrc"]
    best = mean_risk(range(60), sorted(WRONG))
    risk = mean_risk(TEST, WRONG)
    right, wrong = ([s for s, w in zip(TEST, WRONG, strict=True) if w == side] for side in (False, True))
    augrc = 0.8 * 0.2 * (1 - auc(right, wrong)) + 0.2**2 / 2  # Traub et al., section 3.2
    assert [f["value"] for f in measured] == pytest.approx([0.8, risk, risk - best, augrc], abs=1e-12)
    assert {(f["n_known"], f["n_unknown"]) for f in measured} == {(48, 12)}


def test_ood_detection_is_of_each_split_with_a_mean_over_the_far():
    measured = figures("unknown-detection", make_rows(*CIFAR))
    for metric, of in (("auroc", auc), ("fpr_at_95_tpr_known_positive", fpr_at_95)):
        expected = {"near_ood": of(TEST, NEAR), "far_ood_dtd": of(TEST, DTD), "far_ood_svhn": of(TEST, SVHN)}
        for split, value in expected.items():
            figure = only(measured, setting="ood_detection", metric=metric, unknown=split)
            assert figure["value"] == pytest.approx(value, abs=1e-12)
            assert figure["factor"] == 100
        mean = only(measured, setting="ood_detection", metric=metric, statistic="mean")
        assert mean["unknown"] == "far_ood_dtd + far_ood_svhn"
        assert mean["value"] == pytest.approx((expected["far_ood_dtd"] + expected["far_ood_svhn"]) / 2)
        assert mean["n_unknown"] == 80
    assert only(measured, unknown="near_ood", metric="fpr_at_95_tpr_known_positive")["positive"] == "known"


CORRUPTED, ADVERSARIAL = draw(70, 0.4), draw(30, 1)
SPECTRUM = (
    *CIFAR,
    ("shifts", "snow", "corruption", CORRUPTED, {"label": [0] * 70}),
    ("shifts", "pgd", "adversarial", ADVERSARIAL, {"label": [0] * 30}),
    ("novel", "openimage_o", "novel_class", draw(25, 1.5)),
)


def fpr_unknown_positive(known, unknown):
    """Share of known rows at or above the greatest score that 95 % of the unknown rows are at or above."""
    threshold = sorted(unknown, reverse=True)[math.ceil(len(unknown) * 95 / 100 - 1e-9) - 1]
    return np.mean(np.array(known) >= threshold)


def aupr(positive, negative):
    """Area under scikit-learn's precision-recall curve, by trapezoids as in OpenOOD's code; positive scores higher."""
    truth = [1] * len(positive) + [0] * len(negative)
    precision, recall, _ = precision_recall_curve(truth, [*positive, *negative])
    return area_under(recall, precision)


OPENOOD = {
    "auroc": auc,
    "fpr_at_95_tpr_unknown_positive": fpr_unknown_positive,
    "aupr_in_trapezoid": lambda known, unknown: aupr([-x for x in known], [-x for x in unknown]),
    "aupr_out_trapezoid": lambda known, unknown: aupr(unknown, known),
}


@pytest.mark.parametrize(
    ("setting", "known", "names"),
    [("standard", TEST, "test"), ("full_spectrum", [*TEST, *CORRUPTED], "test + snow")],
)
def test_openood_has_the_columns_of_its_tables(setting, known, names):
    """Of each split, and as means over the near, far and novel ones; corrupted rows are known in the full spectrum."""
    measured = [f for f in figures("openood", make_rows(*SPECTRUM)) if f["setting"] == setting]
    assert {f["metric"] for f in measured} == OPENOOD.keys()
    assert {(f["known"], f["n_known"]) for f in measured if not f["statistic"]} == {(names, len(known))}
    for metric, of in OPENOOD.items():
        splits = {"near_ood": NEAR, "far_ood_dtd": DTD, "far_ood_svhn": SVHN, "openimage_o": SPECTRUM[-1][3]}
        expected = {split: of(known, unknown) for split, unknown in splits.items()}
        values = {(f["unknown"], f["statistic"]): f["value"] for f in measured if f["metric"] == metric}
        means = {"near_ood": expected["near_ood"], "novel_class": expected["openimage_o"]}
        means["far_ood"] = (expected["far_ood_dtd"] + expected["far_ood_svhn"]) / 2
        of_all = {(split, ""): value for split, value in expected.items()}
        of_all |= {(role, "mean"): value for role, value in means.items()}
        assert values == pytest.approx(of_all, abs=1e-12)
    assert not [f for f in figures("openood", make_rows(*CIFAR)) if f["setting"] == "full_spectrum"]


def test_openood_has_the_accuracy_on_known_and_on_shifted_rows():
    measured = [f for f in figures("openood", make_rows(*SPECTRUM)) if f["metric"] == "accuracy"]
    # 12 of 60 test rows are wrong, none of the 70 corrupted ones.
    assert [(f["known"], f["value"], f["n_known"], f["n_unknown"]) for f in measured] == [
        ("test, right", 48 / 60, 48, 12),
        ("test + snow, right", 118 / 130, 118, 12),
    ]
    assert {f["setting"] for f in measured} == {"classification"}


def test_open_set_recognition_counts_right_rows_only():
    measured = [f for f in figures("openood", make_rows(*SPECTRUM)) if f["setting"] == "open_set"]
    right = [score for score, wrong in zip(TEST, WRONG, strict=True) if not wrong]
    near = only(measured, unknown="near_ood", statistic="")
    assert (near["metric"], near["n_known"], near["n_unknown"]) == ("oscr", 60, 40)
    assert near["value"] == pytest.approx(0.8 * auc(right, NEAR), abs=1e-12)
    assert {f["setting"] for f in figures("openood", make_rows(*SPECTRUM, predictions=False))} == {
        "standard",
        "full_spectrum",
    }
    never = [(*CIFAR[0][:4], {"wrong": [True] * 60}), *CIFAR[1:]]
    assert {f["value"] for f in figures("openood", make_rows(*never)) if f["setting"] == "open_set"} == {0.0}


def test_a_split_of_several_roles_has_a_figure_for_each():
    """As FACETS's `test`, whose figures had one name, so that a report took them for those of two runs."""
    groups = [("facets-t1", "test", role, draw(20, shift)) for role, shift in (("near_ood", 1), ("far_ood", 3))]
    measured = figures(
        protocol_of(find_metrics("auroc")), make_rows(("facets-t1", "test", "in_distribution", TEST), *groups)
    )
    expected = {f"test, {role}": auc(TEST, scores) for _, _, role, scores in groups}
    assert {f["unknown"]: f["value"] for f in measured if not f["statistic"]} == pytest.approx(expected)


def test_openood_needs_one_in_distribution():
    imagenet = [("imagenet", *group[1:]) for group in CIFAR]
    message = refusal(figures, "openood", make_rows(*CIFAR, *imagenet))
    assert re.search("cifar and imagenet each have in-distribution rows in test.*openood=cifar", message)
    message = refusal(figures, "openood", make_rows(CIFAR[0], SPECTRUM[-3]))
    assert_sentence(message, "near_ood", "far_ood", "novel_class")


def test_several_configs_are_judged_apart():
    imagenet = [("imagenet", *group[1:]) for group in CIFAR]
    measured = figures("unknown-detection", make_rows(*CIFAR, *imagenet))
    assert [f for f in measured if f["config"] == "cifar"] == figures("unknown-detection", make_rows(*CIFAR))
    assert len([f for f in measured if f["config"] == "imagenet"]) == len(measured) / 2


PLACES = draw(50, 0)
OTHERS = draw(10, 0.2)
FACETS = (
    ("facets-t1", "test", "in_distribution", PLACES, {"wrong": WRONG[:50]}),
    ("facets-t1", "test", "near_ood", NEAR),
    ("facets-t1", "test", "far_ood", SVHN),
    ("facets-t1", "validation", "in_distribution", draw(30, 0)),
    ("facets-t1", "validation", "far_ood", draw(30, 0)),
)


def test_facets_divides_a_split_by_role():
    measured = figures("facets", make_rows(*FACETS))
    unknown = [*NEAR, *SVHN]
    fpr = fpr_at_95(PLACES, unknown)
    of_ood = {f["metric"]: f for f in measured if f["setting"] == "ood_detection"}
    assert of_ood["fpr_at_95_tpr_known_positive"]["value"] == pytest.approx(fpr)
    # 48 of 50 rows are the least that are 95 %: a TPR of 96 %.
    assert of_ood["detection_error_known_positive"]["value"] == pytest.approx(0.02 + fpr / 2)
    # The paper's tables have other numbers: between 47 of 50 rows, 94 %, and 48; and the least error from 48 on.
    accepted = [(sum(p <= cut for p in PLACES), sum(u <= cut for u in unknown) / 70) for cut in [*PLACES, *unknown]]
    last = max(rate for count, rate in accepted if count == 47)
    first = min(rate for count, rate in accepted if count == 48)
    expected = (last + first) / 2
    assert of_ood["interpolated_fpr_at_95_tpr_known_positive"]["value"] == pytest.approx(expected)
    least = min((1 - count / 50 + rate) / 2 for count, rate in accepted if count >= 48)
    assert of_ood["least_detection_error_at_95_tpr_known_positive"]["value"] == pytest.approx(least)
    assert of_ood["auroc"]["value"] == pytest.approx(auc(PLACES, unknown))
    assert {(f["n_known"], f["n_unknown"]) for f in of_ood.values()} == {(50, 70)}


@pytest.mark.parametrize("name", ["unknown-detection", "openood", "od-test"])
def test_each_role_of_a_split_is_judged_and_no_row_to_tune_on(name):
    """Of FACETS's `test` the near rows were lost, and `validation` was judged as a set of unknown rows."""
    measured = figures(name, make_rows(*FACETS))
    assert {of for f in measured for of in f["unknown"].split(" + ")} <= {
        *("test, near_ood", "test, far_ood", "near_ood", "far_ood", "test, wrong", "novel_class")
    }
    if name == "od-test":
        return
    for role, scores in (("near_ood", NEAR), ("far_ood", SVHN)):
        figure = only(measured, unknown=f"test, {role}", metric="auroc", statistic="")
        assert figure["value"] == pytest.approx(auc(PLACES, scores))
    if name == "unknown-detection":
        risk = mean_risk([*PLACES, *NEAR, *SVHN], [*WRONG[:50], *[True] * 70])
        assert only(measured, metric="aurc", setting="unknown_detection")["value"] == pytest.approx(risk)


def test_facets_asks_for_mistakes_among_labelled_rows():
    # Rows that are in distribution by their meaning alone have no label of the model's.
    unlabelled = make_rows(*FACETS, ("facets-t1", "test", "in_distribution", OTHERS, {"label": [-1] * 10}))
    values = {
        f["metric"]: f["value"] for f in figures("facets", unlabelled) if f["setting"] == "misclassification_detection"
    }
    right, wrong = ([s for s, w in zip(PLACES, WRONG, strict=False) if w == side] for side in (False, True))
    assert values["auroc"] == pytest.approx(auc(right, wrong))
    assert values["fpr_at_95_tpr_known_positive"] == pytest.approx(fpr_at_95(right, wrong))
    assert only(figures("facets", unlabelled), metric="auroc", setting="ood_detection")["n_known"] == 60


def rows_for(name, **options):
    from tests.evaluation.protocols.test_broad import GROUPS

    groups = {"facets": FACETS, "broad": GROUPS, "openood": SPECTRUM}.get(name, CIFAR)
    return make_rows(*groups, **options)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_holds_for_every_protocol(name):
    """Names of their own, no dependence on the order of rows, and settings that need predictions only with them."""
    everything = rows_for(name)
    published, other_order = figures(name, everything), figures(name, rows_for(name, seed=1))
    assert other_order == published
    assert {figure["setting"] for figure in published} == PROTOCOLS[name].settings.keys()
    without = figures(name, rows_for(name, predictions=False))
    assert without == [f for f in published if f["setting"] not in WITH_PREDICTIONS]
    for figure in published:
        metric = METRICS[figure["metric"]]
        assert (figure["protocol"], figure["factor"], figure["positive"]) == (name, metric.factor, metric.positive)
    # Duplicates are judged with and without, and without them go the rows of the same source images.
    flagged = sorted(everything["id"])[::9]
    measured = figures(name, rows_for(name, duplicates=flagged))
    assert len({key(f) for f in measured}) == len(measured)
    assert [f for f in measured if f["rows"] == "as_published"] == published
    removed = [f for f in measured if f["rows"] == "without_duplicates"]
    sources = everything["source_id"][everything["id"].isin(flagged)]
    clean = everything[~everything["source_id"].isin(sources)]
    assert len(everything) - len(clean) >= len(flagged)
    assert [f["value"] for f in removed] == [f["value"] for f in figures(name, clean)]
    assert len(removed) == len(published)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("unknown-detection", "cifar/near_ood/near_ood"),
        ("unknown-detection", "cifar/far_ood_svhn/far_ood"),
        ("od-test", "cifar/far_ood_dtd/far_ood"),
        ("openood", "cifar/far_ood_svhn/far_ood"),
        ("openood", "shifts/snow/corruption"),
        ("openood", "novel/openimage_o/novel_class"),
        ("broad", "broad-corruptions/snow/corruption"),
    ],
)
@pytest.mark.parametrize("kind", ["without_duplicates", "without_overlap"])
def test_of_a_split_that_is_left_out_as_a_whole_there_is_no_figure_and_all_others_stay(name, split, kind):
    everything = rows_for(name)
    ids = [id_ for id_ in sorted(everything["id"]) if id_.startswith(split)]
    measured = figures(name, rows_for(name, **left_out(ids, kind)))
    published = [f for f in measured if f["rows"] == "as_published"]
    assert published == figures(name, everything)
    # With a duplicate go the rows that are made from it, or that it is made from.
    of = everything["source_id"] if kind == "without_duplicates" else everything["id"]
    left = everything[~of.isin(of[everything["id"].isin(ids)])]
    clean = [f for f in measured if f["rows"] == kind]
    assert [f["value"] for f in clean] == [f["value"] for f in figures(name, left)]
    gone = split.split("/")[1]
    named = [f | {"unknown": f["unknown"].removesuffix(f", without {gone}")} for f in clean]
    assert [key(f) for f in named] == [key(f | {"rows": kind}) for f in figures(name, left)]
    # Means over a role, too, which had the name, and so the column, of the mean over all its splits.
    of_roles = [f["value"] for f in clean if f["unknown"] == f"far_ood, without {gone}"]
    assert bool(of_roles) == (name == "openood" and gone == "far_ood_svhn")
    assert not of_roles or not [f for f in clean if f["unknown"] == "far_ood"]
    # A figure over fewer splits has no published one that it could be compared with.
    both = {key(f | {"rows": kind}): f["n_known"] + f["n_unknown"] for f in published}
    lost = [both[key(f)] - f["n_known"] - f["n_unknown"] if key(f) in both else None for f in clean]
    assert [f["left_out"] for f in clean] == lost


@pytest.mark.parametrize("kind", ["without_duplicates", "without_overlap"])
@pytest.mark.parametrize("split", ["cifar/near_ood/near_ood", "cifar/far_ood_svhn/far_ood"])
def test_a_protocol_that_cannot_do_without_the_split_has_figures_of_all_rows_alone(kind, split):
    """OD-test fits on one unknown split and evaluates on another."""
    two = [group for group in CIFAR if group[1] != "far_ood_dtd"]
    ids = [f"{split}/{i:04d}" for i in range(40)]
    assert figures("od-test", make_rows(*two, **left_out(ids, kind))) == figures("od-test", make_rows(*two))


def key(figure):
    return tuple(figure[name] for name in FIGURE_KEY)


def left_out(ids, kind):
    return {"duplicates": ids} if kind == "without_duplicates" else {"overlaps": dict.fromkeys(ids, "cat")}


@pytest.mark.parametrize("wrong", [False, True])
def test_a_model_that_is_always_right_or_wrong_leaves_a_gap_and_no_guess(wrong):
    facets = [(*FACETS[0][:4], {"wrong": [wrong] * 50}), *FACETS[1:]]
    measured = [f for f in figures("facets", make_rows(*facets)) if f["setting"] == "misclassification_detection"]
    assert all(math.isnan(f["value"]) for f in measured)
    assert {(f["n_known"], f["n_unknown"]) for f in measured} == {(0, 50) if wrong else (50, 0)}


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        *(("unknown-detection", roles) for roles in (["near_ood", "far_ood"], ["in_distribution", "external"])),
        *(("facets", roles) for roles in (["near_ood"], ["in_distribution"])),
        *(("od-test", roles) for roles in (["near_ood", "far_ood"], ["in_distribution", "near_ood"])),
        *(("broad", roles) for roles in (["in_distribution"], ["synthetic"])),
    ],
)
def test_one_side_alone_is_refused(name, roles):
    rows = rows_for(name)
    with stops(EvaluationError):
        figures(name, rows[rows["role"].isin(roles)])


def test_facets_without_labels_has_no_mistakes_and_an_unknown_protocol_is_refused():
    unlabelled = make_rows((*FACETS[0][:4], {"label": [-1] * 50}), *FACETS[1:])
    assert {figure["setting"] for figure in figures("facets", unlabelled)} == {"ood_detection"}
    assert_sentence(refusal(figures, "unknown-detect", make_rows(*CIFAR)), "unknown-detection")


def test_a_protocol_is_replaced_by_one_that_the_same_code_makes(monkeypatch):
    """As in a notebook, whose cell is run again; what is none, or has another's name, is refused."""
    monkeypatch.setattr(registry, "PROTOCOLS", dict(PROTOCOLS))
    facets = PROTOCOLS["facets"]
    for protocol in (lambda rows: [], replace(facets, title="mine"), replace(facets, name="metrics")):
        with stops(EvaluationError):
            register(protocol)

    def cell(title):
        return Protocol("mine", title, "Ours", lambda rows: [])

    register(cell("first"))
    second = register(cell("second"))
    assert registry.PROTOCOLS["mine"] is second
    with stops(EvaluationError):
        register(Protocol("mine", "another", "Ours", lambda rows: []))


def own(judge=None, **changes):
    """A protocol of one's own as a new user writes one, whose figures are changed by `judge`."""

    def pooled(rows):
        ranking = against(known_rows(rows), rows[~rows["known"] & (rows["role"] != "external")])
        measured = measure(ranking, ["auroc"], setting="pooled", known="test", unknown="all")
        return measured if judge is None else judge(measured)

    return Protocol(**{"name": "own", "title": "Own", "paper": "Ours", "judge": pooled} | changes)


JUDGED = {
    "returned None": lambda of: None,
    "returned [[{": lambda of: [of],
    "returned 'auroc'": lambda of: "auroc",
    "has no setting": lambda of: [{name: of[0][name] for name in of[0].keys() - {"setting"}}],
    "has no n_known": lambda of: [{name: of[0][name] for name in of[0].keys() - {"n_known"}}],
    "has 3 as unknown": lambda of: [of[0] | {"unknown": 3}],
    "has '0.5' as value": lambda of: [of[0] | {"value": "0.5"}],
    "'auc' is not a metric": lambda of: [of[0] | {"metric": "auc"}],
    "several figures of cifar, pooled, test, all, auroc": lambda of: of * 2,
}
"""What a judge of one's own returns, by what is said of it; nearly all were a traceback."""

DECLARED = [
    *({"name": name} for name in (3, "", "a=b", "a,b", "../a", "all")),
    *({"drawn": 3}, {"title": None}, {"settings": None}, {"plots": ("rok",)}, {"tables_by": "config"}),
    *({"tables_by": ["sets"]}, {"tabulated": {"metrics": "auroc"}}, {"shows": Shown("", {})}),
    *({"shows": [of]} for of in ({"metric": "auroc"}, Shown("", {"metrc": "x"}), Shown("", {"metric": "("}))),
]


@pytest.mark.parametrize("said", JUDGED)
def test_what_is_no_figure_of_a_protocol_of_ones_own_is_named(said):
    for rows in (make_rows(*CIFAR), make_rows(*CIFAR, duplicates=[])):
        message = refusal(figures, own(JUDGED[said]), rows)
        assert said in message and "protocol own" in message


@pytest.mark.parametrize("number", range(len(DECLARED)))
def test_a_protocol_that_no_report_could_show_is_not_registered(number, monkeypatch):
    """One with wrong `settings` was, and ended every later report, of others too, in a traceback."""
    monkeypatch.setattr(registry, "PROTOCOLS", dict(PROTOCOLS))
    with stops(EvaluationError):
        register(own(**DECLARED[number]))
    assert registry.PROTOCOLS == PROTOCOLS


def test_figures_may_come_one_after_another_and_name_another_config():
    def renamed(measured):
        yield from (figure | {"config": "mine", "protocol": "another"} for figure in measured)

    (figure,) = figures(own(renamed), make_rows(*CIFAR))
    assert (figure["config"], figure["protocol"]) == ("mine", "own")
    assert figure["value"] == pytest.approx(auc(TEST, [*NEAR, *SVHN, *DTD]), abs=1e-12)


def test_fields_are_matched_by_regular_expressions_of_python():
    """Arrow's know no `(?!...)`, which was a traceback."""
    lines = pd.DataFrame({"unknown": ["near_ood", "far_ood", "far_ood_dtd"]})
    assert matching(lines, {"unknown": "(?!near).*ood"})["unknown"].tolist() == ["far_ood"]
    assert len(matching(lines, {})) == 3


def test_a_metric_that_there_is_not_is_named_where_a_protocol_measures_it():
    rows = make_rows(*CIFAR)
    known, near = known_rows(rows), rows[rows["role"] == "near_ood"]
    for call, *given in ((measure, against(known, near)), (registry.measure_each, known, {"near": near})):
        assert_sentence(refusal(call, *given, ["AUC"]), "'AUC'", "auroc")


def test_configs_have_a_protocol():
    expected = {"cifar": "unknown-detection", "imagenet": "unknown-detection", "digits": "unknown-detection"}
    expected |= {"facets-wordnet-t45": "facets", "broad-reference": "broad"}
    expected |= dict.fromkeys(("openood-imagenet1k", "mos", "imagenet-ood", "imagenet-es"), "openood")
    assert {config: default_protocol(config) for config in expected} == expected
