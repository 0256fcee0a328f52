"""Opening models: by name from timm and torchvision, from a file, with the preprocessing that belongs to each."""

import copy
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch", reason="opens torch models")
nn = torch.nn
timm = pytest.importorskip("timm", reason="opens timm's models")
torchvision = pytest.importorskip("torchvision", reason="opens torchvision's models")

import unknown_detection as ud  # noqa: E402
from tests.evaluation import small_models  # noqa: E402
from tests.evaluation.refusals import refusal  # noqa: E402
from tests.evaluation.samples import CONFIG, LABELS  # noqa: E402
from tests.evaluation.small_models import of_seed  # noqa: E402
from unknown_detection.evaluation.__main__ import main  # noqa: E402
from unknown_detection.evaluation.errors import EvaluationError, EvaluationWarning  # noqa: E402
from unknown_detection.evaluation.models.models import open_model, pick_device  # noqa: E402
from unknown_detection.evaluation.models.preprocessing import of_declaration, of_torchvision  # noqa: E402

FILE = Path(small_models.__file__)
MEAN, STD = small_models.MEAN, small_models.STD


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def weights(tmp_path):
    """Saves weights of a model and gives their path."""

    def save(model):
        torch.save(model.state_dict(), tmp_path / "weights.pt")
        return tmp_path / "weights.pt"

    return save


def picture(width=40, height=30, mode="RGB"):
    """Noise, which any resize changes."""
    values = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


def test_a_model_from_a_file(weights):
    made = of_seed(small_models.cnn, num_classes=4)
    model = open_model(f"{FILE}:cnn", weights(made), "abcd", device="cpu")
    images = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    outputs = model.forward(images)
    with torch.no_grad():
        first = made.layer1(images)
        second = made.layer2(first).mean((2, 3))
        assert torch.equal(outputs.blocks["layer1"], first.mean((2, 3)))
        assert torch.equal(outputs.blocks["layer2"], second)
        assert torch.equal(outputs.penultimate, second)
        assert torch.equal(outputs.logits, made(images))
    assert np.array_equal(model.head.weight, made.fc.weight.detach().numpy())
    assert np.array_equal(model.head.bias, made.fc.bias.detach().numpy())
    assert not model.module.training
    assert not any(parameter.requires_grad for parameter in model.module.parameters())


def test_a_model_that_is_another_at_every_call_is_refused(weights):
    path = weights(of_seed(small_models.noisy, num_classes=4))
    with pytest.raises(EvaluationError, match=r"noisy gives other logits .* at every run, .*\. Take the random"):
        open_model(f"{FILE}:noisy", path, "abcd", device="cpu")


def test_preprocessing_of_a_file_is_its_function_s_or_its_module_s(weights):
    """By hand with Pillow, less the mean, by the std; what is seen of a callable has both."""
    model = open_model(f"{FILE}:of_three", weights(small_models.of_three()), "abc", device="cpu")
    expected = np.asarray(picture(mode="L").convert("RGB").resize((8, 6), Image.Resampling.BILINEAR)) / 255
    assert np.allclose(model.preprocessing(picture(mode="L")).numpy(), expected.transpose(2, 0, 1), atol=1e-6)
    assert model.layers.blocks == ("0", "1")
    preprocessing = open_model(f"{FILE}:cnn", weights(of_seed(small_models.cnn, num_classes=4)), "abcd").preprocessing
    assert np.allclose(preprocessing(picture(8, 8)).numpy(), normalized(picture(8, 8), preprocessing), atol=1e-5)
    assert [preprocessing.description[name] for name in ("mean", "std")] == [MEAN, STD]


def standardized(image):
    """Each image less its own mean, by its own standard deviation."""
    values = torchvision.transforms.functional.to_tensor(image.resize((8, 6)))
    return (values - values.mean()) / (values.std() + 1)


def test_a_preset_of_torchvision_says_what_it_does():
    """As one of weights, as what it returns, and within a callable, whose size, mean and deviation are seen."""
    entry = torchvision.models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1
    transform = entry.transforms()
    for declared in (entry, transform, lambda image: transform(image)):
        preprocessing = of_declaration(declared, "it")
        assert torch.equal(preprocessing(picture(300, 200, "L")), transform(picture(300, 200, "L").convert("RGB")))
        assert preprocessing.size == (384, 384)
        np.testing.assert_allclose(preprocessing.description["mean"], transform.mean, atol=1e-6)
        np.testing.assert_allclose(preprocessing.description["std"], transform.std, atol=1e-6)
        assert ("crop_size" in preprocessing.description) == (declared in (entry, transform))
    described = of_declaration(torchvision.transforms.Compose([transform]), "it").description["from"]
    assert "0x" not in described and "\n" not in described


