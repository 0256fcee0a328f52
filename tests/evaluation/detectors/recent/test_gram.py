"""Gram matrices against pytorch-ood's, with the rows that ours leaves out, and against matrices written out."""

import dataclasses

import numpy as np
import pytest

from tests.evaluation.detectors.toy import CLASSES, TESTED, toy_features
from unknown_detection.evaluation.detectors import Gram
from unknown_detection.evaluation.detectors.recent.gram import POWERS, _tenth_of_each_class

torch = pytest.importorskip("torch", reason="shows torch models images")


def maps_of(features, seed):
    """Feature maps of two blocks, of 3 and 5 channels, whose channels follow the class."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.from_numpy(np.maximum(features.labels, 0))
    return [
        torch.rand(len(labels), width, 4, 4, generator=random, dtype=torch.float64)
        + (labels[:, None, None, None] % (torch.arange(width)[:, None, None] + 2))
        for width in (3, 5)
    ]


def with_grams(features, maps):
    """The columns of the second pass, by whole Gram matrices."""
    columns = {}
    for number, block in enumerate(maps, start=1):
        flat = block.flatten(2).numpy()
        sums = [np.einsum("bip,bjp->bij", flat**p, flat**p).sum(axis=2) ** (1 / p) for p in POWERS]
        columns[f"block {number}"] = np.concatenate(sums, axis=1)
    return dataclasses.replace(features, passed=columns)


FITTED = toy_features(rows=120, seed=1)


def test_scores_are_pytorch_oods(monkeypatch):
    theirs = pytest.importorskip("pytorch_ood.detector", reason="pytorch-ood compares")
    monkeypatch.setattr(torch, "get_default_dtype", lambda: torch.float64)
    fitted, tested = maps_of(FITTED, 1), maps_of(TESTED, 2)
    ours = Gram(seed=3).fit(with_grams(FITTED, fitted))
    left_out = _tenth_of_each_class(FITTED, 3)
    assert left_out.sum() == CLASSES * (120 // CLASSES // 10)
    orders = iter(
        torch.from_numpy(np.argsort(~left_out[FITTED.labels == c], kind="stable")) for c in range(CLASSES)
    )  # theirs leaves out the first of a permutation
    monkeypatch.setattr(torch, "randperm", lambda count: next(orders))
    rival = theirs.Gram(lambda maps: maps.new_zeros(len(maps), CLASSES), [torch.nn.Identity()] * 2, CLASSES, [*POWERS])
    blocks = {}
    monkeypatch.setattr(
        rival, "_create_feature_list", lambda rows: (None, [block[rows.long()] for block in blocks[0]])
    )
    blocks[0] = fitted
    rival.fit([(torch.arange(len(FITTED), dtype=torch.float64), torch.from_numpy(FITTED.labels))])
    expected = rival.predict_structured(torch.from_numpy(TESTED.logits).double(), tested)
    assert (expected > 0).sum() > 10
    np.testing.assert_allclose(ours.score(with_grams(TESTED, tested)), expected.numpy(), rtol=1e-5)


def test_the_second_pass_gives_row_sums_of_the_blocks_gram_matrices():
    pytest.importorskip("torchvision", reason="preprocesses images")
    from tests.evaluation import small_models
    from tests.evaluation.detectors.test_images import IDS, images_of, opened

    model = opened(small_models.of_seed(small_models.cnn, num_classes=5))
    got = Gram.image_pass.run(model, images_of(), IDS, seed=0)
    outputs = {}
    modules = dict(model.module.named_modules())
    for number, block in enumerate(model.layers.blocks, start=1):
        modules[block].register_forward_hook(lambda _, __, output, n=number: outputs.update({n: output.double()}))
    model.module(images_of())
    expected = with_grams(FITTED, [outputs[number] for number in sorted(outputs)]).passed
    assert [*got] == [*expected]
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-4, atol=1e-6)


def test_rows_that_are_left_out_depend_on_their_ids_alone():
    order = np.random.default_rng(0).permutation(len(FITTED))
    np.testing.assert_array_equal(_tenth_of_each_class(FITTED, 3)[order], _tenth_of_each_class(FITTED.take(order), 3))
