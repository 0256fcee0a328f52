"""A table of rows by id on disk: parts that are whole or not there, whoever writes them."""

import numpy as np
import pytest

from tests.builders.conftest import files_of
from tests.evaluation.refusals import refusal
from tests.evaluation.stored import COMPUTED, ids_of
from tests.power import Disk
from tests.sentences import assert_sentence
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.table import RowTable

KEY = "cifar/test"
IDS = ids_of(f"source/ü{number}" for number in range(10))


def columns(rows):
    """A split's columns for some row numbers; every number tells its row."""
    numbers = np.array(rows)
    return {
        "number": numbers,
        "logits": (numbers[:, None] + np.array([0, 0.25, 0.5])).astype(np.float32),
        "block": -numbers[:, None] * np.ones(4),
    }


def fill(table, key=KEY, ids=IDS, size=4, environment=COMPUTED, first=0):
    """Compute what is missing; which row numbers that were. A row's values are its number and `first`."""
    missing = table.left(key, ids, size, environment)
    for part in missing:
        table.write(key, int(part[0]), ids.take(part), columns(part + first), environment)
    return [part.tolist() for part in missing]


@pytest.fixture
def table(tmp_path):
    return RowTable(tmp_path / "table")


def test_rows_are_read_by_their_ids(table):
    assert not table.has(KEY, IDS).any()
    assert fill(table) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    for order in ([*range(10)], [9, 0, 5, 5]):
        read = table.read(KEY, IDS.take(order))
        for name, values in columns(order).items():
            assert np.array_equal(read[name], values)
            assert read[name].dtype == values.dtype
    assert list(table.read(KEY, IDS, ["block"])) == ["block"]
    assert table.environments(KEY, IDS) == [COMPUTED]
    assert "lacks 1 of the 1 rows of cifar/test. Run the command" in refusal(table.read, KEY, ids_of(["other"]))


def test_after_every_power_cut_the_same_run_ends_with_the_same_rows(tmp_path):
    with (disk := Disk(tmp_path)).watching():
        fill(RowTable(tmp_path / "table"))
    files = files_of(tmp_path / "table")
    for cut in disk.cuts:
        cut.put(tmp_path)
        fill(RowTable(tmp_path / "table"))
        after = files_of(tmp_path / "table")
        assert {name: after[name] for name in files} == files, cut.after


def test_a_flipped_bit_is_never_read_as_a_feature(table):
    """Arrow's files have no checksum of values; bytes that only fill up may be anything."""
    fill(table, size=10)
    (path,) = table.folder.iterdir()
    whole, expected = path.read_bytes(), table.read(KEY, IDS)
    refused = 0
    for place in range(0, len(whole), 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place // 2 % 8]) + whole[place + 1 :])
        try:
            read = RowTable(table.folder).read(KEY, IDS)
        except EvaluationError as error:
            assert str(error).startswith(f"{path} is ")
            refused += 1
            continue
        assert read.keys() == expected.keys()
        assert all(np.array_equal(read[name], expected[name]) for name in read), place
    assert refused > len(whole) / 4


def test_an_image_of_several_splits_is_there_once_in_any_order_and_the_first_of_several_counts(table):
    fill(table)
    other = ids_of(["new", *IDS.take([7, 2]).to_pylist()])
    assert fill(table, "cifar/mixed", other, first=50) == [[0]]
    assert table.read("cifar/mixed", other)["number"].tolist() == [50, 7, 2]
    # Computed for this split, its values go before those of others.
    table.write("cifar/again", 0, IDS.take([1]), columns([60]), COMPUTED)
    assert table.read("cifar/again", IDS.take([1]))["number"].tolist() == [60]
    assert table.read(KEY, IDS.take([1]))["number"].tolist() == [1]


@pytest.mark.parametrize("changed", [{"batch_size": 5}, {"device": "cuda"}], ids=["size", "device"])
def test_rows_of_a_split_are_never_mixed_that_were_computed_in_two_ways(table, changed):
    fill(table)
    another = COMPUTED | changed
    assert fill(table, environment=another) == [], "a whole split stays as it is"
    assert table.environments(KEY, IDS) == [COMPUTED]
    min(table.folder.iterdir()).unlink()
    message = refusal(table.left, KEY, IDS, 4, another, alone=False)
    ((name, value),) = changed.items()
    assert_sentence(message, name, COMPUTED[name], value)
    # Nor are those of other splits taken.
    table.write("cifar/other", 0, IDS.take([1]), columns([1]), COMPUTED)
    assert fill(table, environment=another) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert table.environments(KEY, IDS) == [another]
    assert table.read("cifar/other", IDS.take([1]))["number"].tolist() == [1]
