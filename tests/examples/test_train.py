"""The recipes that train: their losses, their numbers, and whole runs on scikit-learn's digits."""

import functools
import importlib.util
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.killing import killed_at_rename

torch = pytest.importorskip("torch", reason="training needs torch, of the extra train")
pytest.importorskip("pytorch_ood", reason="training needs pytorch-ood, of the extra train")
save_file = pytest.importorskip("safetensors.torch", reason="training needs safetensors, of the extra train").save_file
pytest.importorskip("timm", reason="training needs timm, of the extra train")
torchvision = pytest.importorskip("torchvision", reason="training needs torchvision, of the extra train")

from examples import resnet20, train  # noqa: E402
from tests.examples.paths import EXAMPLES  # noqa: E402
from unknown_detection.evaluation.models.blueprints import make_blueprint  # noqa: E402
from unknown_detection.evaluation.models.models import open_model  # noqa: E402
from unknown_detection.evaluation.releases import load  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

NETS = Path(__file__).with_name("small_nets.py")
PRECISIONS = (torch.float16, torch.bfloat16, torch.float64)
E1 = math.log(1 + math.e)


# Losses. All inputs are exact in half precision, so the losses agree with the hand computation to float32's precision.


@pytest.mark.parametrize("kind", PRECISIONS)
def test_crl_loss_by_hand(kind):
    """Pairs (0, 1), (1, 2), (2, 0): 1/2 - (3/4 - 1/2); no order; and 1/2 + (1/2 - 3/4)."""
    confidences = torch.tensor([0.75, 0.5, 0.5], dtype=kind, requires_grad=True)
    loss = train.crl_loss(confidences, torch.tensor([1.0, 0.5, 0.5]))
    assert loss.item() == pytest.approx((0.25 + 0 + 0.25) / 3, abs=1e-7)
    loss.backward()
    assert confidences.grad.tolist() == pytest.approx([-2 / 3, 1 / 3, 1 / 3], abs=4e-3)


def test_crl_loss_equals_torchs_margin_ranking_loss():
    """Moon et al.'s own code gives MarginRankingLoss the second confidence with the margin added."""
    confidences, correctness = torch.rand(2, 40, generator=torch.Generator().manual_seed(0)).double()
    correctness = (correctness * 4).round() / 4  # so that some pairs are equal
    gaps = correctness - correctness.roll(-1)
    target = gaps.sign()
    second = confidences.roll(-1) + gaps.abs() / torch.where(target == 0, 1, target)
    theirs = torch.nn.functional.margin_ranking_loss(confidences, second, target)
    assert train.crl_loss(confidences, correctness).item() == pytest.approx(theirs.item(), rel=1e-12)
    assert (target == 0).any()


@pytest.mark.parametrize("kind", PRECISIONS)
def test_edl_loss_by_hand(kind):
    """Logits 0, so alpha = (2, 2): log 4 - log 2, and Dir(1, 2) diverges from the uniform by log 2 - 1/2."""
    logits = torch.zeros(1, 2, dtype=kind, requires_grad=True)
    loss = train.edl_loss(logits, torch.tensor([0]), weight=0.5)
    assert loss.item() == pytest.approx(math.log(2) + 0.5 * (math.log(2) - 0.5), rel=1e-6)
    far = torch.tensor([[60.0, -60.0]], dtype=kind, requires_grad=True)
    train.edl_loss(far, torch.tensor([1]), weight=1.0).backward()
    assert torch.isfinite(far.grad).all()


@pytest.mark.parametrize(("objective", "name"), [("digamma", "expected log"), ("mse", "expected square")])
def test_edl_objectives_are_expectations_under_the_dirichlet(objective, name):
    """By 400,000 draws of torch's distribution, to five standard errors."""
    torch.manual_seed(0)
    logits, label = torch.tensor([[0.5, -0.3, 1.0]], dtype=torch.float64), torch.tensor([2])
    drawn = torch.distributions.Dirichlet(1 + logits[0].exp()).sample((400_000,))
    squares = (drawn - torch.tensor([0.0, 0.0, 1.0])).square().sum(dim=1)
    values = squares if name == "expected square" else -drawn[:, 2].log()
    error = 5 * values.std().item() / 400_000**0.5
    assert train.edl_loss(logits, label, 0.0, objective).item() == pytest.approx(values.mean().item(), abs=error)


