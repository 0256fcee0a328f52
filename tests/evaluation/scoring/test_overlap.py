"""Figures without the rows whose class overlaps a known one, worked out by hand, and what reports say of them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.evaluation.display.as_text import page_of
from tests.evaluation.duplicates_release import make_release
from tests.evaluation.scoring.test_duplicates import lines, report, value
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.scoring.rows import SEEN, find_overlaps

# One of three near rows, and all far ones; t0 to t3 are known, with the scores .1 .2 .6 .3.
OVERLAPS = {"n0": "cat", "f0": "dog", "f1": "dog"}

# Without n0 (.5), f0 (.8) and f1 (.12): n1 .9 and n2 .15 are left. Published figures are those of `test_duplicates`.
BY_HAND = {
    # .15 is above .1 alone, .9 above all four: 5 of 8 pairs.
    ("ood_detection", "near_ood", "auroc"): 5 / 8,
    # t0 n2 t1 t3 t2 n1, of which n2, t2 (a wrong prediction) and n1 are errors.
    ("unknown_detection", "test, wrong + near_ood + far_ood_noise", "aurc"): (
        (0 + 1 / 2 + 1 / 3 + 1 / 4 + 2 / 5 + 3 / 6) / 6
    ),
    # Known rows have no overlap.
    ("misclassification_detection", "test, wrong", "accuracy"): 3 / 4,
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overlap")
    return report(folder, make_release(folder / "release", overlaps=OVERLAPS))


@pytest.mark.parametrize("figure", BY_HAND)
def test_figures_without_overlap_are_those_by_hand(judged, figure):
    assert value(judged, "without_overlap", *figure)["value"] == pytest.approx(BY_HAND[figure], abs=1e-12)


def test_openoods_demo_has_figures_with_and_without_its_kin_of_known_classes(openood_release, tmp_path):
    """The AUROC of SSB-hard by all pairs of a known and an unknown score; 192 of its 980 classes are kin."""
    splits = ("test", "ssb_hard", "ninco")
    index = {
        name: pq.read_table(openood_release / "index" / "openood-imagenet1k" / f"{name}.parquet") for name in splits
    }
    ids = [source_id for table in index.values() for source_id in table["id"].to_pylist()]
    scores = dict(zip(ids, np.random.default_rng(0).permutation(len(ids)) / len(ids), strict=True))
    asked = ",".join(f"openood-imagenet1k/{name}" for name in splits)
    out = report(tmp_path, openood_release, "--splits", asked, "--protocol", "openood", scores=scores)
    known, unknown = (np.array([scores[id_] for id_ in index[name]["id"].to_pylist()]) for name in splits[:2])
    apart = index["ssb_hard"]["id_overlap"].is_null().to_numpy()
    for rows, left in (("as_published", unknown), ("without_overlap", unknown[apart])):
        (line,) = lines(out, rows=rows, setting="standard", unknown="ssb_hard", metric="auroc", statistic="")
        assert line["value"] == pytest.approx((left[:, None] > known).mean(), abs=1e-12)
        assert (line["n_known"], line["n_unknown"], line["left_out"]) == (1_791, len(left), 980 - len(left))
    assert len(left) == 980 - 192


def test_each_figure_says_how_many_rows_it_lacks_and_an_empty_split_has_none(judged):
    near = value(judged, "without_overlap", "ood_detection", "near_ood", "auroc")
    assert (near["n_known"], near["n_unknown"], near["left_out"]) == (4, 2, 1)
    every = value(judged, "without_overlap", "unknown_detection", "test, wrong + near_ood + far_ood_noise", "aurc")
    assert every["left_out"] == 3
    assert lines(judged, rows="as_published", unknown="far_ood_noise")
    assert not lines(judged, rows="without_overlap", unknown="far_ood_noise")
    assert {line["left_out"] for line in lines(judged, rows="as_published")} == {0}
    assert lines(judged, rows="without_duplicates")


def test_the_report_lists_the_classes_that_are_left_out(judged):
    sentence = (
        "Figures without overlap leave out 3 rows of 2 splits because their class is, holds or shows a known one, "
        "according to the column id_overlap. Nothing is left of imagenet/far_ood_noise."
    )
    page = page_of(judged)
    assert sentence in page.rpartition("Release digest")[2], "where it says what the figures are of"
    assert "Effect of overlap on imagenet" in page
    listed = (judged / "tables" / "overlap-left-out-unknown-detection.csv").read_text(encoding="utf-8")
    assert listed.splitlines()[1:] == [
        '"imagenet/far_ood_noise, a class, dog",2.0,',
        '"imagenet/near_ood, a class, cat",1.0,',
    ]
    assert sentence in page.rpartition("Unknown detection on imagenet, without overlap")[2], "below the table, too"


def test_a_release_without_the_column_reads_as_before(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release"))
    assert {line["rows"] for line in lines(out)} == {"as_published", "without_duplicates"}
    assert "overlap" not in page_of(out)


def test_where_nothing_overlaps_both_figures_are_the_same(tmp_path):
    out = report(tmp_path, make_release(tmp_path / "release", overlaps={}))
    values = [[line["value"] for line in lines(out, rows=rows)] for rows in ("as_published", "without_overlap")]
    assert values[0] == values[1] != []
    sentence = "No evaluated row has a class that overlaps a known one according to the column id_overlap"
    assert sentence in page_of(out)


def test_the_page_says_which_classes_could_not_be_compared_before_the_figures(tmp_path):
    sentence = "2 of 2 classes are no nouns of WordNet 3.0 and were compared by name alone: x, y."
    compared = {"imagenet/near_ood": [sentence], "imagenet-train/train": ["of a config that is not evaluated"]}
    out = report(tmp_path, make_release(tmp_path / "release", overlaps={}, compared=compared))
    before = page_of(out).partition("At a glance")[0]
    assert f"imagenet/near_ood: {sentence}" in before
    assert "not evaluated" not in before


@pytest.mark.parametrize("compared", [3, [3], ["a\nb"]])
def test_a_manifest_that_says_it_otherwise_is_refused(tmp_path, compared):
    root = make_release(tmp_path / "release", overlaps={})
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["configs"]["imagenet"]["splits"]["near_ood"]["compared"] = compared
    (root / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(EvaluationError, match=r"The manifest\.json of .* is invalid"):
        load(str(root))


def test_where_all_unknown_rows_overlap_the_report_says_that_there_are_no_figures_without(tmp_path):
    overlaps = dict.fromkeys(("n0", "n1", "n2", "f0", "f1"), "a cat")
    out = report(tmp_path, make_release(tmp_path / "release", overlaps=overlaps))
    assert {line["rows"] for line in lines(out)} == {"as_published", "without_duplicates"}
    sentence = "too few rows of imagenet are left for figures of unknown-detection without overlap"
    assert sentence in page_of(out)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"id_overlap": ["cat", None, None]}, ["cat", "", ""]),
        ({"id_overlap": ["cat", None, None], "known_object_seen": [True, True, False]}, ["cat", SEEN, ""]),
        ({"id_overlap": [True, False, None]}, [SEEN, "", ""]),  # BROAD's releases of before
        ({"id_overlap": pa.nulls(3)}, ["", "", ""]),
    ],
    ids=["classes", "and objects", "objects", "nothing"],
)
def test_overlaps_are_read_from_either_column(columns, expected):
    assert find_overlaps(pa.table(columns)).to_pylist() == expected
    assert find_overlaps(pa.table({"id": ["a"]})) is None


def test_a_column_of_another_type_is_refused():
    with pytest.raises(EvaluationError, match="The column id_overlap of the release has the type int64, instead of"):
        find_overlaps(pa.table({"id_overlap": [1, 2]}))
