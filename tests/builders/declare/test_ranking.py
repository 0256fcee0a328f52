import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.declare.ranking import Key, first_of_each, largest_remainders

names = st.lists(st.text(min_size=1, max_size=12).filter(lambda s: "\0" not in s), unique=True, max_size=40)


def by_definition(ids, seed, config, split):
    """The order as DESIGN states it, written with sorted() and hexadecimal digests."""
    key = {name: hashlib.sha256("\0".join((str(seed), config, split, name)).encode()).hexdigest() for name in ids}
    return sorted(ids, key=key.__getitem__)


def ordered(ids, seed=0, config="c", split="s"):
    array = pa.array(ids, pa.string())
    return [ids[i] for i in Key(seed, config, split).order(array)]


@given(names, st.integers(), st.sampled_from(["cifar", "imagenet"]))
def test_order_is_that_of_the_digests(ids, seed, config):
    assert ordered(ids, seed, config) == by_definition(ids, seed, config, "s")


def test_more_ids_than_one_block_are_ordered_as_a_whole():
    ids = [f"image-{i}" for i in range(70_000)]
    assert ordered(ids)[:100] == by_definition(ids, 0, "c", "s")[:100]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30), st.floats(0, 1))
def test_quotas_add_up_and_stay_within_one_of_the_exact_share(sizes, share):
    total = int(sum(sizes) * share)
    quotas = largest_remainders(total, sizes)
    assert sum(quotas) == total
    for quota, size in zip(quotas, sizes, strict=True):
        assert 0 <= quota <= size
        if sum(sizes):
            assert abs(quota - total * size / sum(sizes)) < 1


def test_quotas_of_a_small_case_worked_by_hand():
    # Shares of 10 among 7, 6, 4: 4.118, 3.529, 2.353. Whole parts give 9; the largest remainder, .529, gets the tenth.
    assert largest_remainders(10, [7, 6, 4]) == [4, 4, 2]


def test_equal_remainders_go_to_the_earlier_class():
    assert largest_remainders(10_000, [1000] * 32) == [313] * 16 + [312] * 16


@pytest.mark.parametrize("total", [-1, 6])
def test_more_than_there_is_cannot_be_shared(total):
    with pytest.raises(ValueError, match="cannot take"):
        largest_remainders(total, [2, 3])


@given(st.lists(st.integers(0, 4), max_size=60), st.lists(st.integers(0, 10), min_size=5, max_size=5), st.randoms())
def test_first_of_each_equals_a_loop(codes, quotas, random):
    order = list(range(len(codes)))
    random.shuffle(order)
    left = list(quotas)
    expected = []
    for row in order:
        if left[codes[row]] > 0:
            left[codes[row]] -= 1
            expected.append(row)
    taken = first_of_each(np.array(codes, np.int32), np.array(order, np.int64), np.array(quotas))
    assert taken.tolist() == expected
