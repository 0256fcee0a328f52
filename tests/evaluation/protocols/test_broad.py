"""BROAD's two settings on made rows, and what is averaged over what."""

import numpy as np
import pytest

from tests.evaluation.made_rows import auc, make_rows, only
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.protocols import broad, figures
from unknown_detection.evaluation.protocols.broad import MULTI_LABEL_CLASSES
from unknown_detection.evaluation.protocols.chosen import protocol_of

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
    columns = {"label": [0] * 30, "wrong": WRONG_AFTER.tolist(), "source_id": [IMAGES[i] for i in ORDER]}
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


def after(wrong, originals):
    """Columns of shifted rows of class 0: whether each is misclassified, and its original."""
    return {"label": [0] * len(wrong), "wrong": wrong, "source_id": list(originals)}


IDS = ["n01440764", "n03793489", "n01440764", "n01440764", "n07930864", "n01440764"]
BEFORE = {**after([False, False, True, False, True, False], "abcdef"), "class_id": IDS}
BY_HAND = (
    ("broad-reference", "test", "in_distribution", [1, 2, 3, 4, 5, 6], BEFORE),
    # f is attacked in vain, c was wrong before.
    ("broad-adversarial", "pgd_resnet50", "adversarial", [8, 7, 9, 1.5], after([False, True, True, True], "facb")),
    # The original of the first is not among the clean rows: with all of validation corrupted, most are not.
    ("broad-corruptions", "snow", "corruption", [3.5, 2.5, 0], after([True, True, False], "zcb")),
    ("broad-multi-label", "cocomagenet", "multi_label", [3, 6]),
    ("broad-multi-label", "cocomagenet_mono", "multi_label", [1, 4]),
)


@pytest.mark.parametrize(
    ("setting", "unknown", "value", "rows"),
    [
        # Of 6 x 4 pairs, 6 + 6 + 6 + 1 are in order.
        ("dsd", "pgd_resnet50", 19 / 24, (6, 4)),
        # Of 6 x 3, 3 + 2 + 0.
        ("dsd", "snow", 5 / 18, (6, 3)),
        # Against b and e, of the 17 classes: 3 is above one of them, 6 above both.
        ("dsd", "cocomagenet", 3 / 4, (2, 2)),
        ("dsd", "cocomagenet_mono", 1 / 4, (2, 2)),
        # a: 1 before, 7 after; b: 2 before, 1.5 after.
        ("ed", "pgd_resnet50, wrong since the attack", 3 / 4, (2, 2)),
        # 3.5 and 2.5 against 1, 2, 4, 6.
        ("ed", "snow, wrong", 4 / 8, (4, 2)),
        # 3 and 5 against 1, 2, 4, 6.
        ("ed", "test, wrong", 5 / 8, (4, 2)),
        ("dsd", "adversarial + corruption + multi_label", (19 / 24 + 5 / 18 + 3 / 4) / 3, (14, 9)),
        ("ed", "in_distribution + adversarial + corruption", (5 / 8 + 3 / 4 + 4 / 8) / 3, (10, 6)),
    ],
)
def test_each_setting_by_hand(setting, unknown, value, rows):
    # The mean over a kind of one split has the split's name, too.
    statistic = "mean" if " + " in unknown else ""
    figure = only(figures("broad", make_rows(*BY_HAND)), setting=setting, unknown=unknown, statistic=statistic)
    assert figure["value"] == pytest.approx(value, abs=1e-12)
    assert (figure["n_known"], figure["n_unknown"]) == rows


def test_rows_held_out_are_on_no_side():
    held_out = ("broad-reference", "held_out", "in_distribution", [100] * 9, {"wrong": [True] * 9})
    assert figures("broad", make_rows(*BY_HAND, held_out)) == figures("broad", make_rows(*BY_HAND))