def test_edl_loss_by_torchs_dirichlet_distributions():
    logits = 2 * torch.randn(20, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(20) % 7
    alpha = 1 + logits.exp()
    right = torch.nn.functional.one_hot(labels, 7)
    mean = torch.distributions.Dirichlet(alpha).mean
    apart = torch.distributions.kl_divergence(
        torch.distributions.Dirichlet(alpha * (1 - right) + right),
        torch.distributions.Dirichlet(torch.ones_like(alpha)),
    )
    theirs = (-(mean * right).sum(dim=1).log() + 0.3 * apart).mean()
    assert train.edl_loss(logits, labels, weight=0.3).item() == pytest.approx(theirs.item(), rel=1e-9)


def test_edl_loss_by_torch_uncertainty():
    """Its file alone: the package wants lightning, which nothing here needs."""
    spec = importlib.util.find_spec("torch_uncertainty")
    if spec is None:
        pytest.skip("needs torch-uncertainty (pip install --no-deps torch-uncertainty)")
    file = Path(spec.submodule_search_locations[0]) / "losses" / "classification.py"
    spec = importlib.util.spec_from_file_location("_classification_losses", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    logits = 2 * torch.randn(20, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.arange(20) % 7
    theirs = module.DECLoss(reg_weight=0.7, loss_type="log")(logits.exp(), labels)
    assert train.edl_loss(logits, labels, weight=0.7).item() == pytest.approx(theirs.item(), rel=1e-9)


@pytest.mark.parametrize("kind", PRECISIONS)
def test_oe_loss_by_hand(kind):
    """One known row and two external ones, so that a mean over the whole batch would give another figure."""
    known = torch.zeros(1, 2, dtype=kind, requires_grad=True)
    external = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=kind, requires_grad=True)
    uniform = ((E1 - 0.5) + math.log(2)) / 2
    loss = train.oe_loss(known, torch.tensor([0]), external)
    assert loss.item() == pytest.approx(math.log(2) + 0.5 * uniform, rel=1e-6)
    loss.backward()
    # d/dx of CE to uniform: softmax less 1/2, halved for the two rows and by the weight.
    assert external.grad[0, 0].item() == pytest.approx((math.e / (1 + math.e) - 0.5) / 4, rel=4e-3)


@pytest.mark.parametrize("kind", PRECISIONS)
def test_energy_loss_by_hand(kind):
    """Two classes with logits 0 have energy -log 2; margins -2 and 0 are both violated."""
    zeros = torch.zeros(2, 2, dtype=kind)
    loss = train.energy_loss(zeros[:1], torch.tensor([1]), zeros, (-2.0, 0.0))
    expected = math.log(2) + 0.1 * ((2 - math.log(2)) ** 2 + math.log(2) ** 2)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    within = train.energy_loss(zeros[:1], torch.tensor([1]), zeros, (0.0, -2.0))
    assert within.item() == pytest.approx(math.log(2), rel=1e-6)


# Images.


def test_random_crops_are_shifts_over_black_and_mirror_images():
    pixels = torch.randint(1, 256, (64, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    crops = train.random_crops(pixels, torch.Generator().manual_seed(1))
    places = set()
    for before, after in zip(pixels, crops, strict=True):
        padded = torch.nn.functional.pad(before, (2, 2, 2, 2))
        matches = [
            (top, left, mirrored)
            for top in range(5)
            for left in range(5)
            for mirrored in (False, True)
            if torch.equal(after.flip(2) if mirrored else after, padded[:, top : top + 16, left : left + 16])
        ]
        assert len(matches) == 1
        places.add(matches[0])
    assert len(places) > 30 and {mirrored for *_, mirrored in places} == {False, True}


def test_random_resized_crops_show_parts_of_the_image_at_scale():
    """Where values grow evenly from left to right and from top to bottom, they do so in a crop, too, more slowly."""
    ramp = torch.arange(64, dtype=torch.uint8).mul(4)
    pixels = torch.stack([ramp.expand(64, 64), ramp[:, None].expand(64, 64), torch.full((64, 64), 7)])[None]
    crops = train.random_resized_crops(pixels.expand(200, 3, 64, 64), 32, torch.Generator().manual_seed(0)).float()
    assert crops.shape == (200, 3, 32, 32) and (crops[:, 2] == 7).all()
    across = (crops[:, 0, 5, 24] - crops[:, 0, 5, 8]) / 16 / 4 * 32 / 64  # share of the width, signed if mirrored
    down = (crops[:, 1, 24, 5] - crops[:, 1, 8, 5]) / 16 / 4 * 32 / 64
    area = across.abs() * down
    assert (down > 0).all() and 60 < (across < 0).sum() < 140
    assert area.min() > 0.06 and area.max() <= 1.03 and 0.4 < area.mean() < 0.6  # uniform in [0.08, 1] before clamping


def test_large_images_keep_their_middle_square(digits_release):
    pixels, labels = train.load_images(load(str(digits_release)), "digits/test", 72, 80, "cpu")
    assert pixels.shape == (len(labels), 3, 80, 80) and pixels.dtype == torch.uint8
    assert sorted(set(labels.tolist())) == [0, 1, 2, 3, 4, 5]


# Recipes.


def training(release, method="ce", model=f"{NETS}:small", **more):
    values = {"seed": 0, "epochs": None, "batch": None, "rate": None, "margins": (-5.0, -1.0), "init": ""}
    values |= {
        "optimizer": None,
        "recipe": None,
        "precision": "float32",
        "known": "digits-train/train",
        "validation": "digits/validation",
    }
    values |= {"external": "digits/external_validation", "method": method, "model": model, **more}
    return train.Training(SimpleNamespace(**values), load(str(release)), "cpu", "cpu")


def test_the_recipes_have_the_papers_numbers(digits_release):
    """Kim et al., section 4.1, and their code; for fine-tuning Liu et al., section 4.1, and their code."""
    small, large = training(digits_release), training(digits_release, model=f"{NETS}:large")
    tuned = training(digits_release, method="energy")
    assert (small.epochs, small.batch, large.epochs, large.batch, tuned.epochs) == (200, 128, 90, 256, 10)
    for trained, decay, nesterov in ((small, 5e-4, True), (large, 1e-4, False)):
        defaults = trained.optimizer.defaults
        assert (defaults["momentum"], defaults["weight_decay"], defaults["nesterov"]) == (0.9, decay, nesterov)
    named = training(digits_release, model="resnet18_32")
    assert (named.size, named.mean.flatten().tolist()) == (32, pytest.approx([0.507, 0.487, 0.441]))
    steps = {0: 0.1, 119.99: 0.1, 120: 0.01, 159: 0.01, 160: 0.001, 199: 0.001}
    assert [small._rate(epoch) for epoch in steps] == pytest.approx(list(steps.values()))
    assert [large._rate(epoch) for epoch in (29, 30, 59, 60)] == pytest.approx([0.1, 0.01, 0.01, 0.001])
    assert [tuned._rate(epoch) for epoch in (0, 5, 10)] == pytest.approx([0.001, (0.001 + 1e-6) / 2, 1e-6])


def test_an_epoch_has_each_known_image_once_and_twice_as_many_external_ones(digits_release):
    oe = training(digits_release, method="oe", batch=100)
    count, number = len(oe.correct), len(oe.images["external"][1])
    batches = list(oe._batches(torch.Generator().manual_seed(0)))
    rows = torch.cat([rows for _, rows, _ in batches])
    external_rows = torch.cat([external_rows for *_, external_rows in batches])
    assert sorted(rows.tolist()) == list(range(count))
    assert len(external_rows) == 2 * count and all(len(more) == 2 * len(rows) for _, rows, more in batches)
    times = np.bincount(external_rows.numpy(), minlength=number)
    assert times.max() - times.min() <= 1  # in turns, none again before all others


def test_crl_remembers_how_often_images_were_classified_right(digits_release):
    """In the first epoch nothing is known, so that the loss is cross-entropy; then shares of the epochs so far."""
    crl = training(digits_release, method="crl")
    logits, labels = torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 0])
    rows, plain = torch.tensor([3, 8]), (E1 - 1 + math.log(2)) / 2
    assert crl._loss(logits, labels, logits[:0], rows).item() == pytest.approx(plain, rel=1e-6)
    crl.correct[3], crl.log = 2.0, [{}, {}, {}, {}]
    # Shares 1/2 and 0, confidences e / (1 + e) and 1/2: both pairs lack 1/2 less their difference.
    lack = 0.5 - (math.e / (1 + math.e) - 0.5)
    assert crl._loss(logits, labels, logits[:0], rows).item() == pytest.approx(plain + lack, rel=1e-6)


def test_dropout_stands_behind_every_convolution_of_a_block():
    """The benchmark's code: two a block in a ResNet-18, three in a ResNet-152, and one before the last layer."""
    model = train.resnet18_32_dropout(40)
    assert sum(isinstance(layer, torch.nn.Dropout) for layer in model.modules()) == 8 * 2 + 1
    assert model.fc[1].out_features == 40 and model.conv1.stride == (1, 1)
    with torch.device("meta"):
        deep = train.resnet152_dropout(200)
    assert sum(isinstance(layer, torch.nn.Dropout) for layer in deep.modules()) == 50 * 3 + 1
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert not torch.equal(model.train()(images), model(images))
        assert torch.equal(model.eval()(images), model(images))


def test_the_evaluation_opens_the_networks_and_finds_their_dropout(tmp_path):
    """With the weights of their own function; dropout is off for features, and drawn by `mc_dropout`."""
    for file, name, rates in (
        ("train.py", "resnet18_32_dropout", 17),
        ("resnet20.py", "resnet20_dropout", 2 * 9 + 1),
        ("resnet20.py", "resnet20", 0),
    ):
        spec = f"{EXAMPLES / file}:{name}"
        path = tmp_path / f"{name}.safetensors"
        torch.manual_seed(0)
        save_file(make_blueprint(spec, 40, pretrained=False).module.state_dict(), path)
        opened = open_model(spec, path, [str(number) for number in range(40)], device="cpu")
        assert opened.dropout == [0.1] * rates
        assert opened.preprocessing.size == (32, 32) and opened.head.weight.shape[0] == 40


def test_resnet20_has_the_size_of_its_paper():
    """He et al., table 6: 0.27 million weights for ten classes; and twenty layers beside the shortcuts."""
    model = resnet20.resnet20(10)
    assert 0.265e6 < sum(weights.numel() for weights in model.parameters()) < 0.275e6
    layers = [module for module in model.modules() if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear))]
    assert len([layer for layer in layers if getattr(layer, "kernel_size", None) != (1, 1)]) == 20


