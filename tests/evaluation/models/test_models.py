"""Opening models: by name from timm and torchvision, from a file, with the preprocessing that belongs to each."""

import copy
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import unknown_detection as ud
from tests.evaluation import small_models
from tests.evaluation.extra import nn, timm, torch, torchvision
from tests.evaluation.models.test_preprocessing import picture
from tests.evaluation.refusals import refusal
from tests.evaluation.samples import CONFIG, LABELS
from tests.evaluation.small_models import eight, of_seed
from tests.sentences import stops
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.errors import EvaluationError, EvaluationWarning
from unknown_detection.evaluation.models.models import open_model, pick_device
from unknown_detection.evaluation.same import same_logits

FILE = Path(small_models.__file__)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def weights(tmp_path):
    """Saves weights of a model and gives their path."""

    def save(model):
        torch.save(model.state_dict(), tmp_path / "weights.pt")
        return tmp_path / "weights.pt"

    return save


def test_a_model_that_is_another_at_every_call_is_refused(weights):
    path = weights(of_seed(small_models.noisy, num_classes=4))
    with stops(EvaluationError):
        open_model(f"{FILE}:noisy", path, "abcd", device="cpu")


def test_a_model_of_timm(weights):
    """The transform is timm's own for evaluating, made here from its config of the model."""
    made = of_seed(timm.create_model, model_name="resnet10t", num_classes=4)
    config = timm.data.resolve_data_config({}, model=made)
    image = timm.data.create_transform(**config, is_training=False)(picture(300, 200))
    for spec, path in (("timm:resnet10t", weights(made)), (made, None)):
        model = open_model(spec, path, "abcd", device="cpu")
        assert torch.equal(model.preprocessing(picture(300, 200)), image)
        with torch.no_grad():
            assert torch.allclose(model.forward(image[None]).logits, made(image[None]))
        assert model.preprocessing.description["crop_pct"] == config["crop_pct"]
        assert model.name.endswith("resnet10t")


def test_models_of_torchvision(weights):
    """The transform is that of the entry of weights, whose sizes differ between MobileNetV2's two."""
    path = weights(of_seed(torchvision.models.mobilenet_v2, num_classes=4))
    entries = torchvision.models.MobileNet_V2_Weights
    digests = set()
    for spec, entry in (("mobilenet_v2", entries.DEFAULT), ("mobilenet_v2.IMAGENET1K_V1", entries.IMAGENET1K_V1)):
        model = open_model(f"torchvision:{spec}", path, "abcd", device="cpu")
        assert torch.equal(model.preprocessing(picture(300, 200)), entry.transforms()(picture(300, 200)))
        assert model.preprocessing.description["resize_size"] == entry.transforms().resize_size
        digests.add(model.digest)
    assert len(digests) == 2
    alone = refusal(open_model, torchvision.models.mobilenet_v2(num_classes=4), None, "abcd")
    assert re.search("MobileNetV2 does not say how .* Give preprocessing=, a function from", alone)


def test_the_digest_follows_weights_source_and_preprocessing(weights, tmp_path):
    """And neither the format of the weights nor the place of any file."""
    made = of_seed(small_models.cnn, num_classes=4)
    path = weights(made)
    digest = open_model(f"{FILE}:cnn", path, "abcd", device="cpu").digest
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file(made.state_dict(), tmp_path / "weights.safetensors")
    copy = tmp_path / FILE.name
    copy.write_bytes(FILE.read_bytes())
    assert open_model(f"{copy}:cnn", tmp_path / "weights.safetensors", "abcd", device="cpu").digest == digest
    assert open_model(f"{FILE}:with_dropout", path, "abcd", device="cpu").digest != digest
    copy.write_bytes(FILE.read_bytes().replace(b"(8, 8)", b"(8, 9)"))
    assert open_model(f"{copy}:cnn", path, "abcd", device="cpu").digest != digest
    assert open_model(f"{FILE}:cnn", weights(of_seed(small_models.cnn, 1, num_classes=4)), "abcd").digest != digest


