"""Batches: they cover a plan, cost about the same in bytes read and made, and are found again by a rerun."""

import dataclasses

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from builders.generate.batches import cut_batches
from builders.generate.contract import AS_PNG, Weights
from builders.generate.exact.resize import FIXED_RESIZE

MEGABYTE = 1024 * 1024


def table(sizes, prefix="image"):
    return pa.table({"id": [f"{prefix}/{i}" for i in range(len(sizes))], "size": pa.array(sizes, pa.int64())})


@given(st.lists(st.integers(0, 40 * MEGABYTE), max_size=200))
def test_batches_cover_the_plan_in_order_and_cost_at_most_one_image_too_much(tmp_path_factory, sizes):
    batches = cut_batches(table(sizes), AS_PNG, "x", tmp_path_factory.getbasetemp())
    assert [row for batch in batches for row in range(batch.start, batch.stop)] == list(range(len(sizes)))
    for batch in batches:
        costs = [size + 3072 + 32 * 1024 for size in sizes[batch.start : batch.stop]]
        # 64 MB of bytes read and pixels made, with 32 kB counted for each image; the one at a border may go to either
        # side.
        assert sum(costs) <= 64 * MEGABYTE + 2 * max(costs)


def test_tiny_images_and_large_outputs_are_cut_too(tmp_path):
    tiny = cut_batches(table([3072] * 18_000), AS_PNG, "x", tmp_path)
    assert len(tiny) == -(-18_000 * (3072 + 3072 + 32 * 1024) // (64 * MEGABYTE)) == 11
    large = cut_batches(table([0] * 100), dataclasses.replace(FIXED_RESIZE, size=(1024, 1024)), "x", tmp_path)
    assert len(large) == 5  # 100 * (3 + 1/32) MB / 64 MB
    assert {batch.stop - batch.start for batch in large} == {20, 21, 19}


def test_a_pack_is_named_after_its_images_and_the_generators_identity(tmp_path):
    def name(sizes=(1, 2, 3), prefix="image", generator=FIXED_RESIZE, **changes):
        changed = dataclasses.replace(generator, **changes)
        return cut_batches(table(sizes, prefix), changed, "x", tmp_path)[0].pack.name

    names = [
        name(),
        name(sizes=(1, 2, 4)),
        name(prefix="other"),
        name(generator=AS_PNG),
        name(version=2),
        name(parameters={"side": 33}),
        name(parameters={}),
        name(weights=(Weights("w", "0" * 64),)),
        name(weights=(Weights("w", "1" * 64),)),
    ]
    assert len(set(names)) == len(names)
    assert name() == names[0]
