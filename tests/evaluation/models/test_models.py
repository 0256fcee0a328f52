"""Opening models: by name from timm and torchvision, from a file, with the preprocessing that belongs to each."""

import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch", reason="opens torch models")
nn = torch.nn
timm = pytest.importorskip("timm", reason="opens timm's models")
torchvision = pytest.importorskip("torchvision", reason="opens torchvision's models")

from tests.evaluation import small_models  # noqa: E402
from tests.evaluation.refusals import refusal  # noqa: E402
from tests.evaluation.small_models import of_seed  # noqa: E402
from unknown_detection.evaluation.errors import EvaluationError  # noqa: E402
from unknown_detection.evaluation.models.models import open_model, pick_device  # noqa: E402
from unknown_detection.evaluation.models.preprocessing import of_declaration, of_torchvision  # noqa: E402

FILE = Path(small_models.__file__)
PLAIN = {"size": 8, "mean": [0, 0, 0], "std": [1, 1, 1]}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def weights(tmp_path):
    """Saves weights of a model and gives their path."""

    def save(model):
        torch.save(model.state_dict(), tmp_path / "weights.pt")
        return tmp_path / "weights.pt"

    return save


def picture(width=40, height=30, mode="RGB"):
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
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


def test_declared_preprocessing(weights):
    """By hand with Pillow: 8 of 0.875 is 9 pixels, 6 x 8 of the middle; then / 255, less the mean, by the std."""
    model = open_model(f"{FILE}:of_three", weights(small_models.of_three()), "abc", device="cpu")
    tensor = model.preprocessing(picture(mode="L"))
    middle = picture(mode="L").convert("RGB").resize((12, 9), Image.Resampling.NEAREST).crop((2, 2, 10, 8))
    expected = np.asarray(middle) / 255
    assert np.allclose(tensor.numpy(), expected.transpose(2, 0, 1), atol=1e-6)
    assert model.layers.blocks == ("0", "1")
    normal = open_model(f"{FILE}:cnn", weights(of_seed(small_models.cnn, num_classes=4)), "abcd", device="cpu")
    values = np.asarray(picture(8, 8)) / 255
    declared = small_models.PREPROCESSING
    expected = ((values - declared["mean"]) / declared["std"]).transpose(2, 0, 1)
    assert np.allclose(normal.preprocessing(picture(8, 8)).numpy(), expected, atol=1e-5)
    assert [normal.preprocessing.description[name] for name in ("mean", "std")] == [declared["mean"], declared["std"]]


def test_a_declared_resize_and_crop():
    """By hand with Pillow: the shorter side to 20 pixels, then 8 x 8 of the middle."""
    preprocessing = of_declaration({**small_models.PREPROCESSING, "resize": 20}, "it")
    values = np.asarray(picture(40, 30).resize((26, 20), Image.Resampling.BILINEAR).crop((9, 6, 17, 14))) / 255
    expected = (values - small_models.PREPROCESSING["mean"]) / small_models.PREPROCESSING["std"]
    assert np.allclose(preprocessing(picture(40, 30)).numpy(), expected.transpose(2, 0, 1), atol=1e-5)
    assert preprocessing.description["resize"] == 20
    assert "resize" not in of_declaration(small_models.PREPROCESSING, "it").description
    for wrong in (7, "20", [20, 20]):
        with pytest.raises(EvaluationError, match="must be a number of pixels of at least 8"):
            of_declaration({**small_models.PREPROCESSING, "resize": wrong}, "it")


@pytest.mark.parametrize("size", [(300, 200), (90, 410), (256, 256), (225, 224)])
def test_without_resize_the_middle_is_cropped_as_torchvision_and_timm_do(size):
    """Bit for bit torchvision's preset for classification and timm's transform, each with its own default resize."""
    from torchvision.transforms._presets import ImageClassification

    usual = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    tensor = of_declaration({"size": 224, **usual}, "it")(picture(*size))
    assert torch.equal(tensor, ImageClassification(crop_size=224, **usual)(picture(*size)))
    tensor = of_declaration({"size": 224, "interpolation": "bicubic", **usual}, "it")(picture(*size))
    of_timm = timm.data.create_transform(224, is_training=False, interpolation="bicubic", **usual)
    assert torch.equal(tensor, of_timm(picture(*size)))