# Whole runs.

QUICK = ("--epochs=4", "--batch=32", "--external=digits/external_validation", "--device=cpu")


def run(release, out, *more, model="small"):
    """Train as on a command line; returns the exit code."""
    flags = [f"--release={release}", "--known=digits-train", f"--model={NETS}:{model}", f"--out={out}", *QUICK, *more]
    with pytest.raises(SystemExit) as ended:
        train.main(flags)
    return ended.value.code


def weights(out):
    from safetensors.numpy import load_file

    return load_file(out / "weights.safetensors")


def log(out):
    """The lines of a run without the one that a clock gives."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def same(first, second):
    first, second = weights(first), weights(second)
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def runs(digits_release, tmp_path_factory):
    """One run of each method with seed 0."""
    root = tmp_path_factory.mktemp("runs")
    for method in train.METHODS:
        more = ["--rate=0.03"] if method != "energy" else ["--rate=0.001", "--margins", "-5", "-1"]
        more += [f"--init={root / 'ce' / 'weights.safetensors'}"] if method == "energy" else []
        model = "small_dropout" if method == "mcdropout" else "small"
        assert run(digits_release, root / method, f"--method={method}", *more, model=model) == 0
    return root


@pytest.mark.parametrize("method", train.METHODS)
def test_every_method_learns_digits(runs, method):
    """Chance is one in six; each log has a line an epoch."""
    lines = log(runs / method)
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    assert lines[-1]["validation_accuracy"] > 0.7
    assert lines[-1]["loss"] < lines[0]["loss"] or method == "edl"  # whose penalty grows over the epochs


TABLE_12 = {
    # Keras' rules, by hand, for one weight of 1 and the gradients 0.5, 0.5; epsilon 1e-7 changes nothing here.
    "sgd": 1 - 0.01 * (0.5 + 0.5),
    "adagrad": 1 - 0.01 * (0.5 / 0.5 + 0.5 / (0.5 * 2**0.5)),
    "rmsprop": 1 - 0.001 * (0.5 / (0.1 * 0.25) ** 0.5 + 0.5 / (0.9 * 0.1 * 0.25 + 0.1 * 0.25) ** 0.5),
    "adam": 1 - 0.001 * 2,  # equal gradients: each corrected moment is the gradient's
    "adamax": 1 - 0.001 * 2,
}


@pytest.mark.parametrize("name", train.OPTIMIZERS)
def test_optimizers_step_as_in_table_12(name):
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = train.OPTIMIZERS[name]([weight])
    for _ in range(2):
        weight.grad = torch.full((1,), 0.5, dtype=torch.float64)
        optimizer.step()
    if name == "nadam":
        # Dozat's momentum schedule, mu_t = 0.9 (1 - 0.96^(0.004 t) / 2), written out.
        mu = [0.9 * (1 - 0.5 * 0.96 ** (0.004 * t)) for t in (1, 2, 3)]
        m, v, value = 0.0, 0.0, 1.0
        for t in (1, 2):
            m, v = 0.9 * m + 0.1 * 0.5, 0.999 * v + 0.001 * 0.25
            done = math.prod(mu[:t])
            step = mu[t] * m / (1 - done * mu[t]) + (1 - mu[t - 1]) * 0.5 / (1 - done)
            value -= 0.001 * step / ((v / (1 - 0.999**t)) ** 0.5 + 1e-7)
    elif name == "adadelta":
        squares, steps, value = 0.0, 0.0, 1.0
        for _ in (1, 2):
            squares = 0.95 * squares + 0.05 * 0.25
            step = 0.5 * ((steps + 1e-7) / (squares + 1e-7)) ** 0.5
            steps, value = 0.95 * steps + 0.05 * step**2, value - 0.1 * step
    else:
        value = TABLE_12[name]
    assert weight.item() == pytest.approx(value, abs=1e-8)


def test_with_an_optimizer_training_stops_early_and_keeps_the_best_epoch(digits_release, tmp_path, monkeypatch):
    """The weights are those of the epoch with the lowest validation loss, and two epochs follow it."""
    monkeypatch.setattr(train, "PATIENCE", 2)
    flags = ("--optimizer=rmsprop", "--epochs=60", "--batch=16")
    assert run(digits_release, tmp_path / "one", *flags) == 0
    lines = log(tmp_path / "one")
    losses = [line["validation_loss"] for line in lines]
    best = losses.index(min(losses))
    assert len(losses) == best + 3 < 60
    assert {line["rate"] for line in lines} == {0.001}
    # The same command for as many epochs as the best one had ends in the same weights.
    assert run(digits_release, tmp_path / "best", *flags, f"--epochs={best + 1}") == 0
    assert same(tmp_path / "one", tmp_path / "best")
    assert run(digits_release, tmp_path / "refused", "--optimizer=adam", "--rate=0.1") == 2


def test_a_seed_gives_the_same_weights_and_another_seed_others(digits_release, runs, tmp_path):
    flags = ("--method=ce", "--rate=0.03")
    assert run(digits_release, tmp_path / "again", *flags) == 0
    assert run(digits_release, tmp_path / "other", *flags, "--seed=1") == 0
    assert same(tmp_path / "again", runs / "ce") and log(tmp_path / "again") == log(runs / "ce")
    assert not same(tmp_path / "other", runs / "ce")


KILLED = """
import datasets, torch
release, out, cache, *given = sys.argv[2:]
datasets.config.HF_DATASETS_CACHE = cache
torch.set_num_threads(1)
from examples import train
train.main([f"--release={release}", "--known=digits-train", f"--out={out}", *given])
"""


def test_a_killed_run_goes_on_to_the_same_weights(digits_release, runs, tmp_path):
    """CRL also has a memory of the images. The kill is a real one, before the third checkpoint is renamed."""
    flags = [f"--model={NETS}:small", *QUICK, "--method=crl", "--rate=0.03"]
    killed_at_rename(3, KILLED, digits_release, tmp_path / "out", tmp_path / "cache", *flags)
    assert [line["epoch"] for line in log(tmp_path / "out")] == [1, 2]
    assert not (tmp_path / "out" / "weights.safetensors").exists()
    assert run(digits_release, tmp_path / "out", "--method=crl", "--rate=0.03") == 0
    assert same(tmp_path / "out", runs / "crl") and log(tmp_path / "out") == log(runs / "crl")


def test_half_precision_trains(digits_release, tmp_path):
    for kind in ("float16", "bfloat16"):
        assert run(digits_release, tmp_path / kind, "--method=edl", "--rate=0.03", f"--precision={kind}") == 0
        assert log(tmp_path / kind)[-1]["validation_accuracy"] > 0.7


def test_a_compiled_model_has_the_names_of_a_plain_one(digits_release, tmp_path, monkeypatch):
    """So its weights start another training, of a model that is not compiled. The compiler itself takes a minute."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    assert run(digits_release, tmp_path / "out", "--method=ce", "--rate=0.03", "--compile") == 0
    assert log(tmp_path / "out")[-1]["validation_accuracy"] > 0.7
    tuned = ["--method=energy", "--rate=0.001", f"--init={tmp_path / 'out' / 'weights.safetensors'}"]
    assert run(digits_release, tmp_path / "tuned", *tuned, "--margins", "-5", "-1") == 0


