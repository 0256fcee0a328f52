"""The receipt of a model: its accuracy on known test rows beside the published one, by hand."""

import numpy as np
import pytest

from tests.evaluation.stored import put
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.extract import TOLERANCE, Receipt, receipt, tolerance
from unknown_detection.evaluation.features.store import FeatureStore, Identity
from unknown_detection.evaluation.models.features import Head

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
        made = FeatureStore.begin(tmp_path / f"{wrong}-{classes}-{len(source)}", identity, HEAD)
        for split, known in (("test", 40), ("near_ood", 0)):
            own = np.concatenate([labels[:known], np.full(5, -1)])
            outputs = np.concatenate([logits[:known], logits[:5]])
            columns = {"logits": outputs, "penultimate": outputs, "block_00": outputs}
            put(made, ("cifar", split), [f"{split}/{number}" for number in range(len(own))], own, columns)
        return FeatureStore.open(made.root)

    return make


def test_what_is_known_of_a_person_s_own_weights(store):
    assert receipt(store(wrong=4), KEYS) == Receipt(
        ["input    crop_pct 0.9, from timm", "accuracy 90.00 % of 40 rows of cifar/test"], []
    )


def test_a_published_accuracy_stands_beside_it(store):
    of_hub = {"address": "https://hub/timm/it", "revision": "c" * 40, "file": "model.safetensors", "sha256": "d" * 64}
    checked = receipt(store(wrong=4, **of_hub, accuracy="90.9"), KEYS)
    assert checked.lines[0] == (
        f"weights  address https://hub/timm/it, file model.safetensors, revision {'c' * 40}, sha256 {'d' * 64}"
    )
    assert checked.lines[2] == "accuracy 90.00 % of 40 rows of cifar/test; published: 90.9 %"
    assert not checked.differences


@pytest.mark.parametrize("rows", [40, 1000])
def test_the_tolerance_has_the_published_accuracy_of_95_of_100_models_within(rows):
    """By the binomial distribution itself: beside the point, a model of this accuracy is stopped 5 times in 100."""
    stats = pytest.importorskip("scipy.stats", reason="knows the binomial distribution")
    right = np.arange(rows + 1)
    stopped = abs(100 * right / rows - 75.1) > tolerance(75.1, rows) - TOLERANCE
    assert stats.binom.pmf(right[stopped], rows, 0.751).sum() == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize(("published", "differs"), [("96", False), ("97", True), ("76", False), ("75", True)])
def test_a_difference_beyond_the_tolerance_stops_until_it_is_accepted(store, published, differs):
    """By hand, of 90 % on 40 rows: 96 allows 7.07 points, 97 6.29; 76 allows 14.24, and 75 14.42."""
    stored = store(wrong=4, accuracy=published)
    checked = receipt(stored, KEYS)
    assert checked.lines[-1].endswith(f"; published: {published} %")
    assert len(checked.differences) == differs
    if differs:
        with stops(EvaluationError, "accept=", published):
            checked.require(stored.identity.accepted)
        stored.accept(checked.differences)
    checked.require(stored.identity.accepted)


def test_an_accuracy_among_fewer_classes_is_not_compared(store):
    """Because the model has more of them, or because the rows are of some of the release's only."""
    checked = receipt(store(accuracy="10", **CHOSEN), KEYS)
    assert checked.lines[1:] == [
        "accuracy 100.00 % of 40 rows of cifar/test; published: 10 % on all 10 classes, not comparable with 3 of them",
        "classes  3 of the model's 10 logits",
    ]
    assert not checked.differences
    checked = receipt(store(classes=2, accuracy="10"), KEYS)
    assert checked.lines[-1].endswith("; published: 10 % on all 3 classes, not comparable with 2 of them")
    assert not checked.differences


def test_no_known_test_rows_have_no_accuracy(store):
    assert receipt(store(accuracy="50"), KEYS[:1]) == Receipt(["input    crop_pct 0.9, from timm"], [])
