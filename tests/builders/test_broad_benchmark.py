"""BROAD: what the paper and its repository count, and a build of the demo sources."""

import collections

import pytest

from builders.broad_benchmark import BENCHMARK
from builders.plan.planner import plan
from taxonomy import tables
from tests.builders.indexes import whole_index


@pytest.fixture(scope="module")
def reference():
    """The plan of broad-reference from all of ILSVRC2012's validation images."""
    sources = {source.key: source for source in BENCHMARK.sources()}
    indexes = {"imagenet": whole_index(sources["imagenet"], ["val"])}
    keys = ("broad-reference/test", "broad-reference/held_out")
    return {split.key.partition("/")[2]: split for split in plan(BENCHMARK, indexes, seed=0, splits=keys)}


def test_reference_is_all_of_validation_in_two_parts(reference):
    # The paper fits mixtures on 45,000 held-out images (section 3), and its repository attacks 5,000 originals.
    test, held_out = reference["test"], reference["held_out"]
    assert (len(test.rows), len(held_out.rows)) == (5_000, 45_000)
    ids = [set(split.table["id"].to_pylist()) for split in (test, held_out)]
    assert not ids[0] & ids[1]
    for split, images in ((test, 5), (held_out, 45)):
        assert collections.Counter(split.table["class_id"].to_pylist()) == {
            row.wnid: images for row in tables.imagenet1k()
        }
        assert split.count.rows == split.count.paper == len(split.rows)
        assert split.table["label"].to_pylist() == [
            split.labels.index(name) for name in split.table["class_id"].to_pylist()
        ]
    assert test.labels == tuple(row.wnid for row in tables.imagenet1k())


def test_sets_have_their_published_sizes():
    assert BENCHMARK.count("broad-novel-classes/imagenet_o").rows == 2_000