def test_a_callable_that_normalizes_in_another_way():
    preprocessing = of_declaration(standardized, "it")
    assert {name: preprocessing.description[name] for name in ("from", "size")} == {
        "from": "standardized",
        "size": [6, 8],
    }
    assert not {"mean", "std"} & preprocessing.description.keys()
    assert torch.equal(preprocessing(picture()), standardized(picture()))
    for ask in (lambda: preprocessing.of_channels("std"), lambda: preprocessing.prepared(8)):
        with pytest.raises(EvaluationError, match="preprocessing standardized does not normalize channels by a mean"):
            ask()


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 0, 2], [0, 2, 1]])
def test_functions_of_one_name_are_told_apart_by_what_they_make_of_a_picture(order):
    """Else kept features of one would be taken for those of the other: RGB for BGR, for instance, of OpenCV."""

    def described(by=2, of=(0, 1, 2)):
        to_tensor = torchvision.transforms.ToTensor()
        return of_declaration(lambda image: to_tensor(image.resize((8, 8), by))[list(of)], "it").description

    assert described(0)["from"] == described(2)["from"]
    assert described(0) == described(0) != described(2) != described(of=order)


def test_a_preprocessing_for_training_is_refused():
    steps = [torchvision.transforms.Resize((8, 8)), torchvision.transforms.RandomHorizontalFlip(0.7)]
    torch.manual_seed(0)  # without, one run in 17 would draw eight equal flips
    with pytest.raises(EvaluationError, match=r"another tensor of an image at every call\. Give the one"):
        of_declaration(torchvision.transforms.Compose([*steps, torchvision.transforms.ToTensor()]), "it")


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (["ToTensor"], r"a torch.float32 tensor of shape \(3, 30, 40\) and a torch.float32 tensor of shape"),
        (["Resize", "Grayscale", "ToTensor"], r"a torch.float32 tensor of shape \(1, 8, 8\)"),
        (["Resize", "PILToTensor"], r"a torch.uint8 tensor of shape \(3, 8, 8\)"),
        (["Resize"], "an Image"),
    ],
    ids=["of two sizes", "grey", "of bytes", "images"],
)
def test_callables_that_give_no_input_of_a_model(steps, found):
    made = [getattr(torchvision.transforms, name)(*[(8, 8)] * (name == "Resize")) for name in steps]
    sentence = rf"must turn every RGB image into a float32 tensor of one shape \(3, height, width\), but makes {found}"
    with pytest.raises(EvaluationError, match=sentence):
        of_declaration(torchvision.transforms.Compose(made), "it")


def test_a_model_of_timm(weights):
    """The transform is timm's own for evaluating, made here from its config of the model."""
    made = of_seed(timm.create_model, model_name="resnet10t", num_classes=4)
    model = open_model("timm:resnet10t", weights(made), "abcd", device="cpu")
    config = timm.data.resolve_data_config({}, model=made)
    transform = timm.data.create_transform(**config, is_training=False)
    image = transform(picture(300, 200))
    assert torch.equal(model.preprocessing(picture(300, 200)), image)
    with torch.no_grad():
        assert torch.allclose(model.forward(image[None]).logits, made(image[None]))
    assert model.preprocessing.description["crop_pct"] == config["crop_pct"]


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


def normalized(image, preprocessing):
    """Pixels / 255, less the mean, by the std: in float32, operation by operation."""
    values = np.asarray(image).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    mean, std = (np.array(preprocessing.description[name], np.float32)[:, None, None] for name in ("mean", "std"))
    return (values - mean) / std


def test_prepared_images_are_what_is_stored(weights):
    """Bit for bit, where the usual geometry (timm: 168 and 160 pixels; torchvision: 256 and 224) changes them."""
    tiny = of_seed(timm.create_model, model_name="test_resnet", num_classes=4)
    usual = [
        (160, open_model("timm:test_resnet", weights(tiny), "abcd", device="cpu").preprocessing),
        (224, of_torchvision(torchvision.models.ResNet50_Weights.IMAGENET1K_V1)),
        (384, of_torchvision(torchvision.models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1)),
        (8, of_declaration(small_models.PREPROCESSING, "cnn")),
        (224, of_declaration(torchvision.models.ResNet50_Weights.IMAGENET1K_V2.transforms(), "it")),
    ]
    for side, preprocessing in usual:
        stored = picture(side, side)
        prepared = preprocessing.prepared(side)(stored).numpy()
        assert np.array_equal(prepared, normalized(stored, preprocessing))
        assert preprocessing.describe_prepared(side) == f"{side} x {side} pixels as stored"
    for side, preprocessing in usual[:2]:
        assert not np.array_equal(
            preprocessing(picture(side, side)).numpy(), normalized(picture(side, side), preprocessing)
        )


