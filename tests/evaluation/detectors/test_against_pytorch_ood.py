"""Scores against pytorch-ood 0.4, in double precision, wherever its formula is the paper's."""

import dataclasses

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import weibull_min

from tests.evaluation.detectors.toy import CLASSES, toy_features, toy_head
from unknown_detection.evaluation.detectors import DETECTORS, table

torch = pytest.importorskip("torch", reason="pytorch-ood compares; it needs torch")
theirs = pytest.importorskip("pytorch_ood.detector", reason="pytorch-ood compares")


def doubled(features):
    """The same rows with logits that are the layer's in double precision, as pytorch-ood computes them again."""
    head = toy_head()
    z = features.penultimate.astype(np.float64)
    return dataclasses.replace(
        features, penultimate=z, logits=z @ head.weight.astype(float).T + head.bias.astype(float)
    )


HEAD = toy_head()
LAYER = (HEAD.weight, HEAD.bias)
FITTED = doubled(toy_features(rows=200, seed=1))
TESTED = doubled(toy_features(rows=60, seed=2, unknown=40))


@pytest.fixture(autouse=True)
def in_doubles():
    threads, kind = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(kind)
    torch.set_num_threads(threads)


def tensor(values):
    return torch.from_numpy(np.ascontiguousarray(values).astype(np.float64))


def linear():
    layer = torch.nn.Linear(HEAD.weight.shape[1], CLASSES)
    layer.load_state_dict({"weight": tensor(HEAD.weight), "bias": tensor(HEAD.bias)})
    return layer.requires_grad_(False)


def on_maps(layer):
    return lambda maps: layer(maps.flatten(1))


def maps(features):
    return tensor(features.penultimate)[:, :, None, None]


def ours(name, tested=TESTED, **hyperparameters):
    method = DETECTORS[name]
    return method.clone(**hyperparameters).fit(None if method.fits_on == "none" else FITTED, HEAD).score(tested)


def on_logits(detector):
    return detector.predict_logits(tensor(TESTED.logits))


def on_feature_maps(detector):
    if detector.requires_fit:
        detector.fit_feature_maps(maps(FITTED), torch.from_numpy(FITTED.labels))
    return detector.predict_feature_maps(maps(TESTED))


def on_features(detector):
    detector.fit_features(tensor(FITTED.penultimate), torch.from_numpy(FITTED.labels))
    return detector.predict_features(tensor(TESTED.penultimate))


def fitted_on_logits(detector):
    return on_logits(detector.fit_logits(tensor(FITTED.logits), torch.from_numpy(FITTED.labels)))


def by_gradients():
    detector = theirs.GradNorm(linear(), param_filter=lambda name: name == "weight")
    return detector.predict(tensor(TESTED.penultimate))


CASES = [
    ("msp", {}, lambda: 1 + on_logits(theirs.MaxSoftmax(None)), 0),
    ("temperature", {"temperature": 7.0}, lambda: 1 + on_logits(theirs.MaxSoftmax(None, t=7.0)), 0),
    ("max_logit", {}, lambda: on_logits(theirs.MaxLogit(None)), 0),
    ("energy", {}, lambda: on_logits(theirs.EnergyBased(None)), 1e-13),
    ("energy", {"temperature": 3.0}, lambda: on_logits(theirs.EnergyBased(None, t=3.0)), 1e-13),
    ("kl_matching", {}, lambda: fitted_on_logits(theirs.KLMatching(None)), 1e-9),
    ("she", {}, lambda: on_features(theirs.SHE(None, linear())), 1e-13),
    ("fdbd", {}, lambda: on_features(theirs.fDBD(None, linear())), 1e-12),
    ("gradnorm", {}, by_gradients, 1e-12),
    ("gmm", {}, lambda: on_features(theirs.GMM(None)), 1e-9),
    ("gmm", {"regularization": 0.1}, lambda: on_features(theirs.GMM(None, reg=0.1)), 1e-9),
]
CASES += [
    ("nci", {"alpha": a}, lambda a=a: on_features(theirs.NCI(None, linear(), alpha=a)), 1e-12) for a in (0.0, 0.01)
]
CASES += [
    ("react", {"quantile": q}, lambda q=q: on_feature_maps(theirs.ReAct(None, on_maps(linear()), percentile=q)), 1e-12)
    for q in (0.5, 0.9)
]
CASES += [
    (name, {"pruned": p}, lambda p=p, v=v: on_feature_maps(theirs.ASH(None, on_maps(linear()), v, p)), 1e-12)
    for name, v in (("ash", "ash-s"), ("ash_b", "ash-b"), ("ash_p", "ash-p"))
    for p in (0.5, 0.9)
]
CASES += [
    ("scale", {"pruned": p}, lambda p=p: on_feature_maps(theirs.SCALE(None, on_maps(linear()), percentile=p)), 1e-12)
    for p in (0.5, 0.85)
]
CASES += [
    ("dice", {"sparsity": p}, lambda p=p: on_features(theirs.DICE(None, *map(tensor, LAYER), p=p)), 1e-12)
    for p in (0.5, 0.9)
]
CASES += [
    ("vim", {"dimension": d}, lambda d=d: on_features(theirs.ViM(None, d, *map(tensor, LAYER))), 1e-10) for d in (3, 6)
]
CASES += [("knn", {"k": k}, lambda k=k: on_features(theirs.KNN(None, k=k)), 1e-9) for k in (1, 50, 200)]
CASES += [
    ("nnguide", {"k": k}, lambda k=k: on_features(theirs.NNGuide(None, linear(), k=k)), 1e-12) for k in (1, 10, 100)
]


