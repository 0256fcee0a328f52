"""BigGAN-deep: its tensors, its images against the old package's, its noise, and folders that are refused."""

import hashlib
import importlib.metadata
import importlib.util
import io
import math
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra generate is not installed")

from scipy.stats import kstest, truncnorm  # noqa: E402
from timm.data import ImageNetInfo  # noqa: E402

from builders.errors import BuildError  # noqa: E402
from builders.generate.contract import SourceImage  # noqa: E402
from builders.generate.synthetic import biggan  # noqa: E402
from builders.generate.synthetic import demo as tiny  # noqa: E402
from builders.generate.synthetic import stable_diffusion as sd  # noqa: E402
from builders.generate.synthetic.biggan_network import BigGANNetwork, Sizes  # noqa: E402
from taxonomy import tables  # noqa: E402
from tests.sentences import assert_sentence, stops  # noqa: E402

CONFIG = {
    # The published config.json of biggan-deep-256, but for the first three.
    "z_dim": 6,
    "class_embed_dim": 6,
    "channel_width": 4,
    "output_dim": 256,
    "num_classes": 1000,
    "layers": [
        *([False, 16, 16], [True, 16, 16], [False, 16, 16], [True, 16, 8], [False, 8, 8], [True, 8, 8]),
        *([False, 8, 8], [True, 8, 4], [False, 4, 4], [True, 4, 2], [False, 2, 2], [True, 2, 1]),
    ],
    "attention_layer_position": 8,
    "eps": 0.0001,
    "n_stats": 51,
}