@pytest.mark.parametrize(("side", "other"), [(224, 384), (384, 224)])
def test_images_prepared_for_another_model_are_resized_whole(side, other):
    """Against Pillow's own resize of the whole image, and no crop; the two models of BROAD."""
    resnet = of_torchvision(torchvision.models.ResNet50_Weights.IMAGENET1K_V1)
    vit = of_torchvision(torchvision.models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1)
    preprocessing, filter_ = {224: (resnet, Image.Resampling.BILINEAR), 384: (vit, Image.Resampling.BICUBIC)}[other]
    prepared = preprocessing.prepared(side)(picture(side, side)).numpy()
    assert np.array_equal(prepared, normalized(picture(side, side).resize((other, other), filter_), preprocessing))
    way = f"{side} x {side} pixels resized to {other} x {other} ({filter_.name.lower()})"
    assert preprocessing.describe_prepared(side) == way


def test_prepared_images_for_a_model_that_is_not_square():
    preprocessing = of_declaration(small_models.of_three.preprocessing, "of_three")
    assert tuple(preprocessing.prepared(8)(picture(8, 8)).shape) == (3, 6, 8)
    assert preprocessing.describe_prepared(8) == "8 x 8 pixels resized to 8 x 6 (bilinear)"


def test_prepared_images_of_another_size_are_refused():
    prepared = pickle.loads(pickle.dumps(of_declaration(small_models.PREPROCESSING, "cnn").prepared(8)))
    with pytest.raises(EvaluationError, match=r"it has 9 x 8 pixels, .* prepared for 8 x 8"):
        prepared(picture(9, 8))


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
    ("spec", "sentence"),
    [
        ("resnet18", "resnet18 does not name a model; write timm:NAME"),
        ("other:resnet18", "other:resnet18 does not name a model; write"),
        ("timm:resnet18d_", "'resnet18d_' is not a model of timm; the closest names are resnet18d"),
        ("timm:hf_hub:someone/model", "'hf_hub:someone/model' is not a model of timm"),
        ("timm:xqzj", r"choose one of \S+, \S+, \S+ and [\d,]+ more\."),
        ("torchvision:resnet19", "the closest names are resnet18"),
        (
            "torchvision:resnet18.IMAGENET1K_V7",
            "'IMAGENET1K_V7' is not a tag of torchvision's weights of resnet18; the closest",
        ),
        ("torchvision:fcn_resnet50", "'fcn_resnet50' is not a model of torchvision"),
        ("nowhere.py:cnn", "There is no file nowhere.py"),
        (f"{FILE}:cmm", "'cmm' is not a name in .*small_models.py; choose one of"),
        (f"{FILE}:MEAN", "is a list, not a function; name one that returns a model"),
        (f"{FILE}:no_model", "small_models.py:no_model returns a dict, not a torch.nn.Module; return"),
        (f"{FILE}:without_preprocessing", "does not say how images become its input. Give preprocessing="),
        (f"{FILE}:of_mapping", r"Give preprocessing=, a function from a PIL image to a tensor \(a dict is none\), or"),
        (f"{FILE}:cnn", r"There is no weights file .*weights.pt.*pretrained=True"),
    ],
)
def test_models_that_cannot_be_opened(tmp_path, spec, sentence):
    with pytest.raises(EvaluationError, match=sentence):
        open_model(spec, tmp_path / "weights.pt", "abcd")


def test_a_model_of_other_classes_and_a_function_of_other_weights(weights):
    with pytest.raises(EvaluationError, match=r"of_three has 3 logits, but the config has 4 .* with classes="):
        open_model(f"{FILE}:of_three", weights(small_models.of_three()), "abcd")
    with pytest.raises(EvaluationError, match=r"cnn has 9 logits, but the config has 4 classes"):
        open_model(f"{FILE}:cnn", weights(of_seed(small_models.cnn, num_classes=9)), "abcd")
    with pytest.raises(EvaluationError, match=r"cnn returns other weights at every call"):
        open_model(f"{FILE}:cnn", None, "abcd")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", "", "mps:1", "cpu\n", "meta"])
