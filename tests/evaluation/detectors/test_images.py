"""Detectors that read images, against pytorch-ood, against formulas written out, and whatever else is in the batch."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="shows torch models images")
pytest.importorskip("torchvision", reason="preprocesses images")

from torch import nn  # noqa: E402
from torchvision.transforms import functional  # noqa: E402

from tests.evaluation import small_models  # noqa: E402
from tests.evaluation.small_models import images_of, of_seed  # noqa: E402
from tests.sentences import stops  # noqa: E402
from unknown_detection.evaluation.detectors import DETECTORS  # noqa: E402
from unknown_detection.evaluation.detectors.images import (  # noqa: E402
    crop,
    perturbed,
    row_seed,
    run_on_crops,
    run_perturbed,
    run_with_dropout,
    run_without_rank_one,
    without_rank_one,
)
from unknown_detection.evaluation.detectors.recent.adascale import run_on_trivial_pixels  # noqa: E402
from unknown_detection.evaluation.detectors.recent.gram import run_for_gram  # noqa: E402
from unknown_detection.evaluation.errors import EvaluationError  # noqa: E402
from unknown_detection.evaluation.models.dropout import dropout_drawn, dropout_off  # noqa: E402
from unknown_detection.evaluation.models.features import Features  # noqa: E402
from unknown_detection.evaluation.models.layers import find_layers  # noqa: E402
from unknown_detection.evaluation.models.models import Model  # noqa: E402
from unknown_detection.evaluation.models.preprocessing import of_declaration  # noqa: E402

IDS = [f"source/test/{number}.png" for number in range(12)]


pytestmark = pytest.mark.usefixtures("one_thread")


def opened(module):
    """A model that `open_model` would give, without a file of weights."""
    preprocessing = of_declaration(small_models.PREPROCESSING, "it")
    module = module.eval().requires_grad_(False)
    with dropout_off(rates := []):
        layers = find_layers(module, images_of(count=2), declared=None, name="it")
    return Model("it", module, preprocessing, layers, "", "cpu", dropout=rates)


@pytest.fixture
def cnn():
    return opened(of_seed(small_models.cnn, num_classes=5))


@pytest.fixture
def with_dropout():
    return opened(of_seed(small_models.with_dropout, num_classes=5))


def passed(columns):
    """What a detector gets of a look's columns."""
    rows = len(next(iter(columns.values())))
    none = np.zeros((rows, 0))
    return Features(np.array(IDS[:rows]), np.full(rows, -1), none, none, (), passed=columns)


def score(name, model, images=None, ids=IDS, seed=0, **hyperparameters):
    method = DETECTORS[name]
    columns = method.image_pass.run(
        model, images_of() if images is None else images, ids, seed=seed, **method.parameters() | hyperparameters
    )
    return method.clone(**hyperparameters).fit().score(passed(columns))


