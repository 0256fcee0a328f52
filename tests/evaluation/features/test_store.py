"""Features on disk: folders that belong to one release and one model, and what one reads of them."""

import re
import shutil

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from tests.builders.conftest import files_of
from tests.evaluation.refusals import refusal
from tests.evaluation.stored import ask, put
from tests.sentences import assert_sentence, stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.store import FeatureStore, Identity
from unknown_detection.evaluation.features.table import RowTable, block_column
from unknown_detection.evaluation.models.features import Head

IDENTITY = Identity("a" * 64, "it.py:model", "b" * 64, ("x", "y", "z"), ("layer1", "layer2"), {"size": [8, 8]})
HEAD = Head(np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0.5, 0, -1], np.float32))
LABELS = np.where(np.arange(10) % 3 == 2, -1, np.arange(10) % 3)


def columns(split):
    """Columns of ten rows; every number tells its row and split."""
    numbers = np.arange(10)[:, None] + len(split)
    return {
        "logits": (numbers + np.array([0, 0.25, 0.5])).astype(np.float32),
        "penultimate": numbers * np.ones(2, np.float32),
        block_column(0): numbers * np.ones(4, np.float32),
        block_column(1): -numbers * np.ones(2, np.float32),
    }


def names(split):
    return [f"{split}/ü{number}" for number in range(10)]


@pytest.fixture
def store(tmp_path):
    """Two splits that are whole, and one that is not."""
    made = FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    for key in (("cifar", "test"), ("cifar-train", "train")):
        put(made, key, names(key[1]), LABELS, columns(key[1]))
    ask(made, ("cifar", "near_ood"), names("near_ood"), LABELS)
    return FeatureStore.open(made.root)


def test_a_store_gives_back_what_was_put_in(store):
    assert store.identity == IDENTITY
    assert str(store.root) not in (store.root / "identity.json").read_text(encoding="utf-8")
    assert store.splits == ("cifar/test", "cifar-train/train")
    for features in (store["cifar/test"], store["cifar", "test"], store["test"], store.features("cifar", "test")):
        stored = (features.ids, features.labels, features.logits, features.penultimate, *features.blocks)
        for values, given in zip(stored, (names("test"), LABELS, *columns("test").values()), strict=True):
            assert np.array_equal(values, given)
        assert np.array_equal(features.head.weight, HEAD.weight)
        assert np.array_equal(features.head.bias, HEAD.bias)


def test_what_a_notebook_shows_and_completes(store):
    assert [name for name in dir(store) if not name.startswith("_")] == ["identity", "model", "root", "splits"]
    assert repr(store) == "<features of it.py:model: cifar/test, cifar-train/train>"
    cells = re.findall(r"<t[hd]>(.*?)</t[hd]>", store._repr_html_())
    titles = ["split", "rows", "of known classes", "logits", "penultimate", "layer1", "layer2"]
    assert cells[:7] == titles
    assert cells[7:14] == ["cifar/test", "10", "7", "10 x 3", "10 x 2", "10 x 4", "10 x 2"]


def test_blocks_are_read_one_at_a_time_when_asked_for(store, monkeypatch):
    reads, read = [], RowTable.read
    monkeypatch.setattr(RowTable, "read", lambda table, *given: reads.append(given[-1]) or read(table, *given))
    features, expected = store["test"], columns("test")
    taken = features.take(np.array([7, 2]))
    assert reads == [("logits", "penultimate")]
    assert np.array_equal(taken.blocks[-1], expected[block_column(1)][[7, 2]])
    assert reads[1:] == [[block_column(1)]]
    assert [np.array_equal(a, expected[block_column(b)]) for b, a in enumerate(features.blocks[:])] == [True, True]
    with pytest.raises(IndexError):
        features.blocks[2]


def test_what_has_not_been_extracted(store):
    for key in ("cifer/test", "cifar/tests", "cifar/near_ood"):
        assert f"has no config or split {key}" in refusal(store.__getitem__, key)
    for configs in (["cifar"], ["cifar", "cifar-train"], []):
        assert "Features of cifar/near_ood in" in refusal(store.require_whole, configs)
    store.require_whole(["cifar-train"])
    put(store, ("cifar", "near_ood"), names("near_ood"), LABELS, columns("near_ood"))
    store.require_whole()
    assert "has the splits cifar/near_ood, cifar/test. Name one" in refusal(store.__getitem__, "cifar")