def test_what_a_release_lacks_of_the_paper_is_said():
    other = ("broad-corruptions", "fog", "corruption", [1.0])
    assert broad.absent(make_rows(*BY_HAND, other)) == [
        "There are no rows of broad-novel-classes, broad-synthetic: BROAD's means are over the other kinds of shift",
        "broad-adversarial has no autoattack_resnet50, pgd_vit, autoattack_vit: its mean is over the other splits",
        "broad-corruptions has no defocus_blur, gaussian_noise, brightness: its mean is over the other splits",
        "broad-corruptions has fog, which the paper has not: its mean is over these, too",
    ]
    complete = [(config, split, kind, [1.0]) for kind, (config, splits) in broad.PAPER.items() for split in splits]
    assert broad.absent(make_rows(REFERENCE, *complete, SHIFTED[7])) == []


def test_a_part_of_broad_says_what_its_means_are_over():
    every = figures("broad", make_rows(REFERENCE, SHIFTED[0], SHIFTED[5]))
    overall = only(every, setting="dsd", config="broad-corruptions + broad-novel-classes")
    assert overall["unknown"] == "novel_class + corruption"
    assert only(every, setting="dsd", config="broad-novel-classes", statistic="mean")["unknown"] == "inaturalist"


def test_mono_alone_has_no_mean():
    every = figures("broad", make_rows(REFERENCE, SHIFTED[7], predictions=False))
    assert [(f["unknown"], f["statistic"]) for f in every] == [("cocomagenet_mono", "")]


@pytest.mark.parametrize(
    ("place", "unknown", "n_known"), [(5, "snow, wrong", 30), (3, "autoattack_vit, wrong since the attack", 0)]
)
def test_a_shift_that_breaks_nothing_leaves_a_gap(place, unknown, n_known):
    config, split, role, scores, columns = SHIFTED[place]
    harmless = (config, split, role, scores, {**columns, "wrong": [False] * 30})
    remaining = [SHIFTED[other] for other in (2, 5) if other != place]
    every = [f for f in figures("broad", make_rows(REFERENCE, *remaining, harmless)) if f["setting"] == "ed"]
    gap = only(every, unknown=unknown, statistic="")
    assert (np.isnan(gap["value"]), gap["n_known"], gap["n_unknown"]) == (True, n_known, 0)
    assert np.isnan(only(every, unknown="in_distribution + adversarial + corruption")["value"])


def without_an_original():
    rows = make_rows(*GROUPS)
    return rows[~(rows["known"] & (rows["source_id"] == IMAGES[ORDER[0]]))]


def of_clean(**columns):
    """Rows whose clean ones have other columns."""
    return make_rows((*REFERENCE[:4], REFERENCE[4] | columns), *SHIFTED)


@pytest.mark.parametrize(
    "rows",
    [without_an_original(), make_rows(*GROUPS, ("broad-other", *REFERENCE[1:])), of_clean(class_id=["n01440764"] * N),
     of_clean(wrong=[True] * N)],
    ids=["no original", "twice", "other classes", "never right"],
)  # fmt: skip
def test_clean_rows_that_nothing_can_be_held_against_are_refused(rows):
    with stops(EvaluationError):
        figures("broad", rows)


def test_chosen_metrics_compare_shifted_rows_with_the_known_rows_of_the_reference():
    """They were refused: only the reference config has known rows. Expected values are scikit-learn's."""
    protocol = protocol_of([METRICS["auroc"]])
    every = figures(protocol, make_rows(*GROUPS))
    for config, split, _, scores, *_ in SHIFTED:
        of = only(every, config=config, unknown=split)
        assert of["value"] == pytest.approx(auc(CLEAN, scores)), split
        assert (of["n_known"], of["n_unknown"]) == (N, len(scores))
    mean = only(every, config="broad-novel-classes", unknown="novel_class", statistic="mean")
    assert mean["value"] == pytest.approx(np.mean([auc(CLEAN, SHIFTED[place][3]) for place in (0, 1)]))