@pytest.mark.parametrize("epsilon", [0.0, 0.0014, 0.01])
@pytest.mark.parametrize("temperature", [1.0, 1000.0])
def test_odin_is_that_of_pytorch_ood(cnn, epsilon, temperature):
    """Its scores are negated maximum probabilities: one less than ours."""
    detector = pytest.importorskip("pytorch_ood.detector")
    std = small_models.STD
    moved = perturbed(cnn, images_of(), temperature, epsilon)
    theirs = detector.odin_preprocessing(cnn.module, images_of(), eps=epsilon, temperature=temperature, norm_std=std)
    assert torch.equal(moved, theirs)
    expected = detector.ODIN(cnn.module, eps=epsilon, temperature=temperature, norm_std=std).predict(images_of())
    scores = score("odin", cnn, temperature=temperature, epsilon=epsilon)
    assert np.allclose(scores - 1, expected.numpy(), rtol=0, atol=1e-6)
    # FACETS' variant, put together from their parts.
    expected = detector.MaxLogit(None).predict_logits(cnn.module(theirs) / temperature)
    scores = score("odin_max_logit", cnn, temperature=temperature, epsilon=epsilon)
    assert np.allclose(scores, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_dropout_is_drawn_for_each_row_from_its_id(with_dropout):
    """Written out: the one dropout layer stands before the last layer; a row's generator begins with its mask."""
    module, images = with_dropout.module, images_of()
    features = module.layer2(module.layer1(images)).mean((2, 3)).double()
    passes = []
    for sample in range(4):
        draws = [
            torch.rand(10, generator=torch.Generator().manual_seed(row_seed(7, f"dropout {sample}", id_)))
            for id_ in IDS
        ]
        dropped = features * (torch.stack(draws) >= 0.5) / 0.5
        passes.append((dropped @ module.fc.weight.T.double() + module.fc.bias).softmax(1))
    p = torch.stack(passes).numpy()
    mean = p.mean(0)
    outputs = run_with_dropout(with_dropout, images, IDS, seed=7, samples=4)
    assert np.allclose(np.exp(outputs["logits"]), mean, atol=1e-6)
    information = -(mean * np.log(mean)).sum(1) + (p * np.log(p)).sum(2).mean(0)
    assert np.allclose(outputs["mutual_information"], information, atol=1e-6)
    assert np.allclose(score("mc_dropout", with_dropout, seed=7, samples=4), 1 - mean.max(1), atol=1e-6)
    assert np.allclose(score("mc_dropout_mi", with_dropout, seed=7, samples=4), information, atol=1e-6)


class Many(nn.Module):
    """Every kind of dropout, and batch norm, which acts otherwise while training."""

    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Dropout2d(0.5), nn.BatchNorm2d(4))
        self.dropout = nn.Dropout(0.25)
        self.fc = nn.Linear(4, 5)

    def forward(self, images):
        """Logits."""
        return self.fc(self.dropout(self.layer1(images).mean((2, 3))))


def test_only_dropout_layers_are_switched_on():
    model = opened(of_seed(Many))
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    dropped = {}
    # What the layer behind it gets.
    model.module.layer1[2].register_forward_pre_hook(lambda _, inputs: dropped.update(maps=inputs[0]))
    generators = [torch.Generator().manual_seed(row) for row in range(40)]
    with dropout_drawn(generators), torch.no_grad():
        model.module(images_of(count=40))
    # Whole channels, of each image others, about half of them; what is kept is doubled.
    zero = (dropped["maps"] == 0).flatten(2)
    assert torch.equal(zero.all(2), zero.any(2))
    assert 0.3 < zero.all(2).float().mean() < 0.7
    assert len({tuple(row) for row in zero.all(2).tolist()}) > 4
    plain = model.module.layer1[0](images_of(count=40))
    kept = ~zero.all(2)
    assert torch.allclose(dropped["maps"][kept], 2 * plain[kept])
    assert all(torch.equal(before[name], tensor) for name, tensor in model.module.state_dict().items())
    assert not any(layer.training for layer in model.module.modules())
    with torch.no_grad():
        model.module(images_of(count=4))
        assert torch.equal(model.module.layer1[0](images_of(count=4)), dropped["maps"])


class Functional(small_models.Small):
    """The same network as `with_dropout`, which calls dropout as the unified benchmark's networks do."""

    def __init__(self, training):
        super().__init__(5)
        self.always = training

    def forward(self, images):
        """Logits, dropped in eval mode too."""
        features = self.layer2(self.layer1(images)).mean(dim=(2, 3))
        return self.fc(torch.nn.functional.dropout(features, 0.5, training=self.always))


@pytest.mark.parametrize("always", [True, False])
def test_dropout_called_as_a_function_is_that_of_a_layer(with_dropout, always):
    module = Functional(training=always)
    module.load_state_dict(with_dropout.module.state_dict())
    model = opened(module)
    assert model.dropout == with_dropout.dropout == [0.5]
    # Features are without it, the same at every run; so is what ODIN and CADet see.
    assert torch.equal(model.forward(images_of()).logits, with_dropout.forward(images_of()).logits)
    for run, hyperparameters in PASSES.values():
        outputs, expected = (
            run(candidate, images_of(), IDS, seed=0, **hyperparameters) for candidate in (model, with_dropout)
        )
        assert all(np.array_equal(outputs[column], expected[column]) for column in expected)