@pytest.mark.parametrize(
    "changes",
    [{"release_digest": "c" * 64}, {"model_digest": "c" * 64}, {"blocks": ("layer2",)}, {"label_names": ("x", "y")},
     {"prepared": {"cifar/test": "it"}}],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_a_folder_belongs_to_one_release_and_one_model(tmp_path, changes):
    FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    before = files_of(tmp_path / "out")
    with stops(EvaluationError, tmp_path / "out"):
        FeatureStore.begin(tmp_path / "out", msgspec.structs.replace(IDENTITY, **changes), HEAD)
    assert FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD).identity == IDENTITY
    assert files_of(tmp_path / "out") == before


def test_the_first_logits_of_fixed_inputs_are_recorded_and_compared_up_to_rounding(tmp_path):
    """A record without them gets them; their range is 4, of which a thousandth may differ."""
    FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    for probed, recorded in (((), ()), ((1.0, 5.0), (1.0, 5.0)), ((1.003, 4.997), (1.0, 5.0)), ((), (1.0, 5.0))):
        identity = msgspec.structs.replace(IDENTITY, probed=probed)
        assert FeatureStore.begin(tmp_path / "out", identity, HEAD).identity.probed == recorded
    for probed in ((1.005, 5.0), (1.0, 5.0, 1.0)):
        changed = msgspec.structs.replace(IDENTITY, probed=probed)
        assert "in other code, which gives" in refusal(FeatureStore.check, tmp_path / "out", changed)


@pytest.mark.parametrize("changed", [{"model_digest": "c" * 64}, {"release_digest": "c" * 64}])
def test_files_copied_from_another_folder_are_refused(store, tmp_path, changed):
    # As by a copy of one machine's folder over another's, or two runs that begin one folder at the same moment.
    other = FeatureStore.begin(tmp_path / "other", msgspec.structs.replace(IDENTITY, **changed), HEAD)
    for of in (store, other):
        put(of, ("cifar", "near_ood"), names("near_ood"), LABELS, columns("near_ood"))
    for path in sorted(other.root.glob("**/*.arrow")):
        into = store.root / path.relative_to(other.root)
        before = into.read_bytes()
        shutil.copy(path, into)
        message = refusal(lambda: FeatureStore.open(store.root)["near_ood"].head)
        assert_sentence(message, into)
        into.write_bytes(before)


def test_a_folder_of_other_things(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"")
    assert_sentence(refusal(FeatureStore.begin, tmp_path, IDENTITY, HEAD))
    for folder in (tmp_path, tmp_path / "typo"):
        assert_sentence(refusal(FeatureStore.open, folder), folder)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".123.identity.json").write_text("{")
    FeatureStore.begin(tmp_path / "hidden", IDENTITY, HEAD)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 3}', '{"format": 4}'])
def test_a_record_that_is_none(tmp_path, text):
    (tmp_path / "identity.json").write_text(text)
    assert "does not have format 4 of features; extract" in refusal(FeatureStore.open, tmp_path)


def test_one_process_writes_at_a_time(tmp_path):
    """`tests/builders/storage` has what becomes of the lock of a killed one."""
    store = FeatureStore.begin(tmp_path / "out", IDENTITY, HEAD)
    with store.writing(), stops(EvaluationError), FeatureStore.open(tmp_path / "out").writing():
        pass
    with store.writing():
        pass


def test_an_index_in_the_place_of_another_splits_is_refused(store):
    """Of equally many rows: each split had the scores of the other."""
    index = store.root / "index"
    assert store.ids("cifar", "test").to_pylist() == names("test")
    shutil.copy(index / "cifar-train" / "train.arrow", index / "cifar" / "test.arrow")
    with stops(EvaluationError, index / "cifar" / "test.arrow"):
        store.ids("cifar", "test")
    shutil.copy(index / "cifar-train" / "train.arrow", part := store.root / "features" / "more.arrow")
    with stops(EvaluationError, part):
        RowTable(store.root / "features", store.of).has("cifar/test", pa.chunked_array([["a"]]))
