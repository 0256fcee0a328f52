"""MCM, GL-MCM and NegLabel: by formulas in plain Python, and by the lines of the authors' code in torch."""

import math

import numpy as np
import pytest

from tests.sentences import stops
from unknown_detection.evaluation.detectors import DETECTORS, GLMCM, MCM, NegLabel
from unknown_detection.evaluation.detectors.choice import choose
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Head

RANDOM = np.random.default_rng(5)
TEXTS = 20 * RANDOM.normal(size=(6, 12))
NEGATIVES = RANDOM.normal(size=(257, 12))
HEAD = Head(TEXTS, np.zeros(6), NEGATIVES)


def rows(count=40, head=HEAD, **more):
    z = RANDOM.normal(size=(count, 12)).astype(np.float32)
    ids = np.array([f"{number}" for number in range(count)])
    logits = z @ TEXTS.T
    return Features(ids, np.full(count, -1), logits, z, (), head=head, **more)


def cosine(first, second):
    first, second = map(np.float64, (first, second))
    return float(first @ second) / math.sqrt(float(first @ first) * float(second @ second))


def softmax_of(values, temperature):
    powers = [math.exp(value / temperature) for value in values]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("temperature", [1.0, 0.01])
def test_mcm(temperature):
    features = rows()
    scores = MCM(temperature=temperature).fit(head=HEAD).score(features)
    expected = [
        1 - max(softmax_of([cosine(z, text) for text in TEXTS], temperature)) for z in features.penultimate.tolist()
    ]
    assert np.allclose(scores, expected, rtol=1e-9, atol=1e-12)


def test_mcm_as_pytorch_ood_computes_it():
    """Theirs is in float32, and without the one."""
    theirs = pytest.importorskip("pytorch_ood.detector", reason="computes the same")
    torch = pytest.importorskip("torch", reason="pytorch-ood computes with it")
    features = rows()
    expected = theirs.MCM(None, torch.from_numpy(TEXTS), temperature=0.5)
    scores = 1 + expected.predict_features(torch.from_numpy(features.penultimate)).double().numpy()
    assert np.allclose(MCM(temperature=0.5).fit(head=HEAD).score(features), scores, atol=1e-6)


def test_neglabel_by_hand():
    """Two classes and four negatives in two groups: whatever the division, all pairs are averaged by one formula."""
    head = Head(np.eye(2, 3), np.zeros(2), np.array([[0, 0, 1.0], [0, 0, 1.0], [0, 0, 1.0], [0, 0, 1.0]]))
    features = Features(np.array(["a"]), np.array([-1]), np.ones((1, 2)), np.array([[3.0, 0, 4.0]]), (), head=head)
    known, unknown = math.exp(0.6) + math.exp(0), 2 * math.exp(0.8)
    score = NegLabel(temperature=1, groups=2).fit(head=head).score(features)
    assert score == pytest.approx([1 - known / (known + unknown)], abs=1e-12)


@pytest.mark.parametrize(("groups", "temperature"), [(1, 0.01), (10, 0.01), (100, 0.05), (257, 1.0)])
def test_neglabel_as_the_authors_compute_it(groups, temperature):
    """`grouping` of their code (3253db6, `mmcls/models/ood/clip_ood.py`): softmax of classes and a group, summed.

    The groups are those of our permutation; 257 labels in ten groups leave seven out.
    """
    torch = pytest.importorskip("torch", reason="computes as the authors do")
    features = rows()
    detector = NegLabel(groups=groups, temperature=temperature, seed=3).fit(head=HEAD)
    each = len(NEGATIVES) // groups
    order = np.random.default_rng(3).permutation(len(NEGATIVES))[: each * groups].reshape(groups, each)
    images, texts, negatives = (
        torch.nn.functional.normalize(torch.from_numpy(np.float64(values)), dim=-1)
        for values in (features.penultimate, TEXTS, NEGATIVES)
    )
    shares = []
    for group in order:
        both = torch.cat([images @ texts.T, images @ negatives[group].T], dim=-1) / temperature
        shares.append(both.softmax(dim=-1)[:, : len(texts)].sum(dim=-1))
    expected = 1 - torch.stack(shares).mean(dim=0).numpy()
    assert np.allclose(detector.score(features), expected, rtol=1e-9, atol=1e-12)


def test_gl_mcm_is_mcm_less_the_patches():
    local = RANDOM.uniform(0.2, 1, 40)
    features = rows(passed={"local": local})
    scores = GLMCM(weight=0.5).fit(head=HEAD).score(features)
    assert np.allclose(scores, MCM().fit(head=HEAD).score(features) - 0.5 * local, atol=1e-15)


@pytest.mark.parametrize("name", ["adaneg", "ANTS", "tanl"])
def test_detectors_that_adapt_to_the_rows_are_refused_by_name(name):
    with stops(EvaluationError, name, "depends on others"):
        choose(f"mcm,{name}")
    assert name.lower() not in DETECTORS
