"""AdaSCALE's second pass against gradients of one image at a time, and its scores against loops over rows."""

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.evaluation.detectors.toy import toy_features, toy_head
from unknown_detection.evaluation.detectors import AdaSCALEA, AdaSCALEL

WIDTH = 200
RANDOM = np.random.default_rng(0)
HEAD = dataclasses.replace(toy_head(), weight=RANDOM.normal(size=(4, WIDTH)), bias=RANDOM.normal(size=4))


def rows_of(count, seed):
    """Rows of 200 features, some negative, with what a second pass makes of them."""
    random = np.random.default_rng(seed)
    z = random.normal(1.0, 1.0, size=(count, WIDTH))
    moved = {"features": z + random.normal(0, random.uniform(0.1, 1.0, size=(count, 1)), size=z.shape)}
    return dataclasses.replace(toy_features(rows=count, seed=seed), penultimate=z, passed=moved)


FITTED, TESTED = rows_of(40, 1), rows_of(12, 2)


def shift(z, moved):
    """10 Q over the greatest 2 of 200 (k1 = 1 %), and C over the greatest 10 (k2 = 5 %)."""
    order = sorted(range(WIDTH), key=lambda place: -z[place])
    return 10 * sum(abs(z[d] - moved[d]) for d in order[:2]) + sum(max(moved[d], 0) for d in order[:10])


@pytest.mark.parametrize("upper", [0.65, 0.85, 0.99])
def test_scores_are_energies_scaled_by_a_share_that_depends_on_the_shift(upper):
    fitted = [shift(*pair) for pair in zip(FITTED.penultimate, FITTED.passed["features"], strict=True)]
    of_features, of_logits, classes = [], [], []
    for z, moved in zip(TESTED.penultimate, TESTED.passed["features"], strict=True):
        above = np.mean([one <= shift(z, moved) for one in fitted])
        count = WIDTH - round((0.6 + (1 - above) * (upper - 0.6)) * WIDTH)
        positive = sorted((max(x, 0) for x in z), reverse=True)
        scale = sum(positive) / sum(positive[:count])
        scaled = HEAD.weight @ (z * np.exp(scale)) + HEAD.bias
        of_features.append(-logsumexp(scaled))
        of_logits.append(-logsumexp(scale**2 * (HEAD.weight @ z + HEAD.bias)))
        classes.append(int(np.argmax(scaled)))
    detector = AdaSCALEA(upper=upper).fit(FITTED, HEAD)
    np.testing.assert_allclose(detector.score(TESTED), of_features, rtol=1e-10)
    assert detector.predict(TESTED).tolist() == classes
    np.testing.assert_allclose(AdaSCALEL(upper=upper).fit(FITTED, HEAD).score(TESTED), of_logits, rtol=1e-10)
    # Half of the rows alone, in another order: no row's score depends on others.
    half = TESTED.take(slice(None, None, -2))
    np.testing.assert_allclose(detector.score(half), of_features[::-2], rtol=1e-10)


def test_images_move_where_the_greatest_logit_depends_least_on_them():
    torch = pytest.importorskip("torch", reason="shows torch models images")
    pytest.importorskip("torchvision", reason="preprocesses images")
    from tests.evaluation import small_models
    from tests.evaluation.detectors.test_images import IDS, images_of, opened

    model = opened(small_models.of_seed(small_models.cnn, num_classes=5))
    got = AdaSCALEA.image_pass.run(model, images_of(), IDS, seed=0, pixels=0.25)["features"]
    for image, features in zip(images_of(), got, strict=True):
        one = image[None].clone().requires_grad_()
        model.module(one).max().backward()
        gradient = one.grad.flatten().tolist()
        moved = image.flatten().tolist()
        for place in sorted(range(len(moved)), key=lambda place: abs(gradient[place]))[: len(moved) // 4]:
            moved[place] += 0.5 * float(np.sign(gradient[place]))
        expected = model.forward(torch.tensor(moved).view_as(image)[None]).penultimate
        np.testing.assert_allclose(features, expected.numpy()[0], rtol=1e-4, atol=1e-5)