@pytest.mark.parametrize(
    ("name", "hyperparameters", "rival", "rtol"), CASES, ids=[f"{name}-{values}" for name, values, *_ in CASES]
)
def test_scores_are_theirs(name, hyperparameters, rival, rtol, monkeypatch):
    """Some of their detectors work in float32 whatever they are given: their casts become casts to float64."""
    if name == "knn":
        pytest.importorskip("sklearn", reason="pytorch-ood's KNN is scikit-learn's")
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    scores = ours(name, **hyperparameters)
    np.testing.assert_allclose(scores, rival().numpy(), rtol=rtol, atol=1e-12 if name == "kl_matching" else 1e-15)


def test_entropy():
    # Theirs raises probabilities to 1e-7 first.
    unchanged = softmax(TESTED.logits, axis=1).min(axis=1) > 1e-7
    assert unchanged.sum() > 50
    expected = on_logits(theirs.Entropy(None)).numpy()
    np.testing.assert_allclose(ours("entropy")[unchanged], expected[unchanged], rtol=1e-11)


@pytest.mark.parametrize("gamma", [0.1, 2.0])
@pytest.mark.parametrize("largest", [2, 4])
def test_gen_is_theirs_times_the_number_of_probabilities(gamma, largest):
    # Theirs is the mean over them, and keeps probabilities 1e-7 away from 0 and 1.
    expected = largest * on_logits(theirs.GEN(None, gamma=gamma, M=largest)).numpy()
    probabilities = softmax(TESTED.logits, axis=1)
    unchanged = (probabilities.min(axis=1) > 1e-7) & (probabilities.max(axis=1) < 1 - 1e-7)
    assert unchanged.sum() > 50
    scores = ours("gen", gamma=gamma, largest=largest)
    np.testing.assert_allclose(scores[unchanged], expected[unchanged], rtol=1e-9)


# Theirs does not divide the scatter by n, adds 1e-6 to it, and halves the distances of MDS but not those of RMD.
@pytest.mark.parametrize(("name", "detector", "factor"), [("mahalanobis", "Mahalanobis", 2), ("rmds", "RMD", 1)])
def test_distances_are_theirs_but_for_a_factor(name, detector, factor):
    expected = factor * len(FITTED) * on_features(getattr(theirs, detector)(None)).numpy()
    np.testing.assert_allclose(ours(name), expected, rtol=1e-6)


def test_mahalanobis_of_blocks_is_their_multilayer_sum():
    detector = theirs.MultiMahalanobis([torch.nn.Identity()] * 3)
    detector.fit_structured([tensor(block) for block in FITTED.blocks], torch.from_numpy(FITTED.labels))
    total = detector.predict_structured([tensor(block) for block in TESTED.blocks]).numpy()
    np.testing.assert_allclose(ours("mahalanobis_all"), total * 2 * len(FITTED) / 3, rtol=1e-6)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_openmax_of_rows_among_which_all_classes_are_predicted(weight):
    # Theirs leaves the distance to a class at 0 if no row of the batch is predicted to be in it; here every class is.
    assert set(TESTED.logits.argmax(axis=1)) == set(range(CLASSES))
    right = FITTED.take(FITTED.logits.argmax(axis=1) == FITTED.labels)  # theirs fits on all rows it is given
    detector = theirs.OpenMax(None, tailsize=20, alpha=3, euclid_weight=weight)
    detector.fit_logits(tensor(right.logits), torch.from_numpy(right.labels))
    weights = {"euclidean_weight": weight, "cosine_weight": 1 - weight}
    own = DETECTORS["openmax"].clone(revised=3, tail=20, translation=10_000, **weights).fit(FITTED, HEAD)  # theirs
    for c, distribution in detector._openmax.distributions.items():
        np.testing.assert_allclose(detector._openmax.centers[c], own.means[c], rtol=1e-12)
        assert distribution.min_val == pytest.approx(own.tails.least[c], rel=1e-9)
        span = 10_000 + own.tails.greatest[c] - own.tails.least[c]
        shape, scale = own.tails.shape[c], span * np.exp(own.tails.log_scale[c])
        # Their simplex search for the greatest likelihood stops early: at a sixth of the shape for cosine distances.
        tail = np.sort(np.linalg.norm(right.logits[right.labels == c] - own.means[c], axis=1))[-20:]
        if weight == 1:
            values = tail + 10_000 - tail.min()
            theirs_likelihood = weibull_min.logpdf(values, distribution.c, scale=distribution.scale).sum()
            assert weibull_min.logpdf(values, shape, scale=scale).sum() >= theirs_likelihood - 1e-9
            assert distribution.c == pytest.approx(shape, rel=0.05)
        distribution.c, distribution.scale = shape, scale
    with np.errstate(over="ignore"):  # where the probability is 1
        unknown = detector.predict_logits(tensor(TESTED.logits)).numpy()
    np.testing.assert_allclose(own.score(TESTED), np.log(unknown / (1 - unknown)), rtol=1e-6, atol=1e-8)


def test_the_table_says_what_is_compared_here():
    here = {name for name, *_ in CASES} | {"entropy", "gen", "mahalanobis", "rmds", "mahalanobis_all", "openmax"}
    elsewhere = {"odin", "mc_dropout", "rankfeat", "vra", "gram", "mcm"}  # test_images.py, recent/, test_text.py
    lines = table().to_dict("records")
    assert {line["name"] for line in lines if "pytorch-ood" in line["compared with"]} == here | elsewhere
