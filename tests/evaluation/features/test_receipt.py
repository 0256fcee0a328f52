"""The receipt of a model: its accuracy on known test rows beside the published one, by hand."""

import numpy as np
import pytest

from evaluation.errors import EvaluationError
from evaluation.features.extract import write_receipt
from evaluation.features.store import Identity, Store
from evaluation.models.features import Head

KEYS = (("cifar", "near_ood"), ("cifar", "test"))
HEAD = Head(np.eye(3, dtype=np.float32), np.zeros(3, np.float32))
CHOSEN = {"logits": "5,3,8", "width": "10"}


@pytest.fixture
def store(tmp_path):
    """Makes features of 40 known rows, all right but `wrong`, and of 5 rows of no class."""

    def make(wrong=0, classes=3, **source):
        labels = np.arange(40) % classes
        logits = np.eye(3, dtype=np.float32)[labels]
        logits[:wrong] = np.roll(logits[:wrong], 1, axis=1)
        identity = Identity(
            "a" * 64, "timm:it", "b" * 64, ("x", "y", "z"), ("one",), {"from": "timm", "crop_pct": 0.9}, source=source
        )
        made = Store.begin(tmp_path / f"{wrong}-{classes}-{len(source)}", identity, HEAD)
        for split, known in (("test", 40), ("near_ood", 0)):
            own = np.concatenate([labels[:known], np.full(5, -1)])
            rows = {"id": np.array([f"{split}/{number}" for number in range(len(own))]), "label": own}
            rows |= {"logits": np.concatenate([logits[:known], logits[:5]])}
            rows |= {"penultimate": rows["logits"], "block_00": rows["logits"]}
            made.row_blocks("cifar", split).write(range(len(own)), rows, len(own), {})
        return Store.open(made.root)

    return make


def test_what_is_known_of_a_person_s_own_weights(store):
    assert write_receipt(store(wrong=4), KEYS, accept=False) == [
        "input    crop_pct 0.9, from timm",
        "accuracy 90.00 % of 40 rows of cifar/test",
    ]


def test_a_published_accuracy_stands_beside_it(store):
    of_hub = {"address": "https://hub/timm/it", "revision": "c" * 40, "file": "model.safetensors", "sha256": "d" * 64}
    lines = write_receipt(store(wrong=4, **of_hub, accuracy="90.9"), KEYS, accept=False)
    assert lines[0] == (
        f"weights  address https://hub/timm/it, file model.safetensors, revision {'c' * 40}, sha256 {'d' * 64}"
    )
    assert lines[2] == "accuracy 90.00 % of 40 rows of cifar/test; published: 90.9 %"


@pytest.mark.parametrize("published", ["91.1", "88.9"])
def test_a_difference_of_over_a_point_stops(store, published):
    made = store(wrong=4, accuracy=published)
    found = rf"timm:it is right on 90\.00 % of the 40 rows of cifar/test, but {published} % are published .*--accept"
    with pytest.raises(EvaluationError, match=found):
        write_receipt(made, KEYS, accept=False)
    assert write_receipt(made, KEYS, accept=True)[-1].endswith(f"; published: {published} %")


def test_an_accuracy_among_fewer_classes_is_not_compared(store):
    """Because the model has more of them, or because the rows are of some of the release's only."""
    lines = write_receipt(store(accuracy="50", **CHOSEN), KEYS, accept=False)
    assert lines[1:] == [
        "accuracy 100.00 % of 40 rows of cifar/test; published: 50 % on all 10 classes, not comparable with 3 of them",
        "classes  3 of the model's 10 logits",
    ]
    lines = write_receipt(store(classes=2, accuracy="50"), KEYS, accept=False)
    assert lines[-1].endswith("; published: 50 % on all 3 classes, not comparable with 2 of them")


def test_no_known_test_rows_have_no_accuracy(store):
    assert write_receipt(store(accuracy="50"), KEYS[:1], accept=False) == ["input    crop_pct 0.9, from timm"]


@pytest.mark.parametrize("source", [{"accuracy": "x"}, {"accuracy": "nan"}, {"width": "1.5"}, {"file": 3}], ids=str)
def test_a_record_that_says_something_else(store, source):
    with pytest.raises(EvaluationError, match="does not have format 2 of features; extract"):
        store(**source)
