"""Batches: they cover a plan, cost about the same in bytes read and made, and are found again by a rerun."""

import dataclasses

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from builders.generate.arrays import AS_PNG
from builders.generate.batches import cut_batches
from builders.generate.contract import Weights
from builders.generate.exact.resize import FIXED_RESIZE

MEGABYTE = 1024 * 1024


def table(sizes, prefix="image"):
    return pa.table({"id": [f"{prefix}/{i}" for i in range(len(sizes))], "size": pa.array(sizes, pa.int64())})


@given(st.lists(st.integers(0, 40 * MEGABYTE), max_size=200))
def test_batches_cover_the_plan_in_order_and_cost_at_most_one_image_too_much(tmp_path_factory, sizes):
    found = cut_batches(table(sizes), AS_PNG, "x", tmp_path_factory.getbasetemp())
    assert [row for batch in found for row in range(batch.start, batch.stop)] == list(range(len(sizes)))
    for batch in found:
        costs = [size + 3072 + 32 * 1024 for size in sizes[batch.start : batch.stop]]
        # 64 MB of bytes read and pixels made, with 32 kB counted for each image; the one at a border may go to either
        # side.
        assert sum(costs) <= 64 * MEGABYTE + 2 * max(costs)


def test_tiny_images_are_cut_too(tmp_path):
    found = cut_batches(table([3072] * 18_000), AS_PNG, "x", tmp_path)
    assert len(found) == -(-18_000 * (3072 + 3072 + 32 * 1024) // (64 * MEGABYTE)) == 11


def test_a_pack_is_named_after_its_images_and_what_is_done_to_them(tmp_path):
    def names(sizes, generator=AS_PNG, prefix="image"):
        return [batch.pack.name for batch in cut_batches(table(sizes, prefix), generator, "x", tmp_path)]

    first = names([1, 2, 3])
    assert names([1, 2, 3]) == first
    assert len({*first, *names([1, 2, 4]), *names([1, 2, 3], FIXED_RESIZE), *names([1, 2, 3], prefix="other")}) == 4


def test_large_outputs_are_cut_though_nothing_is_read(tmp_path):
    large = dataclasses.replace(FIXED_RESIZE, size=(1024, 1024))  # 3 MB of pixels each
    found = cut_batches(table([0] * 100), large, "x", tmp_path)
    assert len(found) == 5  # 100 * (3 + 1/32) MB / 64 MB
    assert {batch.stop - batch.start for batch in found} == {20, 21, 19}


def test_a_pack_is_named_after_version_parameters_and_weights_too(tmp_path):
    changes = [
        {},
        {"version": 2},
        {"parameters": {"side": 33}},
        {"parameters": {}},
        {"weights": (Weights("w", "0" * 64),)},
        {"weights": (Weights("w", "1" * 64),)},
    ]
    generators = [dataclasses.replace(FIXED_RESIZE, **change) for change in changes]
    names = [cut_batches(table([1, 2, 3]), generator, "x", tmp_path)[0].pack.name for generator in generators]
    assert len(set(names)) == len(changes)
