"""Features on disk: parts that are whole or not there, and folders that belong to one release and one model."""

import multiprocessing
import re

import msgspec
import numpy as np
import pytest
from unknown_detection.evaluation.features.blocks import RowBlocks

from tests.builders.conftest import files_of
from tests.evaluation.refusals import refusal
from tests.power import Disk
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.store import FeatureStore, Identity, block_column
from unknown_detection.evaluation.models.features import Head

IDENTITY = Identity("a" * 64, "it.py:model", "b" * 64, ("x", "y", "z"), ("layer1", "layer2"), {"size": [8, 8]})
HEAD = Head(np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0.5, 0, -1], np.float32))
COMPUTED = {"device": "cpu", "batch_size": 4}


def columns(rows):
    """A split's columns for some row numbers; every number tells its row."""
    numbers = np.array(rows)
    return {
        "id": np.array([f"source/ü{number}" for number in numbers]),
        "label": np.where(numbers % 3 == 2, -1, numbers % 3),
        "logits": (numbers[:, None] + np.array([0, 0.25, 0.5])).astype(np.float32),
        "penultimate": numbers[:, None] * np.ones(2, np.float32),
        block_column(0): numbers[:, None] * np.ones(4, np.float32),
        block_column(1): -numbers[:, None] * np.ones(2, np.float32),
    }


def fill(row_blocks, rows=10, size=4, environment=COMPUTED):
    """Compute what is missing; which row numbers that were."""
    missing = row_blocks.begin(rows, size, environment)
    for part in missing:
        row_blocks.write(part, columns(part), rows, environment)
    return missing


def test_parts_are_read_in_order(tmp_path):
    row_blocks = RowBlocks(tmp_path / "parts")
    assert not row_blocks.is_whole(), "without any rows"
    assert fill(row_blocks) == [range(0, 4), range(4, 8), range(8, 10)]
    read = row_blocks.read()
    for name, values in columns(range(10)).items():
        assert np.array_equal(read[name], values)
        assert read[name].dtype.kind == values.dtype.kind
    assert read["logits"].dtype == np.float32
    assert list(row_blocks.read(["label"])) == ["label"]
    assert row_blocks.environment() == COMPUTED


def test_after_every_power_cut_the_same_run_ends_with_the_same_features(tmp_path):
    with (disk := Disk(tmp_path)).watching():
        FeatureStore.begin(tmp_path / "store", IDENTITY, HEAD)
        fill(RowBlocks(tmp_path / "store" / "parts"))
    files = files_of(tmp_path / "store")
    for cut in disk.cuts:
        cut.put(tmp_path)
        if RowBlocks(tmp_path / "store" / "parts").is_whole():
            RowBlocks(tmp_path / "store" / "parts").read()
        FeatureStore.begin(tmp_path / "store", IDENTITY, HEAD)
        fill(RowBlocks(tmp_path / "store" / "parts"))
        after = files_of(tmp_path / "store")
        assert {name: after[name] for name in files} == files, cut.after


def test_only_what_is_missing_is_computed_again(tmp_path):
    row_blocks = RowBlocks(tmp_path / "parts")
    fill(row_blocks)
    complete = files_of(row_blocks.folder)
    assert fill(row_blocks) == []
    (row_blocks.folder / "000000004-000000008.arrow").unlink()
    # What a killed run leaves: a file under its temporary name.
    (row_blocks.folder / ".123.000000004-000000008.arrow").write_bytes(b"half")
    assert not row_blocks.is_whole()
    assert "it has only 2 blocks of its rows. Run the command" in refusal(row_blocks.read)
    assert fill(row_blocks) == [range(4, 8)]
    assert files_of(row_blocks.folder) == complete
    (row_blocks.folder / "000000004-000000008.arrow").write_bytes(b"ARROW1\0\0")
    assert "000000004-000000008.arrow is damaged. Delete it, and run the command" in refusal(row_blocks.read)


def test_a_part_of_something_else_is_computed_again(tmp_path):
    row_blocks = RowBlocks(tmp_path / "parts")
    fill(row_blocks)
    complete = files_of(row_blocks.folder)
    (row_blocks.folder / "000000008-000000010.arrow").unlink()
    row_blocks.write(range(4), columns(range(4)), 99, COMPUTED)
    assert fill(row_blocks) == [range(0, 4), range(8, 10)]
    assert files_of(row_blocks.folder) == complete


def test_a_split_that_was_asked_for_and_is_not_whole_is_missed(tmp_path):
    store = FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    store.expect([("cifar", "test"), ("cifar", "near_ood")])
    store.expect([("other", "test")])
    fill(store.row_blocks("cifar", "near_ood"))
    store = FeatureStore.open(tmp_path / "out")
    for configs in (["cifar"], ["cifar", "other"], []):
        message = refusal(store.require_whole, configs)
        assert re.search(r"Features of cifar/test.* are missing, incomplete or damaged\. Run", message)
    assert "Features of other/test" in refusal(store.require_whole, ["other"])
    fill(store.row_blocks("cifar", "test"))
    store.require_whole(["cifar"])


@pytest.mark.parametrize(
    "changed", [{"size": 5}, {"environment": {**COMPUTED, "device": "cuda"}}], ids=["size", "device"]
)
def test_rows_are_never_mixed_that_were_computed_in_two_ways(tmp_path, changed):
    row_blocks = RowBlocks(tmp_path / "parts")
    fill(row_blocks)
    # A whole split stays as it is.
    assert fill(row_blocks, **changed) == []
    assert row_blocks.environment() == COMPUTED
    (row_blocks.folder / "000000008-000000010.arrow").unlink()
    assert sum(map(len, fill(row_blocks, **changed))) == 10
    assert row_blocks.is_whole()