def test_masks_of_windows_are_those_of_their_image():
    """As in Swin, whose windows of an image stand one after another on the first axis."""
    generators = [torch.Generator().manual_seed(row) for row in range(2)]
    with dropout_drawn(generators):
        dropped = torch.nn.functional.dropout(torch.ones(6, 50), 0.5)
    draws = torch.cat([torch.rand(3, 50, generator=torch.Generator().manual_seed(row)) for row in range(2)])
    assert torch.equal(dropped, 2.0 * (draws >= 0.5))
    with stops(EvaluationError):  # noqa: SIM117
        with dropout_drawn(generators):
            torch.nn.functional.dropout(torch.ones(5, 2))


@pytest.mark.parametrize("name", ["mc_dropout", "mc_dropout_mi"])
def test_a_model_without_dropout(cnn, name):
    with stops(EvaluationError, "mc_dropout"):
        DETECTORS[name].image_pass.check(cnn)


@pytest.mark.parametrize("seed", range(5))
def test_crops_are_those_of_torchvision(seed):
    """Its `resized_crop` of the same box; the box has three quarters of the area, and lies within the image."""
    image = torch.rand(3, 24, 40, generator=torch.Generator().manual_seed(seed))
    # The box is found again by cropping the coordinates.
    grid = torch.stack(torch.meshgrid(torch.arange(24.0), torch.arange(40.0), indexing="ij"))
    corners = crop(torch.cat([grid, grid[:1]]), seed)
    top, left = corners[0, 0, 0], corners[1, 0, 0]
    bottom, right = corners[0, -1, -1], corners[1, -1, -1]
    # Without a half of a pixel at each side that bilinear interpolation keeps to the box.
    box = [round(float(value)) for value in (top, left, bottom - top + 1, right - left + 1)]
    assert 0.68 < box[2] * box[3] / (24 * 40) < 0.82
    assert 0.7 < (box[3] / box[2]) / (40 / 24) < 1.4
    expected = functional.resized_crop(image, *box, size=[24, 40], antialias=True)
    assert torch.allclose(crop(image, seed), expected, atol=1e-6)


def test_cadet_by_hand(cnn):
    images = images_of()
    views = []
    for view in range(3):
        crops = [crop(image, row_seed(5, f"crop {view}", id_)) for image, id_ in zip(images, IDS, strict=True)]
        module = cnn.module
        views.append(module.layer2(module.layer1(torch.stack(crops))).mean((2, 3)))
    similarity = sum(torch.cosine_similarity(views[i], views[j]) for i, j in ((0, 1), (0, 2), (1, 2))) / 3
    assert np.allclose(score("cadet", cnn, seed=5, views=3), -similarity.numpy(), atol=1e-6)
    # Crops of one colour are alike.
    assert np.allclose(score("cadet", cnn, torch.ones(12, 3, 8, 8)), -1, atol=1e-6)


def test_rankfeat_by_singular_values(cnn):
    """Each image by itself: NumPy's singular values of both blocks, and the rest of the model written out."""
    module, scores = cnn.module, []
    for image in images_of():
        logits = []
        for number in (1, 2):
            maps = module.layer1(image[None])
            maps = module.layer2(maps) if number == 2 else maps
            left, singular, right = np.linalg.svd(maps[0].flatten(1).double().numpy(), full_matrices=False)
            singular[0] = 0
            maps = torch.from_numpy((left * singular) @ right).float().reshape(maps.shape)
            maps = module.layer2(maps) if number == 1 else maps
            logits.append(module.fc(maps.mean((2, 3)))[0])
        scores.append(-float(torch.logsumexp(sum(logits) / 2, 0)))
    assert np.allclose(score("rankfeat", cnn), scores, atol=1e-5)
    plain = -torch.logsumexp(module(images_of()), 1).numpy()
    assert not np.allclose(score("rankfeat", cnn), plain, atol=1e-2)


@pytest.mark.parametrize("shape", [(6, 20), (20, 6)])
def test_rank_one_removal_is_that_of_pytorch_ood(shape):
    rankfeat = pytest.importorskip("pytorch_ood.detector.rankfeat")
    maps = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    expected = rankfeat._remove_rank1(maps[..., None])[..., 0]
    assert torch.allclose(without_rank_one(maps), expected, atol=1e-5)


class Turned(nn.Module):
    """Maps in another layout, and back."""

    def __init__(self, order, back):
        super().__init__()
        self.order, self.back, self.seen = order, back, nn.Identity()

    def forward(self, maps):
        """The maps as they are."""
        return self.back(self.seen(self.order(maps)))


