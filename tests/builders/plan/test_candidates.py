import hashlib

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from builders.declare.ranking import Key, in_rank_order
from builders.plan import candidates
from builders.plan.candidates import KeyedRanks
from builders.sources.base import Source, SourceIndex
from tests.builders.indexes import made_up

KEY = Key(7, "c", "s")
SOURCE = Source("toy", "Toy", "", None, "", None, lambda: {"a": "A", "b": "B"}, dict, None)


def digest(name):
    """The rank as DESIGN states it."""
    return hashlib.sha256(f"7\0c\0s\0{name}".encode()).digest()


def index_of(sizes):
    """A source with so many images in each partition, of the classes a and b in turn."""
    partitions = (
        made_up(f"p{place}", ["a", "b"], np.arange(size) % 2, [f"{place}/{i}" for i in range(size)])
        for place, size in enumerate(sizes)
    )
    return SourceIndex(SOURCE, None, tuple(partitions))


@given(st.lists(st.text(max_size=5), unique=True, max_size=40))
def test_ids_with_equal_words_are_told_apart_by_their_digests(names):
    """Words of two bits, of which many are equal; of whole digests no two equal words are known."""
    words = np.array([digest(name)[0] >> 6 for name in names], np.uint64)
    array = pa.array(names, pa.string())
    order = in_rank_order(words, lambda positions: KEY.digests(array.take(pa.array(positions))))
    assert [names[i] for i in order] == sorted(names, key=digest)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=3), st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_the_first_of_each_class_do_not_depend_on_how_many_are_ranked_together(sizes, limits):
    index = index_of(sizes)
    names = index.table["source_id"].to_pylist()
    classes = index.table["class_id"].to_pylist()
    expected = []
    for class_id, limit in zip("ab", limits, strict=True):
        rows = [row for row, row_class in enumerate(classes) if row_class == class_id]
        expected += sorted(rows, key=lambda row: digest(names[row]))[:limit]
    limits_by_code = np.array([dict(zip("ab", limits, strict=True))[name] for name in index.class_ids], np.int64)
    before = candidates._RANKED_TOGETHER
    try:
        for together in (2, 1 << 20):
            candidates._RANKED_TOGETHER = together
            taken = KeyedRanks(index_of(sizes), KEY).first(np.arange(len(names)), limits_by_code)
            assert taken.tolist() == sorted(expected)
    finally:
        candidates._RANKED_TOGETHER = before