def test_the_cifar_release_trains_with_its_own_external_images(cifar_release, tmp_path):
    """With the options of the page: `--known cifar-train`, and `cifar-external` for external images by default."""
    flags = ["--known=cifar-train", "--method=oe", f"--model={NETS}:small", "--epochs=1", "--device=cpu"]
    with pytest.raises(SystemExit) as ended:
        train.main([f"--release={cifar_release}", *flags, f"--out={tmp_path / 'out'}"])
    assert ended.value.code == 0
    assert len(log(tmp_path / "out")) == 1


def test_mistakes_end_with_a_sentence(digits_release, runs, tmp_path, capsys):
    assert run(digits_release, runs / "ce", "--method=crl", "--rate=0.03") == 2
    assert "another method" in capsys.readouterr().err
    assert run(digits_release, tmp_path / "a", "--method=energy") == 2
    assert "--init" in capsys.readouterr().err
    assert run(digits_release, tmp_path / "b", "--method=energy", f"--init={tmp_path / 'none.safetensors'}") == 2
    assert "none.safetensors" in capsys.readouterr().err
    assert run(tmp_path, tmp_path / "c") == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert run(digits_release, tmp_path / "d", "--method=oe", "--external=nowhere") == 2
    assert "nowhere" in capsys.readouterr().err
    assert run(digits_release, tmp_path / "e", "--rate=1e30") == 2
    assert "--rate" in capsys.readouterr().err