def test_without_resize_images_of_the_input_s_size_are_taken_as_stored():
    """CIFAR's images, for instance, of which a crop of 32 out of 36 pixels would lose the edge."""
    preprocessing = of_declaration({**small_models.PREPROCESSING, "size": 32}, "it")
    assert np.array_equal(preprocessing(noise(32, 32)).numpy(), normalized(noise(32, 32), preprocessing))
    assert preprocessing.description["crop_pct"] == 0.875


def standardized(image):
    """Each image less its own mean, by its own standard deviation."""
    values = torchvision.transforms.functional.to_tensor(image.resize((8, 6)))
    return (values - values.mean()) / (values.std() + 1)


def test_any_callable_is_a_preprocessing():
    """Its size, mean and standard deviation are those of the steps that it is composed of."""
    entry = torchvision.models.ResNet50_Weights.IMAGENET1K_V2.transforms()
    preprocessing = of_declaration(entry, "it")
    assert torch.equal(preprocessing(picture(300, 200, "L")), entry(picture(300, 200, "L").convert("RGB")))
    assert preprocessing.size == (224, 224)
    np.testing.assert_allclose(preprocessing.description["mean"], entry.mean, atol=1e-6)
    np.testing.assert_allclose(preprocessing.description["std"], entry.std, atol=1e-6)
    expected = normalized(noise(224, 224), of_torchvision(torchvision.models.ResNet50_Weights.IMAGENET1K_V2))
    np.testing.assert_allclose(preprocessing.prepared(224)(noise(224, 224)).numpy(), expected, atol=1e-5)
    assert "0x" not in preprocessing.description["from"]
    assert "\n" not in preprocessing.description["from"]


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
    "steps",
    [["ToTensor"], ["Grayscale", "ToTensor"], ["PILToTensor"], []],
    ids=["of two sizes", "grey", "of bytes", "images"],
)
def test_callables_that_give_no_input_of_a_model(steps):
    made = [getattr(torchvision.transforms, name)() for name in steps]
    size = [] if steps == ["ToTensor"] else [torchvision.transforms.Resize((8, 8))]
    with pytest.raises(EvaluationError, match="must turn every RGB image into a float32 tensor of one shape"):
        of_declaration(torchvision.transforms.Compose([*size, *made]), "it")


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


def noise(width, height):
    """A picture that any resize changes."""
    return Image.fromarray(np.random.default_rng(width * height).integers(0, 256, (height, width, 3), np.uint8))


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
    ]
    for side, preprocessing in usual:
        stored = noise(side, side)
        prepared = preprocessing.prepared(side)(stored).numpy()
        assert np.array_equal(prepared, normalized(stored, preprocessing))
        assert preprocessing.describe_prepared(side) == f"{side} x {side} pixels as stored"
    for side, preprocessing in usual[:2]:
        assert not np.array_equal(
            preprocessing(noise(side, side)).numpy(), normalized(noise(side, side), preprocessing)
        )


@pytest.mark.parametrize(("side", "other"), [(224, 384), (384, 224)])
def test_images_prepared_for_another_model_are_resized_whole(side, other):
    """Against Pillow's own resize of the whole image, and no crop; the two models of BROAD."""
    resnet = of_torchvision(torchvision.models.ResNet50_Weights.IMAGENET1K_V1)
    vit = of_torchvision(torchvision.models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1)
    preprocessing, filter_ = {224: (resnet, Image.Resampling.BILINEAR), 384: (vit, Image.Resampling.BICUBIC)}[other]
    prepared = preprocessing.prepared(side)(noise(side, side)).numpy()
    assert np.array_equal(prepared, normalized(noise(side, side).resize((other, other), filter_), preprocessing))
    way = f"{side} x {side} pixels resized to {other} x {other} ({filter_.name.lower()})"
    assert preprocessing.describe_prepared(side) == way


def test_prepared_images_for_a_model_that_is_not_square():
    preprocessing = of_declaration(small_models.of_three.preprocessing, "of_three")
    assert tuple(preprocessing.prepared(8)(noise(8, 8)).shape) == (3, 6, 8)
    assert preprocessing.describe_prepared(8) == "8 x 8 pixels resized to 8 x 6 (nearest)"


