"""The figures of near-duplicates: counted by hand on a few pairs."""

import numpy as np
import pytest

from benchmarks import figures
from benchmarks.duplicates import judged, page
from benchmarks.duplicates.cifair import count, seen_apart
from builders.release.entries import NEAR_DISTANCE


def test_figures_are_of_the_distance_that_builds_have():
    written = page.counts(figures.read())
    assert {of["distance"] for of in written.values()} == {NEAR_DISTANCE}, (
        "search again with benchmarks.duplicates.cifair"
    )


def test_recall_and_precision_by_pair_and_group_by_hand():
    """Two groups: a, b, c and f in three pairs, of which one is wrong, and d and e in a right one."""
    found = [("test/a", "train/b"), ("test/a", "train/c"), ("test/c", "train/b"), ("test/d", "train/e")]
    found[2] = ("test/f", "train/b")
    joins = [
        {found[0]: 1, ("test/x", "train/y"): 0},
        {found[0]: 1, found[1]: 2, found[3]: 0, ("test/x", "train/y"): 0},
    ]
    counted = count(found, joins, apart=set())
    assert counted["near"] == [[1, 2], [2, 3]]
    assert (counted["found"], counted["judged 2"], counted["not judged"], counted["wrong"]) == (4, 1, 1, 1)
    assert (counted["groups"], counted["largest"]) == (2, 3)
    # (2 / 3 + 1) / 2; three of four pairs are right.
    assert counted["right share of groups"] == pytest.approx(5 / 6, abs=1e-4)
    assert count(found, joins, apart={found[3]})["right share of groups"] == pytest.approx((2 / 3 + 0) / 2, abs=1e-4)


def test_files_of_a_class_stand_in_the_order_of_the_archive():
    names = ["test/a/0.png", "test/a/1.png", "test/b/0.png", "test/b/1.png", "test/b/2.png"]
    labels = np.array([1, 0, 1, 1, 0])
    expected = ["test/b/0.png", "test/a/0.png", "test/b/1.png", "test/b/2.png", "test/a/1.png"]
    assert judged.in_order(names, labels) == expected


def test_the_most_alike_are_taken_first_and_a_query_once():
    alike = np.array([[0.9, 0.8], [0.1, 0.7], [0.2, 0.6]])
    assert list(judged.most_alike(alike, 2)) == [(0, 0), (1, 1)]


def test_a_moved_copy_correlates_most():
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    moved = np.roll(images, (1, -1), (1, 2))[:, :, ::-1]
    assert judged.correlations(moved, images).argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_pairs_that_were_looked_at_are_found_ones():
    written = page.counts(figures.read())
    for name in written:
        pairs = seen_apart(name)
        assert pairs
        assert len(pairs) <= sum(written[name][key]["wrong"] for key in ("train", "test"))
        assert all(test.startswith("test/") for test, _ in pairs)
