"""Weights from files: read without executing anything, loaded whole or not at all, and their digest."""

import hashlib
import io
import pickle
import random

import pytest

from tests.evaluation.extra import torch
from tests.evaluation.small_models import cnn, of_seed
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.weights import load_weights, model_digest, read_state_dict


@pytest.fixture
def model():
    return of_seed(cnn, num_classes=4)


def load(model, path):
    load_weights(model, read_state_dict(path), name="it", path=path)


def equal(first, other):
    return first.keys() == other.keys() and all(torch.equal(first[name], other[name]) for name in first)


def parallel(state):
    return {f"module.{name}": tensor for name, tensor in state.items()}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3, "optimizer": {}},
        lambda state: {"model_state_dict": state},
        lambda state: {"model": parallel(state), "args": ["a"]},
        parallel,
    ],
    ids=["plain", "state_dict", "model_state_dict", "model and parallel", "parallel"],
)
def test_what_torch_saves(model, tmp_path, wrap):
    torch.save(wrap(model.state_dict()), tmp_path / "weights.pt")
    other = of_seed(cnn, seed=1, num_classes=4)
    load(other, tmp_path / "weights.pt")
    assert equal(other.state_dict(), model.state_dict())


class Executes:
    def __reduce__(self):
        return (open, ("executed", "w"))


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no weights",
        pickle.dumps(Executes()),
        pickle.dumps({"state_dict": {"a": Executes()}}),
        saved({"a": Executes()}),
    ],
    ids=["empty", "text", "code", "code within", "code in torch's zip"],
)
def test_files_that_hold_something_else(tmp_path, monkeypatch, name, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    with stops(EvaluationError, "state_dict"):
        read_state_dict(tmp_path / name)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "value",
    [[1, 2], {}, {"epoch": 3}, {"a": torch.ones(1), "epoch": 3}, {1: torch.ones(1)}, {("a",): torch.ones(1)}],
    ids=str,
)
def test_what_is_no_state_dict(tmp_path, value):
    torch.save(value, tmp_path / "weights.pt")
    with stops(EvaluationError):
        read_state_dict(tmp_path / "weights.pt")


def without(state, *names):
    return {name: tensor for name, tensor in state.items() if name not in names}


@pytest.mark.parametrize(
    "change",
    [
        lambda s: without(s, "fc.bias"),
        lambda s: {**s, "extra": torch.ones(1)},
        lambda s: parallel(without(s, "fc.bias")) | {"x": torch.ones(1)},
        lambda s: {**s, "fc.weight": torch.ones(9, 10), "fc.bias": torch.ones(9)},
    ],
    ids=["missing", "left over", "other names", "shapes"],
)
def test_weights_that_do_not_fit_change_nothing(model, tmp_path, change):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.save(change(of_seed(cnn, seed=1, num_classes=4).state_dict()), tmp_path / "weights.pt")
    with stops(EvaluationError, "weights.pt"):
        load(model, tmp_path / "weights.pt")
    assert equal(model.state_dict(), before)


def test_the_digest_by_hand(model):
    """Written out from its definition, with NumPy's bytes: of every tensor, whatever its strides are."""
    model.layer1[0].weight.data = model.layer1[0].weight.data.to(memory_format=torch.channels_last)
    text = b'{"model":"it","size":[3,8]}\0'
    for name, values in sorted((name, tensor.numpy()) for name, tensor in model.state_dict().items()):
        text += f"{name}\n{values.dtype}\n{','.join(map(str, values.shape))}\n".encode() + values.tobytes()
    assert model_digest(model, {"size": (3, 8), "model": "it"}) == hashlib.sha256(text).hexdigest()


def test_flipped_bytes_are_read_or_refused(model, tmp_path):
    """torch raises a dozen kinds of errors on them; each place and value is chosen by a seeded generator."""
    draw = random.Random(3)
    path = tmp_path / "weights.pt"
    for zipped in (True, False):
        torch.save({"state_dict": model.state_dict(), "epoch": 3}, path, _use_new_zipfile_serialization=zipped)
        data, refused = path.read_bytes(), 0
        for _ in range(400):
            spoilt = bytearray(data)
            spoilt[draw.randrange(min(len(data), 1500))] = draw.randrange(256)
            path.write_bytes(spoilt if draw.random() < 0.9 else data[: draw.randrange(len(data))])
            try:
                read_state_dict(path)
            except EvaluationError as error:
                refused += 1
                assert str(path) in str(error) and "\n" not in str(error)
        assert refused > 100