def wheel(monkeypatch):
    """The package that the weights were published for, whose downloads need boto3; none are made."""
    if importlib.util.find_spec("pytorch_pretrained_biggan") is None:
        pytest.skip("pip install --no-deps pytorch-pretrained-biggan")
    if importlib.util.find_spec("boto3") is None:
        for name in ("boto3", "botocore", "botocore.exceptions"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
            vars(sys.modules[name])["ClientError"] = OSError
    return importlib.import_module("pytorch_pretrained_biggan")


def test_the_published_network_has_the_published_tensors():
    shapes = {name: tuple(tensor.shape) for name, tensor in BigGANNetwork(Sizes()).state_dict().items()}
    assert biggan.SIDE == 256
    # By hand: 12 blocks of 4 convolutions (weight, u, v, bias) and 4 normalisations (2 statistics, 2 x 3), the
    # attention's 4 convolutions (weight, u, v) and gamma, the embedding, gen_z, the last normalisation, RGB.
    assert len(shapes) == 12 * (4 * 4 + 4 * (2 + 2 * 3)) + 4 * 3 + 1 + 1 + 4 + 4 + 4 == 602
    # float32; the published file has 234,411,737 bytes, and names and offsets for each tensor take some hundred.
    assert 0 < 234_411_737 - 4 * sum(map(math.prod, shapes.values())) < 602 * 400
    by_hand = {
        "embeddings.weight": (128, 1000),
        "generator.gen_z.weight_orig": (4 * 4 * 16 * 128, 128 + 128),
        "generator.layers.0.conv_0.weight_orig": (512, 2048, 1, 1),
        "generator.layers.3.conv_3.weight_orig": (1024, 512, 1, 1),
        "generator.layers.3.bn_3.offset.weight_v": (256,),
        "generator.layers.8.snconv1x1_theta.weight_orig": (64, 512, 1, 1),
        "generator.layers.8.snconv1x1_o_conv.weight_v": (256,),
        "generator.layers.9.conv_1.weight_v": (128 * 3 * 3,),  # the block behind the attention
        "generator.layers.12.bn_3.running_means": (51, 64),
        "generator.conv_to_rgb.weight_orig": (128, 128, 3, 3),
    }
    assert {name: shapes[name] for name in by_hand} == by_hand


@pytest.mark.parametrize("truncation", [0.4, 1.0])
def test_images_are_those_of_the_old_package(monkeypatch, truncation):
    package = wheel(monkeypatch)
    tensors = tiny.biggan_tensors()
    sizes = Sizes.of(tensors)
    theirs = package.BigGAN(package.BigGANConfig.from_dict(CONFIG)).eval()
    theirs.load_state_dict(tensors, strict=True)
    noise = torch.from_numpy(np.stack([biggan.truncated_noise(seed, sizes.noise, truncation) for seed in (1, 2)]))
    classes = torch.tensor([3, 997])
    with torch.inference_mode():
        expected = theirs(noise, torch.nn.functional.one_hot(classes, 1000).float(), truncation)
        images = BigGANNetwork.of(tensors, truncation, "cpu")(noise, classes)
    assert images.shape == (2, 3, 256, 256)
    assert expected.std() > 0.1, "flat images would agree anyway"
    assert torch.allclose(images, expected, atol=1e-4)
    ours = biggan.as_pixels(images.numpy())
    for pixels, image in zip(ours, package.convert_to_images(expected), strict=True):
        # A number at the edge between two steps may fall on either side.
        steps = np.abs(pixels.astype(int) - np.asarray(image))
        assert steps.max() <= 1 and (steps > 0).mean() < 0.02


def test_pixels_by_hand():
    values = np.array([-1, -0.9999, 0, 0.5, 0.99999, 1], np.float32).reshape(1, 1, 1, 6).repeat(3, axis=1)
    # floor((x + 1) / 2 * 256), at most 255.
    assert biggan.as_pixels(values)[0, 0, :, 0].tolist() == [0, 0, 128, 192, 255, 255]


def test_noise_follows_the_truncated_normal_law_and_the_reference():
    drawn = np.concatenate([biggan.truncated_noise(seed, 128, 0.4) for seed in range(100)])
    assert drawn.dtype == np.float32 and np.abs(drawn).max() <= np.float32(0.8)
    assert kstest(drawn, truncnorm(-2, 2, scale=0.4).cdf).pvalue > 0.01
    # The call of the package, with the same state.
    seed = 2**40 + 7
    state = np.random.RandomState([7, 2**8])
    expected = 0.4 * truncnorm.rvs(-2, 2, size=128, random_state=state).astype(np.float32)
    assert np.allclose(biggan.truncated_noise(seed, 128, 0.4), expected, rtol=1e-6, atol=0)


def test_names_of_classes_are_those_of_the_synset_mapping():
    # timm has a copy of the mapping's second column.
    info = ImageNetInfo()
    for row in tables.imagenet1k():
        assert ", ".join(sd.class_names(row.wnid)) == info.index_to_description(row.index, detailed=False)
    assert sd.class_names("n02012849") == sd.class_names("n03126707") == ("crane",)
    assert set(sd.class_names("n03710637")) & set(sd.class_names("n03710721")) == {"maillot"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.write_biggan(tmp_path_factory.mktemp("biggan"))


def rows(*names):
    return [SourceImage(f"biggan/{name}#biggan-deep-256", name[:9], "", None, b"") for name in names]


def test_images_depend_on_their_row_alone(folder):
    generator = biggan.with_weights(str(folder), "cpu")
    sources = rows("n01440764/00", "n01440764/01", "n15075141/00")
    together = generator.start(generator)(sources)
    alone = [generator.start(generator)([source])[0] for source in reversed(sources)][::-1]
    for source, image, other in zip(sources, together, alone, strict=True):
        assert image.pixels.shape == (256, 256, 3)
        # By a level at most: a CPU may add up in another order in a batch of another size.
        assert np.abs(image.pixels.astype(int) - other.pixels).max() <= 1
        assert image.values == other.values == {"seed": source.seed}
    assert not np.array_equal(together[0].pixels, together[1].pixels)


def test_what_is_recorded(folder):
    generator = biggan.with_weights(str(folder), "cpu")
    entry = generator.entry()
    assert entry.reproducible == "recorded"
    assert entry.parameters == {
        "truncation": 0.4,
        "batch_size": 16,
        "dtype": "float32",
        "device": "cpu",
        "torch": importlib.metadata.version("torch"),
    }
    digest = hashlib.sha256((folder / "pytorch_model.bin").read_bytes()).hexdigest()
    assert entry.weights == {"biggan/pytorch_model.bin": digest}
    assert generator == biggan.with_weights(str(folder), "cpu"), "a worker loads the weights once"


def refused(folder):
    with pytest.raises(BuildError) as caught:
        generator = biggan.with_weights(str(folder), "cpu")
        generator.start(generator)
    message = str(caught.value)
    assert str(folder) in message and "\n" not in message
    return message


def test_a_folder_without_weights_is_refused(tmp_path):
    message = refused(tmp_path)
    assert_sentence(message, biggan.WEIGHTS, tmp_path, "--biggan DIR")


def test_biggan_deep_128_is_refused(tmp_path):
    tensors = tiny.biggan_tensors()
    less = {name: tensor for name, tensor in tensors.items() if not name.startswith("generator.layers.12.")}
    assert "48 missing (generator.layers.12.bn_0.offset.weight_orig, " in refused(tiny.write_biggan(tmp_path, less))


def test_other_tensors_are_refused(tmp_path):
    tensors = tiny.biggan_tensors()
    name = "generator.layers.9.conv_1.weight_u"
    renamed = {key.replace("_orig", ""): value for key, value in tensors.items() if not key.endswith(("_u", "_v"))}
    cases = {
        f"1 missing ({name})": {key: value for key, value in tensors.items() if key != name},
        "1 unknown to it (extra)": tensors | {"extra": torch.zeros(1)},
        f"1 of another shape ({name} 1 for ": tensors | {name: torch.zeros(1)},
        "unknown to it (generator.conv_to_rgb.weight": renamed,
    }
    sizes = (
        ("embeddings.weight", (300, 1000)),  # more than the noise and the embedding have together
        ("generator.bn.weight", (0,)),
    )
    contents = [*cases.items(), *(("of another shape (", tensors | {key: torch.zeros(shape)}) for key, shape in sizes)]
    for number, (problem, content) in enumerate(contents):
        message = refused(tiny.write_biggan(tmp_path / str(number), content))
        assert problem in message
        assert_sentence(message, "602")


def test_damaged_weights_and_code_in_them_are_refused(folder, tmp_path):
    good, code = (folder / biggan.WEIGHTS).read_bytes(), io.BytesIO()
    torch.save({"embeddings.weight": print}, code)
    cut, flipped = good[: len(good) // 2], good[:100] + b"\xff" * 100 + good[200:]
    torch.save([1, 2, 3], tmp_path / biggan.WEIGHTS)
    assert "is not a state dict of tensors. Download the weights again." in refused(tmp_path)
    for data in (b"", b"not a state dict", cut, flipped, code.getvalue()):
        (tmp_path / biggan.WEIGHTS).write_bytes(data)
        assert f"can read {tmp_path / biggan.WEIGHTS}. Download the weights again." in refused(tmp_path)


def test_weights_that_changed_since_the_start_are_refused(tmp_path):
    generator = biggan.with_weights(str(tiny.write_biggan(tmp_path)), "cpu")
    tiny.write_biggan(tmp_path, tiny.biggan_tensors(seed=1))
    with stops(BuildError, "biggan/pytorch_model.bin"):
        generator.start(generator)


def test_too_little_memory_is_said_in_a_sentence(folder):
    class Full(BigGANNetwork):
        def forward(self, noise, classes):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    network = Full.of(tiny.biggan_tensors(), 0.4, "cpu")
    with stops(BuildError, "GPU", "--device"):
        biggan._generate(network, rows("n01440764/00"))


def test_without_the_extra_or_a_device_it_says_so(folder, monkeypatch):
    if not torch.cuda.is_available():
        with stops(BuildError, "CUDA", "--device"):
            biggan.with_weights(str(folder), "cuda")
    monkeypatch.setattr(biggan, "BIGGAN", replace(biggan.BIGGAN, requires=("torch", "no_such_package")))
    with stops(BuildError, "no_such_package"):
        biggan.with_weights(str(folder), "cpu")
