"""Figures without duplicates and without overlap, by hand on a config that is not CIFAR's, and what reports say."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.evaluation.duplicates_release import PAIRS, make_release
from tests.evaluation.report.as_text import figures_of, page_of
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.frame import left_out
from unknown_detection.evaluation.releases import load

# Sorted by score: t0 f1 n2 t1 t3 n0 t2 f0 n1. Predictions are right but for t2.
SCORES = {
    "t0": 0.10, "t1": 0.20, "t2": 0.60, "t3": 0.30,
    "n0": 0.50, "n1": 0.90, "n2": 0.15, "f0": 0.80, "f1": 0.12,
}  # fmt: skip
PREDICTIONS = {"t0": 0, "t1": 1, "t2": 1, "t3": 1}

# Without t0, t2 and n0: f1 n2 t1 t3 f0 n1.
BY_HAND = {
    # Known .1 .2 .3 .6 against unknown .15 .5 .9: 1 + 3 + 4 of 12 pairs are in order; .2 .3 against .15 .9: 2 of 4.
    ("ood_detection", "near_ood", "auroc"): (8 / 12, 2 / 4),
    # Against .8 .12: 4 + 1 of 8; of .2 .3 against the same: 2 of 4.
    ("ood_detection", "far_ood_noise", "auroc"): (5 / 8, 2 / 4),
    # Errors among the first k rows, in the order above, over k; their mean.
    ("unknown_detection", "test, wrong + near_ood + far_ood_noise", "aurc"): (
        (0 + 1 / 2 + 2 / 3 + 2 / 4 + 2 / 5 + 3 / 6 + 4 / 7 + 5 / 8 + 6 / 9) / 9,
        (1 + 2 / 2 + 2 / 3 + 2 / 4 + 3 / 5 + 4 / 6) / 6,
    ),
    # t0 t1 t3 t2 with one error, the last; t1 and t3 with none.
    ("misclassification_detection", "test, wrong", "aurc"): ((1 / 4) / 4, 0.0),
    ("misclassification_detection", "test, wrong", "accuracy"): (3 / 4, 1.0),
}


def report(tmp_path, root, *words, name="out", scores=SCORES):
    """Judge scores of the config `imagenet`; gives the report's folder."""
    table = pa.table(
        {
            "id": list(scores),
            "score": list(scores.values()),
            "prediction": pa.array([PREDICTIONS.get(id_, 0) for id_ in scores]),
        }
    )
    pq.write_table(table, tmp_path / "mine.parquet")
    out = tmp_path / name
    asked = words or ("--splits", "imagenet")
    scored = ("--scores", str(tmp_path / "mine.parquet"))
    assert main(["report", "--release", str(root), "--out", str(out), "--no-plots", "--csv", *scored, *asked]) == 0
    return out


def lines(out, **named):
    return [line for line in figures_of(out).to_dict("records") if named.items() <= line.items()]


def value(out, rows, setting, unknown, metric):
    (line,) = lines(out, rows=rows, setting=setting, unknown=unknown, metric=metric, statistic="")
    return line


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("duplicates")
    return report(folder, make_release(folder / "release"))


@pytest.mark.parametrize("figure", BY_HAND)
def test_figures_on_all_rows_and_without_both_sides_of_pairs_are_those_by_hand(judged, figure):
    for rows, expected in zip(("as_published", "without_duplicates"), BY_HAND[figure], strict=True):
        assert value(judged, rows, *figure)["value"] == pytest.approx(expected, abs=1e-12)


def test_the_results_say_how_many_rows_each_figure_lacks_and_of_which_table(judged):
    near, far = (
        value(judged, "without_duplicates", "ood_detection", name, "auroc") for name in ("near_ood", "far_ood_noise")
    )
    assert (near["n_known"], near["n_unknown"], near["left_out"]) == (2, 2, 3)
    assert (far["n_known"], far["n_unknown"], far["left_out"]) == (2, 2, 2)
    assert {line["left_out"] for line in lines(judged, rows="as_published")} == {0}
    assert len(lines(judged, rows="as_published")) == len(lines(judged, rows="without_duplicates"))
    for place in ("The release has the digest", "Effect of duplicates on imagenet"):
        assert "Figures without duplicates leave out 3 of 9 rows" in page_of(judged).rpartition(place)[2], place
    manifest = json.loads((judged.parent / "release" / "manifest.json").read_text(encoding="utf-8"))
    assert {line["duplicates_sha256"] for line in lines(judged)} == {manifest["duplicates"]["sha256"]}


FAR = ("imagenet/far_ood_noise", "f0", "imagenet/far_ood_noise", "f1", 0.0)


