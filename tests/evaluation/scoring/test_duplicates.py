"""Figures with and without duplicates, worked out by hand on a config that is not CIFAR's, and what reports say."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.evaluation.display.as_text import page_of
from tests.evaluation.duplicates_release import PAIRS, make_release
from tests.evaluation.made_rows import make_rows, only
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.protocols import figures
from unknown_detection.evaluation.protocols.results import read_figures
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.scoring.joining import release_index
from unknown_detection.evaluation.scoring.rows import (
    WITHOUT_DUPLICATES,
    count_left_out,
    describe_left_out,
    made_from_duplicates,
)

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
    assert (
        main(["report", "--release", str(root), "--out", str(out), "--no-plots", "--csv", "--quiet", *scored, *asked])
        == 0
    )
    return out


def lines(out, **named):
    return [line for line in read_figures(out).to_dict("records") if named.items() <= line.items()]


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
    manifest = json.loads((judged.parent / "release" / "manifest.json").read_text(encoding="utf-8"))
    assert {line["duplicates_sha256"] for line in lines(judged)} == {manifest["duplicates"]["sha256"]}


def test_the_report_counts_them_by_split_and_says_why(judged):
    sentence = (
        "Figures without duplicates leave out 3 rows of 2 splits because they appear in a pair of the release's table "
        "of duplicates."
    )
    page = page_of(judged)
    assert sentence in page.rpartition("Release digest")[2], "where it says what the figures are of"
    assert "imagenet/near_ood 3 1 0 1 imagenet/test 4 2 0 2 " in page
    assert "Effect of duplicates on imagenet" in page
    alone = page.rpartition("Unknown detection on imagenet, without duplicates")[2]
    assert sentence in alone, "below the table, too"
    counted = (judged / "tables" / "duplicates-left-out-unknown-detection.csv").read_text(encoding="utf-8")
    assert counted.splitlines()[1].startswith("imagenet/near_ood,3.0,,1.0,,0.0,,1.0")


def test_od_test_shows_what_duplicates_change(tmp_path):
    root = make_release(
        tmp_path / "release",
        rows={"imagenet/test": [(f"t{n}", n % 2) for n in range(4)]}
        | {"imagenet/validation": [(f"v{n}", n % 2) for n in range(4)]}
        | {f"imagenet/{name}": [(f"{name[0]}{n}", -1) for n in range(4)] for name in ("near_ood", "far_ood")},
        pairs=[("imagenet/near_ood", "n0", "imagenet/test", "t0", 0.0)],
    )
    scores = {f"{name}{n}": (7 * n + place) % 11 / 11 for place, name in enumerate("tvnf") for n in range(4)}
    out = report(tmp_path, root, "--splits", "imagenet", "--protocol", "od-test", scores=scores)
    table = (out / "tables" / "duplicates-od-test-imagenet.csv").read_text(encoding="utf-8")
    assert "Three datasets, mean" in table.splitlines()[0]


FAR = ("imagenet/far_ood_noise", "f0", "imagenet/far_ood_noise", "f1", 0.0)


def test_a_split_of_nothing_but_duplicates_does_not_end_the_report(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release", pairs=[*PAIRS, FAR]))
    for figure, (published, clean) in BY_HAND.items():
        assert value(out, "as_published", *figure)["value"] == pytest.approx(published, abs=1e-12)
        if figure[1] in ("near_ood", "test, wrong"):
            assert value(out, "without_duplicates", *figure)["value"] == pytest.approx(clean, abs=1e-12)
    assert lines(out, rows="as_published", unknown="far_ood_noise")
    assert not lines(out, rows="without_duplicates", unknown="far_ood_noise")
    sentence = (
        "Figures without duplicates leave out 5 rows of 3 splits because they appear in a pair of the release's table "
        "of duplicates. Nothing is left of imagenet/far_ood_noise."
    )
    assert sentence in page_of(out).rpartition("Release digest")[2], "where it says what the figures are of"


def test_where_all_unknown_rows_are_duplicates_the_report_says_that_there_are_no_figures_without(tmp_path):
    near = [("imagenet/near_ood", f"n{n}", "imagenet/near_ood", f"n{n + 1}", 0.0) for n in (0, 1)]
    out = report(tmp_path, make_release(tmp_path / "release", pairs=[*near, FAR]))
    assert {line["rows"] for line in lines(out)} == {"as_published"}
    sentence = "too few rows of imagenet are left for figures of unknown-detection without duplicates"
    assert sentence in page_of(out).partition("Kim, Koo and Hwang")[0], "before the tables"


def test_a_release_without_the_table_has_figures_of_all_rows_alone(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release", pairs=None))
    assert {line["rows"] for line in lines(out)} == {"as_published"}
    assert "duplicate" not in page_of(out)


def test_without_pairs_both_kinds_of_figures_are_the_same(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release", pairs=[]))
    values = [[line["value"] for line in lines(out, rows=rows)] for rows in ("as_published", "without_duplicates")]
    assert values[0] == values[1] != []
    assert "None of the evaluated rows is a duplicate" in page_of(out)


def test_an_image_of_two_configs_is_a_duplicate_where_the_table_has_its_row(tmp_path):
    """FACETS compares rows within a config: an image whose double is not in the other config stays there."""
    images = {f"facets-t{n}/test": [("a", 0), ("b", 1), ("c", 0)] for n in (1, 2)}
    images |= {f"facets-t{n}/near_ood": [("x", -1)] for n in (1, 2)}
    root = make_release(tmp_path / "release", rows=images, pairs=[("facets-t1/test", "a", "facets-t1/test", "b", 0.0)])
    rows = release_index(load(str(root)), ["facets-t1", "facets-t2"]).rows
    marked = list(zip(rows.config[rows.duplicate].tolist(), rows.id[rows.duplicate].tolist(), strict=True))
    assert marked == [("facets-t1", "a"), ("facets-t1", "b")]
    assert not made_from_duplicates(rows).any()


CLEAN = {"source_id": ["s/0", "s/1", "s/2"], "label": [0, 1, 2]}


def test_what_is_made_from_a_duplicate_goes_with_it_and_what_it_is_made_from_too():
    rows = make_rows(
        ("broad-reference", "test", "in_distribution", [0, 1, 2], CLEAN),
        ("broad-corruptions", "blur", "corruption", [3, 4, 5], CLEAN),
        duplicates=["broad-reference/test/in_distribution/0001", "broad-corruptions/blur/corruption/0002"],
    )
    assert sorted(rows.id[made_from_duplicates(rows)].tolist()) == [
        "broad-corruptions/blur/corruption/0001",
        "broad-reference/test/in_distribution/0002",
    ]
    counted = count_left_out(rows, WITHOUT_DUPLICATES, "broad")
    numbers = {"rows": 3, "left_out": 2, "duplicates": 1, "made_from_duplicates": 1, "class_id": "", "overlap": ""}
    assert counted.sort_index(axis=1).to_dict("records") == [
        dict(sorted({"protocol": "broad", "config": config, "split": split, **numbers}.items()))
        for config, split in (("broad-corruptions", "blur"), ("broad-reference", "test"))
    ]
    assert "leave out 4 rows of 2 splits" in describe_left_out(WITHOUT_DUPLICATES, counted)
    results = figures("broad", rows)
    (clean,) = [f for f in results if f.rows == "without_duplicates" and f.setting == "dsd" and not f.statistic]
    assert (clean.n_known, clean.n_unknown, clean.left_out) == (1, 1, 4)
    assert only(results, setting="dsd", statistic="", rows="as_published").left_out == 0
