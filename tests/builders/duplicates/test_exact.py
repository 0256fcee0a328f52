"""Equal digests in index files, against a dictionary of lists."""

import itertools
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.duplicates import exact
from builders.duplicates.exact import ALL_PAIRS, exact_pairs, rows_of_pairs
from builders.release.duplicates import Pair

DIGESTS = [f"{number:064x}" for number in (0, 1, 2**255, 2**256 - 1, 0xABCDEF << 192)]


def write(folder, key, digests, *, ids=None, row_group_size=7):
    path = folder / f"{key.replace('/', '-')}.parquet"
    names = ids or [f"{key}#{number:04d}" for number in range(len(digests))]
    table = {
        "id": names,
        "role": pa.array([len(key) % 3] * len(digests), pa.int64()),
        "class_id": ["k"] * len(digests),
    }
    table["content_sha256"] = pa.array(digests, pa.string())
    pq.write_table(pa.table(table), path, row_group_size=row_group_size)
    return path


def by_dictionary(columns):
    """All pairs of places of equal digests: the naive way."""
    rows = defaultdict(list)
    for key, digests in columns.items():
        for number, digest in enumerate(digests):
            rows[digest].append((key, f"{key}#{number:04d}"))
    return {pair for group in rows.values() for pair in itertools.combinations(sorted(group), 2)}


def pairs_of(indexes):
    pairs = exact_pairs(indexes)
    assert all(pair.distance == 0 for pair in pairs)
    pairs_of_rows = [((p.split, p.id), (p.other_split, p.other_id)) for p in pairs]
    assert len(set(pairs_of_rows)) == len(pairs_of_rows)
    return set(pairs_of_rows)


@pytest.mark.parametrize("seed", range(5))
def test_the_pairs_of_a_dictionary(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(exact, "_BATCH_ROWS", 5)
    generator = np.random.default_rng(seed)
    pool = [*DIGESTS, *(generator.bytes(32).hex() for _ in range(60))]
    columns = {
        key: [pool[i] for i in generator.integers(len(pool), size=size)]
        for key, size in (("a/x", 0), ("a/y", 1), ("b/test", 33), ("b/u", 40))
    }
    indexes = {key: write(tmp_path, key, digests) for key, digests in columns.items()}
    assert pairs_of(indexes) == by_dictionary(columns)
    assert by_dictionary(columns)


def test_digests_that_only_begin_alike_are_no_pair(tmp_path):
    digests = ["ab" * 8 + f"{number:048x}" for number in range(20)]
    assert pairs_of({"a/x": write(tmp_path, "a/x", digests)}) == set()
    assert len(pairs_of({"a/x": write(tmp_path, "a/x", [*digests, digests[4]])})) == 1


def test_one_image_in_two_splits_is_no_pair(tmp_path):
    indexes = {key: write(tmp_path, key, DIGESTS[:2], ids=["same", key]) for key in ("a/x", "a/y")}
    assert pairs_of(indexes) == {(("a/x", "a/x"), ("a/y", "a/y"))}


def test_a_large_group_is_paired_with_its_first_alone(tmp_path):
    # 100 images: 100 * 99 / 2 pairs. 101 images: one pair for each but the first, 100.
    for size, expected in ((ALL_PAIRS, 4950), (ALL_PAIRS + 1, 100)):
        pairs = pairs_of(
            {"a/x": write(tmp_path, "a/x", DIGESTS[:1] * (size - 1)), "b/x": write(tmp_path, "b/x", DIGESTS[:1])}
        )
        assert len(pairs) == expected
    assert {row for row, _ in pairs} == {("a/x", "a/x#0000")}


def test_a_damaged_column_gives_no_false_pair(tmp_path):
    digests = [None, None, "", "ü" * 16, "é" * 16, "short", "short", *DIGESTS[:1]]
    assert pairs_of({"a/x": write(tmp_path, "a/x", digests)}) == {(("a/x", "a/x#0005"), ("a/x", "a/x#0006"))}


def test_rows_come_by_id_with_role_and_class(tmp_path):
    path = write(tmp_path, "a/yz", DIGESTS)
    pairs = [Pair("a/yz#0003", "nowhere", "a/yz", "no/split", "", "", "", "", 0.0)]
    rows = rows_of_pairs(pairs, {"a/yz": path}.get)
    assert rows == {("a/yz", "a/yz#0003"): (("a/yz", "a/yz#0003", "near_ood", "k"), DIGESTS[3], 3)}