def test_a_split_of_nothing_but_duplicates_does_not_end_the_report(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release", pairs=[*PAIRS, FAR]))
    for figure, (published, clean) in BY_HAND.items():
        assert value(out, "as_published", *figure)["value"] == pytest.approx(published, abs=1e-12)
        if figure[1] in ("near_ood", "test, wrong"):
            assert value(out, "without_duplicates", *figure)["value"] == pytest.approx(clean, abs=1e-12)
    assert not lines(out, rows="without_duplicates", unknown="far_ood_noise")
    # What is over all unknown rows is over the near ones alone, and there is no other figure to compare it with.
    of_near = value(out, "without_duplicates", "unknown_detection", "test, wrong + near_ood", "aurc")
    assert pd.isna(of_near["left_out"])
    assert "Nothing is left of imagenet/far_ood_noise." in page_of(out)


@pytest.mark.parametrize("kind", ["duplicates", "overlap"])
def test_where_all_unknown_rows_are_left_out_there_are_no_figures_without_and_the_report_says_why(tmp_path, kind):
    near = [("imagenet/near_ood", f"n{n}", "imagenet/near_ood", f"n{n + 1}", 0.0) for n in (0, 1)]
    overlaps = dict.fromkeys(("n0", "n1", "n2", "f0", "f1"), "a cat")
    made = {"pairs": [*near, FAR]} if kind == "duplicates" else {"pairs": None, "overlaps": overlaps}
    out = report(tmp_path, make_release(tmp_path / "release", **made))
    assert {line["rows"] for line in lines(out)} == {"as_published"}
    assert "Nothing is left of imagenet/far_ood_noise, imagenet/near_ood." in page_of(out)


def test_a_release_that_does_not_say_has_figures_of_all_rows_alone(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release", pairs=None))
    assert {line["rows"] for line in lines(out)} == {"as_published"}
    assert "duplicate" not in page_of(out) and "overlap" not in page_of(out)


def test_where_nothing_is_left_out_all_kinds_of_figures_are_the_same(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release", pairs=[], overlaps={}))
    kinds = ("as_published", "without_duplicates", "without_overlap")
    values = [[line["value"] for line in lines(out, rows=rows)] for rows in kinds]
    assert values[0] == values[1] == values[2] != []
    for what in ("duplicates", "overlap"):
        assert f"None of 9 rows is left out without {what}: these figures equal all." in page_of(out)


def test_an_image_of_two_configs_is_a_duplicate_where_the_table_has_its_row(tmp_path):
    """FACETS compares rows within a config: an image whose double is not in the other config stays there."""
    images = {f"facets-t{n}/test": [("a", 0), ("b", 1), ("c", 0)] for n in (1, 2)}
    images |= {f"facets-t{n}/near_ood": [("x", -1)] for n in (1, 2)}
    root = make_release(tmp_path / "release", rows=images, pairs=[("facets-t1/test", "a", "facets-t1/test", "b", 0.0)])
    rows = load(str(root)).index(["facets-t1", "facets-t2"])
    marked = [("facets-t1", "a"), ("facets-t1", "b")]
    assert rows[rows["duplicate"]][["config", "id"]].values.tolist() == [[*of] for of in marked]
    lost = left_out(rows, "without_duplicates")
    assert rows[lost][["config", "id"]].values.tolist() == [[*of] for of in marked]


# Of overlap: one of three near rows, and all far ones; t0 to t3 are known, with the scores .1 .2 .6 .3.
OVERLAPS = {"n0": "cat", "f0": "dog", "f1": "dog"}

# Without n0 (.5), f0 (.8) and f1 (.12): n1 .9 and n2 .15 are left.
WITHOUT_OVERLAP = {
    # .15 is above .1 alone, .9 above all four: 5 of 8 pairs.
    ("ood_detection", "near_ood", "auroc"): (5 / 8, 1),
    # t0 n2 t1 t3 t2 n1, of which n2, t2 (a wrong prediction) and n1 are errors.
    ("unknown_detection", "test, wrong + near_ood", "aurc"): ((0 + 1 / 2 + 1 / 3 + 1 / 4 + 2 / 5 + 3 / 6) / 6, None),
    # Known rows have no overlap.
    ("misclassification_detection", "test, wrong", "accuracy"): (3 / 4, 0),
}


def test_figures_without_overlap_are_those_by_hand_and_the_report_says_what_is_left_out(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release", overlaps=OVERLAPS))
    for figure, (expected, lost) in WITHOUT_OVERLAP.items():
        line = value(out, "without_overlap", *figure)
        assert line["value"] == pytest.approx(expected, abs=1e-12)
        assert pd.isna(line["left_out"]) if lost is None else line["left_out"] == lost
    assert not lines(out, rows="without_overlap", unknown="far_ood_noise")
    sentence = (
        "Figures without overlap leave out 3 of 9 rows, which are of a class that is, holds or shows a known one, by "
        "the column id_overlap. Nothing is left of imagenet/far_ood_noise."
    )
    assert sentence in page_of(out).rpartition("Effect of overlap on imagenet")[2]


def test_the_page_says_which_classes_could_not_be_compared_before_the_figures(tmp_path):
    sentence = "2 of 2 classes are no nouns of WordNet 3.0 and were compared by name alone: x, y."
    compared = {"imagenet/near_ood": [sentence], "imagenet-train/train": ["of a config that is not evaluated"]}
    out = report(tmp_path, make_release(tmp_path / "release", overlaps={}, compared=compared))
    before = page_of(out).partition("At a glance")[0]
    assert f"imagenet/near_ood: {sentence}" in before
    assert "not evaluated" not in before