@pytest.mark.parametrize(
    "spec",
    ["resnet18", "other:resnet18", "timm:resnet18d_", "torchvision:resnet19",
     "torchvision:resnet18.IMAGENET1K_V7", "torchvision:fcn_resnet50", "nowhere.py:cnn", f"{FILE}:cmm", f"{FILE}:MEAN",
     f"{FILE}:no_model", f"{FILE}:without_preprocessing", f"{FILE}:of_mapping", f"{FILE}:cnn"],
    ids=lambda spec: spec.rpartition("/")[2],
)  # fmt: skip
def test_models_that_cannot_be_opened(tmp_path, spec):
    with stops(EvaluationError):
        open_model(spec, tmp_path / "weights.pt", "abcd")


def test_a_name_that_timm_takes_for_a_repository_is_no_model_of_it(tmp_path):
    message = refusal(open_model, "timm:hf_hub:someone/model", tmp_path / "weights.pt", "abcd")
    assert re.match(r"'hf_hub:someone/model' is not a model of timm; choose one of .* and [\d,]+ more\.", message)


def test_a_model_of_other_classes_and_a_function_of_other_weights(weights):
    with stops(EvaluationError, "of_three"):
        open_model(f"{FILE}:of_three", weights(small_models.of_three()), "abcd")
    with stops(EvaluationError):
        open_model(f"{FILE}:cnn", weights(of_seed(small_models.cnn, num_classes=9)), "abcd")
    with stops(EvaluationError):
        open_model(f"{FILE}:cnn", None, "abcd")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", "", "mps:1"])
def test_what_is_no_device(device):
    with stops(EvaluationError, "device="):
        pick_device(device)


def test_devices_that_this_machine_has_not():
    """Whatever torch says of them."""
    assert pick_device("cpu") == pick_device(torch.device("cpu")) == "cpu"
    assert pick_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    absent = ["cuda:99"] + ["mps"] * (not torch.backends.mps.is_available())
    for device in absent + ["cuda"] * (not torch.cuda.is_available()):
        assert re.search(f"torch cannot use {device}: .*Give auto, cpu, .* as device=", refusal(pick_device, device))


def plain(*layers, width=4):
    """A convolution, some layers, the mean of pixels, and four logits."""
    return nn.Sequential(nn.Conv2d(3, width, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 4))


def opened(module, **options):
    return open_model(module, None, "abcd", **{"preprocessing": eight, "device": "cpu"} | options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_module_of_other_numbers_is_run_in_float32_and_this_is_said(dtype):
    """The module itself stays as it is, its mode and its gradients, too."""
    module = of_seed(plain).to(dtype).train()
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with pytest.warns(EvaluationWarning, match=f"The weights of Sequential are {dtype}; it is run in float32"):
        model = opened(module)
    assert torch.equal(model.forward(images).logits, copy.deepcopy(module).float()(images))
    assert module.training and module[0].weight.requires_grad and module[0].weight.dtype == dtype
    assert not model.module.training


def test_a_model_of_one_layer_is_evaluated_without_blocks(release):
    """msp against torch's softmax; a detector of blocks says what it lacks."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, len(LABELS)))
    options = {"preprocessing": eight, "device": "cpu", "workers": 0}
    features = ud.extract(module, release, f"{CONFIG}/test,{CONFIG}-train", **options)
    scores = ud.score(features, "msp")
    logits = torch.from_numpy(features.features(CONFIG, "test").logits)
    np.testing.assert_allclose(scores["score"].to_numpy()[: len(logits)], 1 - logits.softmax(1).amax(1), rtol=1e-5)
    for name in ("mahalanobis_first", "oodl", "rankfeat"):
        with stops(EvaluationError, name):
            ud.score(features, name, search=False)


def test_the_command_shows_a_warning_as_a_line(release, tmp_path, capsys):
    arguments = ["extract", "--release", str(release), "--splits", f"{CONFIG}/test", "--out", str(tmp_path / "out")]
    assert main([*arguments, "--model", f"{FILE}:probabilities", "--device", "cpu", "--workers", "0"]) == 0
    assert "\nwarning: The outputs of small_models.py:probabilities are" in "\n" + capsys.readouterr().err


def test_probabilities_in_place_of_logits_are_warned_of():
    """Energy, the logarithm of the sum of exponentials, is 0 for logarithms of probabilities, whatever the image."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", EvaluationWarning)
        opened(plain())
    for layer, kind in (
        (nn.Softmax(1), "probabilities: they"),
        (nn.LogSoftmax(1), "logarithms of probabilities: their"),
    ):
        with pytest.warns(EvaluationWarning, match=f"The outputs of Sequential are {kind}.*Energy means nothing"):
            model = opened(nn.Sequential(*plain(), layer))
        assert not model.layers.linear