def test_what_is_no_device(device):
    assert re.search("is no device; give auto, cpu, cuda, cuda:1 .* as device=", refusal(pick_device, device))


def test_devices_that_this_machine_has_not():
    """Whatever torch says of them."""
    assert pick_device("cpu") == pick_device(torch.device("cpu")) == "cpu"
    assert pick_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    absent = ["cuda:99"] + ["mps"] * (not torch.backends.mps.is_available())
    absent += ["cuda"] * (not torch.cuda.is_available())
    for device in absent:
        assert re.search(f"torch cannot use {device}: .*Give cpu or auto as device=", refusal(pick_device, device))


def plain(*layers, width=4):
    """A convolution, some layers, the mean of pixels, and four logits."""
    return nn.Sequential(nn.Conv2d(3, width, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 4))


def opened(module, **options):
    return open_model(module, None, "abcd", **{"preprocessing": plain_pixels, "device": "cpu"} | options)


def plain_pixels(image):
    return torchvision.transforms.functional.to_tensor(image.resize((8, 8)))


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
    options = {"preprocessing": plain_pixels, "device": "cpu", "workers": 0}
    features = ud.extract(module, release, f"{CONFIG}/test,{CONFIG}-train", **options)
    scores = ud.score(features, "msp")
    logits = torch.from_numpy(features.features(CONFIG, "test").logits)
    np.testing.assert_allclose(scores["score"].to_numpy()[: len(logits)], 1 - logits.softmax(1).amax(1), rtol=1e-5)
    for name in ("mahalanobis_first", "oodl", "rankfeat"):
        with pytest.raises(EvaluationError, match=f"{name} needs features of the model's blocks, and there are none"):
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
    for layer, kind in ((nn.Softmax(1), "probabilities: "), (nn.LogSoftmax(1), "logarithms of probabilities: their")):
        with pytest.warns(EvaluationWarning, match=f"The outputs of Sequential are {kind}.*Energy means nothing"):
            model = opened(nn.Sequential(*plain(), layer))
        assert not model.layers.linear


class Autocast(nn.Sequential):
    """Multiplies in bfloat16."""

    def forward(self, images):
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(images).float()


def test_logits_that_were_computed_in_16_bits_are_refused():
    """In its forward pass, or around the call when the model runs."""
    assert re.search("Autocast computes in bfloat16, .* Take the autocast out", refusal(opened, Autocast(*plain())))
    model = opened(plain())
    with torch.autocast("cpu", torch.bfloat16):
        assert "Sequential computes in bfloat16" in refusal(model.forward, torch.zeros(2, 3, 8, 8))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_module_on_a_gpu_is_run_there():
    """Another device can be named; the module is left where it is."""
    module = of_seed(plain).cuda()
    model = opened(module, device="auto")
    assert (model.device, next(model.module.parameters()).device.type) == ("cuda:0", "cuda")
    on_cpu = opened(module)
    assert (on_cpu.digest, on_cpu.probed, on_cpu.device) == (model.digest, model.probed, "cpu")
    assert next(module.parameters()).is_cuda


def test_the_module_in_data_parallel_is_the_model():
    module = of_seed(plain)
    assert opened(nn.DataParallel(module)).digest == opened(module).digest


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
    assert refusal(opened, module).startswith("The state dict has 1._extra_state, an object that is no JSON")


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (lambda: torch.jit.trace(of_seed(plain), torch.zeros(2, 3, 8, 8)), "TopLevelTracedModule is TorchScript"),
        (lambda: plain(nn.LazyConv2d(4, 3)), "Sequential has parameters without values, of lazy layers or on the"),
        (lambda: plain().to("meta"), "Sequential has parameters without values, of lazy layers or on the device meta"),
        (lambda: timm.create_model("resnet10t", in_chans=1, num_classes=4), r"of shape \(3, 8, 8\), .*: Given"),
        (lambda: nn.Linear(192, 4), "Linear cannot be run on images of shape .*: mat1 and mat2 shapes cannot be"),
        (lambda: plain(nn.BatchNorm2d(4, track_running_stats=False)), "gives an image other logits beside another"),
    ],
    ids=["TorchScript", "lazy", "meta", "channels", "no images", "batch"],
)
@pytest.mark.filterwarnings("ignore")
def test_modules_that_cannot_be_run_get_a_sentence(module, sentence):
    assert re.search(sentence, refusal(opened, module()))
