"""BROAD's two settings on made rows, and what is averaged over what."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evaluation.errors import EvaluationError
from evaluation.protocols.broad import MULTI_LABEL_CLASSES
from evaluation.protocols.registry import figures
from tests.evaluation.made_rows import make_rows, only

RANDOM = np.random.default_rng(5)
N = 40
IMAGES = [f"imagenet/val/{i}" for i in range(N)]
CLEAN = RANDOM.normal(size=N)
CLEAN_WRONG = np.arange(N) % 4 == 0
OF_17 = np.arange(N) % 3 == 0


def shifted(config, split, role, shift, n=N, **columns):
    return config, split, role, (RANDOM.normal(size=n) + shift).tolist(), columns


# Rows come in another order than the clean ones, and not all of them.
ORDER = RANDOM.permutation(N)[:30]
WRONG_AFTER = RANDOM.random(30) < 0.6


def changed(config, split, role, shift):
    columns = {
        "label": [0] * 30,
        "wrong": WRONG_AFTER.tolist(),
        "source_id": [IMAGES[i] for i in ORDER],
    }
    return shifted(config, split, role, shift, n=30, **columns)


REFERENCE = (
    "broad-reference",
    "test",
    "in_distribution",
    CLEAN.tolist(),
    {
        "wrong": CLEAN_WRONG.tolist(),
        "source_id": IMAGES,
        "class_id": [MULTI_LABEL_CLASSES[i % 17] if of_17 else "n01440764" for i, of_17 in enumerate(OF_17)],
    },
)
SHIFTED = (
    shifted("broad-novel-classes", "inaturalist", "novel_class", 2),
    shifted("broad-novel-classes", "imagenet_o", "novel_class", 1),
    changed("broad-adversarial", "pgd_vit", "adversarial", 0.5),
    changed("broad-adversarial", "autoattack_vit", "adversarial", 1.5),
    shifted("broad-synthetic", "biggan", "synthetic", 0, label=[0] * N),
    changed("broad-corruptions", "snow", "corruption", 1),
    shifted("broad-multi-label", "cocomagenet", "multi_label", 1),
    shifted("broad-multi-label", "cocomagenet_mono", "multi_label", 0),
)
GROUPS = (REFERENCE, *SHIFTED)
SCORES = {group[1]: np.array(group[3]) for group in SHIFTED}


def auc(known, unknown):
    return roc_auc_score([0] * len(known) + [1] * len(unknown), [*known, *unknown])


def found(setting, **fields):
    return only(figures("broad", make_rows(*GROUPS)), setting=setting, **fields)


@pytest.mark.parametrize("split", ["inaturalist", "imagenet_o", "pgd_vit", "autoattack_vit", "biggan", "snow"])
def test_shifts_are_held_against_all_clean_rows(split):
    figure = found("dsd", unknown=split, statistic="")
    assert figure.value == pytest.approx(auc(CLEAN, SCORES[split]), abs=1e-12)
    assert (figure.metric, figure.known, figure.n_known) == ("auroc", "test", N)


@pytest.mark.parametrize("split", ["cocomagenet", "cocomagenet_mono"])
def test_multi_labels_are_held_against_clean_rows_of_their_classes(split):
    figure = found("dsd", unknown=split, statistic="")
    assert figure.value == pytest.approx(auc(CLEAN[OF_17], SCORES[split]), abs=1e-12)
    assert figure.n_known == OF_17.sum()
    assert figure.known == "test, the 17 classes"


@pytest.mark.parametrize("split", ["pgd_vit", "autoattack_vit", "snow"])
def test_errors_are_rows_right_before_and_wrong_after(split):
    figure = found("ed", unknown=f"{split}, wrong since the shift", statistic="")
    broken = SCORES[split][~CLEAN_WRONG[ORDER] & WRONG_AFTER]
    assert 0 < len(broken) < WRONG_AFTER.sum()
    assert figure.value == pytest.approx(auc(CLEAN[~CLEAN_WRONG], broken), abs=1e-12)
    assert (figure.n_known, figure.n_unknown) == (30, len(broken))


def test_errors_among_clean_rows_are_one_more_kind():
    figure = found("ed", config="broad-reference", statistic="")
    assert figure.value == pytest.approx(auc(CLEAN[~CLEAN_WRONG], CLEAN[CLEAN_WRONG]), abs=1e-12)


def test_means_are_over_the_splits_of_a_kind_and_then_over_kinds():
    every = figures("broad", make_rows(*GROUPS))
    plain = {f.unknown: f.value for f in every if f.setting == "dsd" and not f.statistic}
    kinds = {
        "broad-novel-classes": (plain["inaturalist"] + plain["imagenet_o"]) / 2,
        "broad-adversarial": (plain["pgd_vit"] + plain["autoattack_vit"]) / 2,
        "broad-synthetic": plain["biggan"],
        "broad-corruptions": plain["snow"],
        "broad-multi-label": plain["cocomagenet"],  # without mono, as in the paper's table 2
    }
    for config, value in kinds.items():
        assert only(every, setting="dsd", config=config, statistic="mean").value == pytest.approx(value)
    overall = only(every, setting="dsd", unknown="novel_class + adversarial + synthetic + corruption + multi_label")
    assert overall.value == pytest.approx(np.mean(list(kinds.values())))
    assert overall.config == " + ".join(sorted(kinds))


def test_the_mean_over_kinds_of_error_detection():
    every = [f for f in figures("broad", make_rows(*GROUPS)) if f.setting == "ed"]
    plain = {f.unknown.partition(",")[0]: f.value for f in every if not f.statistic}
    overall = only(every, unknown="in_distribution + adversarial + corruption")
    adversarial = (plain["pgd_vit"] + plain["autoattack_vit"]) / 2
    assert overall.value == pytest.approx((plain["test"] + adversarial + plain["snow"]) / 3)


def test_a_part_of_broad_says_what_its_means_are_over():
    every = figures("broad", make_rows(REFERENCE, SHIFTED[0], SHIFTED[5]))
    assert (
        only(every, setting="dsd", config="broad-corruptions + broad-novel-classes").unknown
        == "novel_class + corruption"
    )
    assert only(every, setting="dsd", config="broad-novel-classes", statistic="mean").unknown == "inaturalist"


def test_mono_alone_has_no_mean():
    every = figures("broad", make_rows(REFERENCE, SHIFTED[7], predictions=False))
    assert [(f.unknown, f.statistic) for f in every] == [("cocomagenet_mono", "")]


def test_a_shift_that_breaks_nothing_leaves_a_gap():
    config, split, role, scores, columns = SHIFTED[5]
    harmless = (config, split, role, scores, {**columns, "wrong": [False] * 30})
    every = [f for f in figures("broad", make_rows(REFERENCE, SHIFTED[2], harmless)) if f.setting == "ed"]
    gap = only(every, unknown="snow, wrong since the shift", statistic="")
    assert (np.isnan(gap.value), gap.n_unknown) == (True, 0)
    assert np.isnan(only(every, unknown="in_distribution + adversarial + corruption").value)


def test_a_changed_row_without_its_clean_one_is_refused():
    rows = make_rows(*GROUPS)
    without = rows.where(~(rows.known & (rows.source_id == IMAGES[ORDER[0]])))
    with pytest.raises(
        EvaluationError, match=f"Rows of autoattack_vit lack their clean original .*: 1, such as {IMAGES[ORDER[0]]}"
    ):
        figures("broad", without)


def test_clean_images_that_come_twice_are_refused():
    again = ("broad-other", *REFERENCE[1:])
    with pytest.raises(EvaluationError, match="imagenet/val/0 appears twice among the clean rows; score one"):
        figures("broad", make_rows(*GROUPS, again))


def test_clean_rows_of_other_classes_alone_are_refused():
    config, split, role, scores, columns = REFERENCE
    other = (config, split, role, scores, {**columns, "class_id": ["n01440764"] * N})
    with pytest.raises(EvaluationError, match="no clean rows of CoComageNet's 17 classes"):
        figures("broad", make_rows(other, *SHIFTED))


def test_predictions_that_are_never_right_are_refused():
    config, split, role, scores, columns = REFERENCE
    wrong = (config, split, role, scores, {**columns, "wrong": [True] * N})
    with pytest.raises(EvaluationError, match="None of 40 clean rows is correctly classified"):
        figures("broad", make_rows(wrong, *SHIFTED))


def test_there_are_17_classes():
    assert len(set(MULTI_LABEL_CLASSES)) == 17