def test_prepared_images_of_another_size_are_refused():
    prepared = pickle.loads(pickle.dumps(of_declaration(small_models.PREPROCESSING, "cnn").prepared(8)))
    with pytest.raises(EvaluationError, match=r"it has 9 x 8 pixels, .* prepared for 8 x 8"):
        prepared(noise(9, 8))


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
    copy.write_bytes(FILE.read_bytes().replace(b'"size": 8', b'"size": 9'))
    assert open_model(f"{copy}:cnn", path, "abcd", device="cpu").digest != digest
    assert open_model(f"{FILE}:cnn", weights(of_seed(small_models.cnn, 1, num_classes=4)), "abcd").digest != digest


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("resnet18", "resnet18 does not name a model; write timm:NAME"),
        ("other:resnet18", "other:resnet18 does not name a model; write"),
        ("timm:resnet18d_", "timm has no model 'resnet18d_'; the closest names are resnet18d"),
        ("timm:hf_hub:someone/model", "timm has no model 'hf_hub:someone/model'"),
        ("timm:xqzj", r"`timm.list_models\(\)` lists all"),
        ("torchvision:resnet19", "the closest names are resnet18"),
        ("torchvision:resnet18.IMAGENET1K_V7", "torchvision weights has no model 'IMAGENET1K_V7'; the closest"),
        ("torchvision:fcn_resnet50", "torchvision has no model 'fcn_resnet50'"),
        ("nowhere.py:cnn", "There is no file nowhere.py"),
        (f"{FILE}:cmm", "'cmm' is not a name in .*small_models.py; choose one of"),
        (f"{FILE}:PREPROCESSING", "is a dict, not a function; name one that returns a model"),
        (f"{FILE}:no_model", "small_models.py:no_model returns a dict, not a torch.nn.Module; return"),
        (f"{FILE}:without_preprocessing", "needs an attribute `preprocessing` .* .found: none"),
        (f"{FILE}:of_three", "has 3 logits, but the config has 4 classes"),
    ],
)
def test_models_that_cannot_be_opened(tmp_path, spec, sentence):
    with pytest.raises(EvaluationError, match=sentence):
        open_model(spec, tmp_path / "weights.pt", "abcd")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"size": 8}, "found: size"),
        ([8], "found: a list"),
        ({"size": 8, "mean": [0], "std": [1]}, r"mean \[0.0\]"),
        ({"size": [8], "mean": [0, 0, 0], "std": [1, 1, 1]}, r"size \[8\]"),
        ({"size": 8, "mean": [0, 0, 0], "std": [1, 0, 1]}, r"std \[1.0, 0.0, 1.0\]"),
        ({**PLAIN, "interpolation": "cubic"}, "an interpolation; the closest names are bicubic"),
    ],
    ids=lambda value: None if isinstance(value, str) else "values",
)
def test_declarations_that_are_none(values, sentence):
    with pytest.raises(EvaluationError, match=sentence):
        of_declaration(values, "it")


def test_devices_of_a_machine_with_two_gpus_and_of_one_with_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == pick_device("cpu") == "cpu"
    for device in ("cuda", "cuda:1"):
        with pytest.raises(EvaluationError, match="finds no CUDA device; give --device cpu"):
            pick_device(device)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [pick_device(device) for device in ("auto", "cuda", "cuda:1", "cpu")] == ["cuda", "cuda", "cuda:1", "cpu"]
    with pytest.raises(EvaluationError, match=r"There is no cuda:2: torch finds 2 CUDA devices"):
        pick_device("cuda:2")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert pick_device("mps") == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(EvaluationError, match="finds no GPU of Apple; give --device cpu"):
        pick_device("mps")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", "", "mps:0", "cpu\n"])
def test_what_is_no_device(device):
    with pytest.raises(EvaluationError, match="is no device; give --device auto, cpu, cuda, cuda:1"):
        pick_device(device)


def plain(*layers, width=4):
    """A convolution, some layers, the mean of pixels, and four logits."""
    return nn.Sequential(nn.Conv2d(3, width, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 4))


def opened(module):
    return open_model(module, None, "abcd", preprocessing=PLAIN, device="cpu")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_module_of_16_bits_is_run_in_32(dtype):
    """Its numbers are float32's, too; the module itself stays as it is."""
    module = of_seed(plain).to(dtype)
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(opened(module).forward(images).logits, copy.deepcopy(module).float()(images))
    assert module[0].weight.dtype == dtype


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