class Autocast(nn.Sequential):
    """Multiplies in bfloat16."""

    def forward(self, images):
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(images).float()


def test_logits_that_were_computed_in_16_bits_are_refused():
    """In its forward pass, or around the call."""
    assert re.search("Autocast computes in bfloat16, .* Take the autocast out", refusal(opened, Autocast(*plain())))
    with torch.autocast("cpu", torch.bfloat16):
        assert "Sequential computes in bfloat16" in refusal(opened, plain())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_module_on_a_gpu_is_run_there():
    """Another device can be named; the module is left where it is."""
    module = of_seed(plain).cuda()
    model, on_cpu = opened(module, device="auto"), opened(module)
    assert (model.device, next(model.module.parameters()).device.type) == ("cuda:0", "cuda")
    assert (on_cpu.digest, on_cpu.probed, on_cpu.device) == (model.digest, model.probed, "cpu")
    assert next(module.parameters()).is_cuda


def test_rates_of_dropout_are_part_of_what_is_probed():
    """They are no weights and leave logits as they are, but mc_dropout's kept passes are of one rate."""
    probed = [opened(of_seed(small_models.Small, classes=4, dropout=rate)).probed for rate in (0.0, 0.45, 0.5)]
    logits = len(probed[0])
    assert [len(each) for each in probed] == [logits, 2 * logits, 2 * logits]
    assert probed[0] == probed[1][:logits] == probed[2][:logits]
    assert not same_logits(probed[1], probed[2])


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_the_module_that_is_wrapped_is_the_model(wrap):
    module = of_seed(plain)
    assert opened(wrap(module)).digest == opened(module).digest


class WithState(nn.Linear):
    """A layer whose state dict has more than tensors."""

    state: object = {"scale": 2}

    def get_extra_state(self):
        return self.state

    def set_extra_state(self, state):
        self.state = state


def test_extra_state_is_a_part_of_the_digest(monkeypatch):
    module = of_seed(lambda: nn.Sequential(plain(), WithState(4, 4)))
    first = opened(module).digest
    assert opened(module).digest == first
    monkeypatch.setattr(WithState, "state", {"scale": 3})
    assert opened(module).digest != first
    monkeypatch.setattr(WithState, "state", object())
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        opened(module)


def test_a_module_that_computes_over_the_batch_is_refused():
    with stops(EvaluationError):
        opened(plain(nn.BatchNorm2d(4, track_running_stats=False)))


def test_modules_of_other_inputs_are_said_to_be_in_torch_s_words():
    for module in (timm.create_model("resnet10t", in_chans=1, num_classes=4), nn.Linear(192, 4)):
        assert "images of shape (3, 8, 8), which its preprocessing makes: " in refusal(opened, module)


class Flat(nn.Module):
    """Returns four of its inputs as logits."""

    def forward(self, images):
        return images.flatten(1)[:, :4]


def test_modules_whose_layers_cannot_be_read_are_refused_in_a_sentence():
    """torch raises RuntimeError or NotImplementedError on the first three, from three places."""
    with warnings.catch_warnings(action="ignore"):  # torch deprecates it, and people have such files
        traced = torch.jit.trace(plain(), torch.zeros(2, 3, 8, 8))
    for given in (traced, nn.Sequential(nn.LazyLinear(4)), plain().to("meta")):
        message = refusal(opened, given)
        assert "is TorchScript, or has parameters without values" in message
    assert "has no layer with weights that gives features per image" in refusal(opened, Flat())