def test_a_store_gives_back_what_was_put_in(tmp_path):
    store = FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    fill(store.row_blocks("cifar", "test"))
    fill(store.row_blocks("cifar", "near_ood"))
    fill(store.row_blocks("cifar-train", "train"))
    (store.row_blocks("cifar", "near_ood").folder / "000000008-000000010.arrow").unlink()
    store = FeatureStore.open(tmp_path / "out")
    assert store.identity == IDENTITY
    assert str(tmp_path) not in (tmp_path / "out" / "features.json").read_text(encoding="utf-8")
    assert store.splits() == {"cifar": ("test",), "cifar-train": ("train",)}
    features, expected = store.features("cifar", "test"), columns(range(10))
    stored = (features.ids, features.labels, features.logits, features.penultimate)
    for values, name in zip(stored, ("id", "label", "logits", "penultimate"), strict=True):
        assert np.array_equal(values, expected[name])
    assert [block.shape for block in features.blocks] == [(10, 4), (10, 2)]
    assert np.array_equal(features.blocks[1], expected[block_column(1)])
    assert np.array_equal(store.head().weight, HEAD.weight)
    assert np.array_equal(store.head().bias, HEAD.bias)


def test_blocks_are_read_one_at_a_time_when_asked_for(tmp_path, monkeypatch):
    store = FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    fill(store.row_blocks("cifar", "test"))
    reads, read = [], RowBlocks.read
    monkeypatch.setattr(
        RowBlocks, "read", lambda row_blocks, names=None: reads.append(names) or read(row_blocks, names)
    )
    features, expected = store.features("cifar", "test"), columns(range(10))
    taken = features.take(np.array([7, 2]))
    assert reads == [("id", "label", "logits", "penultimate"), None], "the last of the head"
    assert np.array_equal(taken.blocks[-1], expected[block_column(1)][[7, 2]])
    assert reads[2:] == [[block_column(1)]]
    assert [np.array_equal(a, expected[block_column(b)]) for b, a in enumerate(features.blocks[:])] == [True, True]
    with pytest.raises(IndexError):
        features.blocks[2]


def test_what_has_not_been_extracted(tmp_path):
    store = FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    fill(store.row_blocks("cifar", "test"))
    assert "; the closest names are cifar." in refusal(store.features, "cifer", "test")
    assert "; the closest names are test." in refusal(store.features, "cifar", "tests")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release_digest": "c" * 64}, "with digest aaaaaaaaaaaa, not of the one with digest cccccccccccc"),
        ({"model_digest": "c" * 64}, "with digest bbbbbbbbbbbb, not of it.py:model with digest cccccccccccc"),
        ({"blocks": ("layer2",)}, r"blocks layer1, layer2\) than this config and model .* blocks layer2\)"),
        ({"label_names": ("x", "z", "y")}, r"other classes or blocks \(3 classes;"),
    ],
    ids=["release", "model", "blocks", "classes"],
)
def test_a_folder_belongs_to_one_release_and_one_model(tmp_path, changes, message):
    FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    before = files_of(tmp_path / "out" / "head")
    changed = msgspec.structs.replace(IDENTITY, **changes)
    assert re.search(message, refusal(FeatureStore.begin, tmp_path / "out", changed, HEAD))
    assert FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD).identity == IDENTITY
    assert files_of(tmp_path / "out" / "head") == before


def test_the_first_logits_of_fixed_inputs_are_recorded_and_compared_up_to_rounding(tmp_path):
    """A record without them, of an earlier version, gets them; their range is 4, of which a thousandth may differ."""
    FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    for probed, recorded in (((), ()), ((1.0, 5.0), (1.0, 5.0)), ((1.003, 4.997), (1.0, 5.0)), ((), (1.0, 5.0))):
        identity = msgspec.structs.replace(IDENTITY, probed=probed)
        assert FeatureStore.begin(tmp_path / "out", identity, HEAD).identity.probed == recorded
    for probed in ((1.005, 5.0), (1.0, 5.0, 1.0)):
        changed = msgspec.structs.replace(IDENTITY, probed=probed)
        assert "of the model it.py:model with other code" in refusal(FeatureStore.check, tmp_path / "out", changed)


def test_a_folder_of_other_things(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"")
    assert "has files that are not features. Choose" in refusal(FeatureStore.begin, tmp_path, IDENTITY, HEAD)
    assert "there is no features.json. Run" in refusal(FeatureStore.open, tmp_path)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".123.features.json").write_text("{")
    FeatureStore.begin(tmp_path / "hidden", IDENTITY, HEAD)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 2}', '{"format": 3}'])
def test_a_record_that_is_none(tmp_path, text):
    (tmp_path / "features.json").write_text(text)
    assert "does not have format 2 of features; extract" in refusal(FeatureStore.open, tmp_path)


def hold(root, pipe):
    with FeatureStore.open(root).writing():
        pipe.send("held")
        pipe.recv()


def test_one_process_writes_at_a_time(tmp_path):
    """Another one is refused while it runs, and not after it was killed."""
    store = FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    ours, theirs = multiprocessing.Pipe()
    other = multiprocessing.get_context("fork").Process(target=hold, args=(tmp_path / "out", theirs))
    other.start()
    assert ours.recv() == "held"
    with pytest.raises(EvaluationError, match="Another process is writing to"), store.writing():
        pass
    other.kill()
    other.join()
    with store.writing():
        pass