@pytest.mark.parametrize("layout", ["NHWC", "tokens"])
def test_rankfeat_of_transformers_is_that_of_the_same_matrix(cnn, layout):
    order, back = {
        "NHWC": (lambda maps: maps.permute(0, 2, 3, 1), lambda maps: maps.permute(0, 3, 1, 2)),
        "tokens": (lambda maps: maps.flatten(2).mT, lambda tokens: tokens.mT.unflatten(2, (4, 4))),
    }[layout]
    expected = run_without_rank_one(with_blocks(cnn, "layer2"), images_of(), IDS, seed=0)["logits"]
    cnn.module.layer2.append(Turned(order, back))
    cnn.module.output_fmt = layout
    logits = run_without_rank_one(with_blocks(cnn, "layer2.2.seen"), images_of(), IDS, seed=0)["logits"]
    assert np.allclose(logits, expected, atol=1e-5)


def with_blocks(model, *blocks):
    """The model with other blocks."""
    layers = dataclasses.replace(model.layers, blocks=blocks)
    return Model(model.name, model.module, model.preprocessing, layers, "", "cpu")


def test_rankfeat_needs_maps(cnn):
    vectors = with_blocks(cnn, "layer1", "dropout")
    with stops(EvaluationError):
        DETECTORS["rankfeat"].image_pass.check(vectors)
    DETECTORS["rankfeat"].image_pass.check(cnn)
    assert not any(layer._forward_hooks for layer in cnn.module.modules())


PASSES = {
    "without_rank_one": (run_without_rank_one, {}),
    "perturbed": (run_perturbed, {"temperature": 10.0, "epsilon": 0.0014}),
    "dropout": (run_with_dropout, {"samples": 3}),
    "crops": (run_on_crops, {"views": 3}),
    "trivial_pixels": (run_on_trivial_pixels, {"pixels": 0.05}),
    "gram": (run_for_gram, {}),
}


@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_row_has_its_numbers_in_any_batch(with_dropout, name):
    """In another order, and alone. Float32 sums in another order: 1e-6 of the largest number.

    The sign of a gradient that is nearly zero would change more; none of these images has one.
    """
    image_pass, hyperparameters = PASSES[name]
    outputs = image_pass(with_dropout, images_of(), IDS, seed=0, **hyperparameters)
    order = np.random.default_rng(0).permutation(len(IDS))
    shuffled = image_pass(with_dropout, images_of()[order], [IDS[row] for row in order], seed=0, **hyperparameters)
    alone = [
        image_pass(with_dropout, images_of()[row : row + 1], IDS[row : row + 1], seed=0, **hyperparameters)
        for row in range(len(IDS))
    ]
    for column, values in outputs.items():
        limit = 1e-6 * np.abs(values).max()
        assert np.abs(shuffled[column] - values[order]).max() < limit
        assert np.abs(np.concatenate([row[column] for row in alone]) - values).max() < limit


@pytest.mark.parametrize("name", ["dropout", "crops"])
def test_the_seed_decides(with_dropout, name):
    image_pass, hyperparameters = PASSES[name]
    first, repeated, other = (
        image_pass(with_dropout, images_of(), IDS, seed=seed, **hyperparameters) for seed in (0, 0, 1)
    )
    for column, values in first.items():
        assert np.array_equal(values, repeated[column])
        assert not np.allclose(values, other[column])


def test_seeds_of_rows_are_pinned():
    """First eight bytes of a SHA-256, halved; `printf '0\\tcrop 1\\ta' | sha256sum` begins with them."""
    import hashlib

    assert row_seed(0, "crop 1", "a") == int(hashlib.sha256(b"0\tcrop 1\ta").hexdigest()[:16], 16) // 2


def test_what_the_table_says_holds():
    readers = [method for method in DETECTORS.values() if method.reads == "images"]
    assert len(readers) == 10
    fitted = {method.name for method in readers if method.fits_on != "none"}
    assert fitted == {"adascale_a", "adascale_l", "gram"}
    for method in readers:
        assert set(method.image_pass.depends_on) == set(method.parameters()) - {"upper", "weight"}  # of the scores
