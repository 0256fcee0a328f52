"""Small splits as a trained model would leave them: a last layer, classes with features of their own, float32."""

import numpy as np
from scipy.special import logsumexp

from unknown_detection.evaluation.models.features import Features, Head

CLASSES, WIDTH, BLOCKS = 4, 12, (5, 8, 12)


def toy_head(seed=0):
    """A layer that reads three features for each class and a little of the others; negatives read all alike."""
    random = np.random.default_rng(seed)
    own = np.repeat(np.eye(CLASSES), WIDTH // CLASSES, axis=1)
    return Head(
        weight=(own - 0.2 + 0.1 * random.normal(size=own.shape)).astype(np.float32),
        bias=random.normal(scale=0.1, size=CLASSES).astype(np.float32),
        negatives=random.gamma(4, 0.25, size=(120, WIDTH)).astype(np.float32),
    )


def toy_features(rows=160, seed=0, members=3, unknown=0, name="row"):
    """Rows of classes 0 to 3 in turn, then `unknown` rows with label -1, in which no class's features stand out."""
    head, random = toy_head(), np.random.default_rng([seed, 7])
    labels = np.concatenate([np.arange(rows) % CLASSES, np.full(unknown, -1)])
    total, is_unknown = len(labels), (labels < 0)[:, None]
    # One row in ten looks like another class, and is classified wrong.
    looks = np.where(random.random(total) < 0.1, random.integers(CLASSES, size=total), labels)
    active = np.repeat(looks[:, None] == np.arange(CLASSES), WIDTH // CLASSES, axis=1)
    strength = np.where(is_unknown, 0.8, np.where(active, 4.0, 0.3))
    z = (strength * random.gamma(4, 0.25, size=(total, WIDTH))).astype(np.float32)
    logits = (z @ head.weight.T + head.bias).astype(np.float32)
    mixes = [np.random.default_rng(width).normal(size=(WIDTH, width)) / np.sqrt(WIDTH) for width in BLOCKS]
    noise = [random.normal(size=(total, width)) + 3 * is_unknown for width in BLOCKS]
    return Features(
        ids=np.array([f"{name}-{i:04d}" for i in random.permutation(total)]),
        labels=labels.astype(np.int64),
        logits=logits,
        penultimate=z,
        blocks=tuple((z @ mix + other).astype(np.float32) for mix, other in zip(mixes, noise, strict=True)),
        members=tuple((logits + random.normal(size=logits.shape)).astype(np.float32) for _ in range(members)),
        scores={part: random.normal(size=total) + is_unknown[:, 0] for part in ("odin", "cadet")},
    )


HEAD = toy_head()
FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


def assert_scores(detector, expected, rtol=1e-12, fitted=FITTED, tested=TESTED):
    """Scores of a detector once it is fitted; returned is the detector."""
    detector.fit(fitted, HEAD)
    np.testing.assert_allclose(detector.score(tested), expected, rtol=rtol)
    return detector


def energies(rows, weight=HEAD.weight):
    """The energy of each row, from its logits one at a time."""
    scores = []
    for row in rows:
        logits = [sum(float(w) * float(x) for w, x in zip(weight[c], row, strict=True)) for c in range(CLASSES)]
        scores.append(-logsumexp(np.array(logits) + HEAD.bias.astype(float)))
    return np.array(scores)


def units(features):
    """The features divided by their lengths."""
    values = features.penultimate.astype(np.float64)
    return values / np.linalg.norm(values, axis=1, keepdims=True)
