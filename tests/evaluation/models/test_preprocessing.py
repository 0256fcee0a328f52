"""Preprocessing of callables, of torchvision's and timm's models and of prepared images; images that are none."""

import hashlib
import io
import pickle
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.evaluation.extra import timm, torch, torchvision
from tests.evaluation.refusals import refusal
from tests.evaluation.small_models import MEAN, PREPROCESSING, STD, of_three
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.images import SplitImages
from unknown_detection.evaluation.models.preprocessing import (
    Preprocessing,
    _collate,
    load_batches,
    of_declaration,
    of_timm,
)

transforms = torchvision.transforms
RESIZE, TENSOR = transforms.Resize((8, 8)), transforms.ToTensor()
RESIZED = transforms.Compose([RESIZE, TENSOR])
RESNET = torchvision.models.ResNet50_Weights.IMAGENET1K_V1
VIT = torchvision.models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1


def picture(width, height, mode="RGB"):
    """Noise, which any resize changes."""
    values = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


def normalized(image, preprocessing):
    """Pixels / 255, less the mean, by the std: in float32, operation by operation."""
    values = np.asarray(image).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    mean, std = (np.array(preprocessing.description[name], np.float32)[:, None, None] for name in ("mean", "std"))
    return (values - mean) / std


def test_a_callable_is_described_by_what_it_makes():
    """By hand with Pillow: a grey image is read as RGB, less the mean, by the std."""
    preprocessing = of_declaration(PREPROCESSING, "it")
    resized = picture(40, 30, "L").convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)
    assert np.allclose(preprocessing(picture(40, 30, "L")).numpy(), normalized(resized, preprocessing), atol=1e-5)
    assert {**preprocessing.description} | {"seen": "", "from": ""} == {
        "from": "",
        "size": [8, 8],
        "seen": "",
        "mean": MEAN,
        "std": STD,
    }
    assert "0x" not in preprocessing.description["from"] and "\n" not in preprocessing.description["from"]


def test_a_preset_of_torchvision_says_what_it_does():
    """As one of weights and as what it returns; within a callable its size, mean and deviation are seen."""
    transform = VIT.transforms()
    for declared in (VIT, transform, lambda image: transform(image)):
        preprocessing = of_declaration(declared, "it")
        assert torch.equal(preprocessing(picture(300, 200, "L")), transform(picture(300, 200, "L").convert("RGB")))
        assert preprocessing.size == (384, 384)
        np.testing.assert_allclose(preprocessing.description["mean"], transform.mean, atol=1e-6)
        np.testing.assert_allclose(preprocessing.description["std"], transform.std, atol=1e-6)
        assert ("crop_size" in preprocessing.description) == (declared in (VIT, transform))


def standardized(image):
    """Each image less its own mean, by its own standard deviation."""
    values = transforms.functional.to_tensor(image.resize((8, 6)))
    return (values - values.mean()) / (values.std() + 1)


def test_a_callable_that_normalizes_in_another_way():
    preprocessing = of_declaration(standardized, "it")
    assert (preprocessing.description["from"], preprocessing.size) == ("standardized", (6, 8))
    assert not {"mean", "std"} & preprocessing.description.keys()
    assert torch.equal(preprocessing(picture(40, 30)), standardized(picture(40, 30)))
    for ask in (lambda: preprocessing.of_channels("std"), lambda: preprocessing.prepared(8)):
        assert "preprocessing standardized does not normalize channels by a mean" in refusal(ask)


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 0, 2], [0, 2, 1]])
def test_functions_of_one_name_are_told_apart_by_what_they_make_of_a_picture(order):
    """Else kept features of one would be taken for those of the other: RGB for BGR, for instance, of OpenCV."""

    def described(by=2, of=(0, 1, 2), side=8, gap=None):
        image_to_tensor = lambda image: TENSOR(image.resize((side, side), by, reducing_gap=gap))[list(of)]  # noqa: E731
        return of_declaration(image_to_tensor, "it").description

    assert described(0)["from"] == described(2)["from"]
    assert described(0) == described(0) != described(2) != described(of=order)
    # As Pillow enlarges, the nearest pixel and a box are equal, and a gap reduces only what is larger.
    box, nearest, bilinear = Image.Resampling.BOX, Image.Resampling.NEAREST, Image.Resampling.BILINEAR
    assert described(box, side=64) != described(nearest, side=64)
    assert described(bilinear, side=64) != described(bilinear, side=64, gap=1.0)


def drawn(library, share):
    """A preprocessing that paints some share of all images black, drawn from one library's numbers."""
    draw = {"random": random.random, "numpy": np.random.random, "torch": lambda: torch.rand(1).item()}[library]
    return lambda image: RESIZED(image) * float(draw() >= share)


@pytest.mark.parametrize("library", ["random", "numpy", "torch"])
def test_what_happens_to_few_images_at_random_is_refused(library):
    """One image in 25: among 264 it is missed twice in 100,000 times; among 8, three times in four."""
    for seed in range(4):
        random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
        assert "makes another tensor of an image at every call" in refusal(of_declaration, drawn(library, 0.04), "it")
    assert of_declaration(drawn(library, 0.0), "it").size == (8, 8)


@pytest.mark.parametrize(
    "declared",
    [[TENSOR], [RESIZE, transforms.Grayscale(), TENSOR], [RESIZE, transforms.PILToTensor()], [RESIZE],
     [RESIZE, transforms.RandomHorizontalFlip(0.7), TENSOR], None, {"size": 8}],
    ids=["of two sizes", "grey", "of bytes", "images", "of training", "none", "a mapping"],
)  # fmt: skip
def test_what_is_no_preprocessing(declared):
    torch.manual_seed(0)  # without, one run in 17 would draw eight equal flips
    with stops(EvaluationError, "preprocessing"):
        of_declaration(transforms.Compose(declared) if isinstance(declared, list) else declared, "it")


def ways():
    tiny = timm.create_model("test_resnet", num_classes=4)
    return [
        of_timm(tiny),
        *(
            of_declaration(declared, "it")
            for declared in (RESNET, VIT, PREPROCESSING, RESNET.transforms(), of_three.preprocessing)
        ),
    ]


@pytest.mark.parametrize("side", [8, 160, 224, 384])
def test_prepared_images_are_what_is_stored_or_resized_whole(side):
    """Bit for bit, against Pillow's own resize, where the usual geometry would crop; 224 and 384 are BROAD's."""
    stored, kept = picture(side, side), 0
    for preprocessing in ways():
        height, width = preprocessing.size
        way, expected = f"{side} x {side} pixels as stored", stored
        if (height, width) != (side, side):
            filter_ = preprocessing.description.get("interpolation", "bilinear")
            way = f"{side} x {side} pixels resized to {width} x {height} ({filter_})"
            expected = stored.resize((width, height), Image.Resampling[filter_.upper()])
        prepared = pickle.loads(pickle.dumps(preprocessing.prepared(side)))
        assert np.array_equal(prepared(stored).numpy(), normalized(expected, preprocessing)), preprocessing.description
        assert preprocessing.describe_prepared(side) == way
        kept += expected is stored
    assert kept == {8: 1, 160: 1, 224: 2, 384: 1}[side]
    with stops(EvaluationError, side):
        prepared(picture(9, 8))


def small():
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG", exif=Image.Exif())
    return buffer.getvalue()


@pytest.fixture
def load(tmp_path):
    """Loads the only image of a shard, of which the digest is right."""

    def batches(data):
        path, digest = tmp_path / "shard.parquet", hashlib.sha256(data).hexdigest()
        pq.write_table(pa.table({"image": [{"bytes": data, "path": "b.png"}]}), path)
        rows = pa.table({"id": ["a/b.png"], "stored": ["source"], "content_sha256": [digest]})
        to_tensor = Preprocessing(TENSOR, {}, (8, 8))
        images = SplitImages(rows, [path], "bench/test", "a release")
        return list(load_batches(images, to_tensor, [[0]], batch_size=1, workers=0))

    return batches


@pytest.mark.parametrize(
    "data",
    [small()[:200], b"", b"GIF89a", small().replace(b"\xff\xc0\x00\x11", b"\xff\xc0\x00\x01")],
    ids=["cut", "empty", "GIF", "short header"],
)
def test_an_image_that_cannot_be_decoded_is_named(load, data):
    """`tests/builders/release/test_images.py` has the kinds."""
    assert "The image of row a/b.png of bench/test in a release cannot be decoded: " in refusal(load, data)


@pytest.mark.parametrize(("kind", "form"), [("u2", "PNG"), ("f4", "TIFF")])
def test_an_image_of_more_than_8_bits_is_named(load, kind, form):
    encoded = io.BytesIO()
    Image.fromarray(np.full((8, 8), 30_000, kind)).save(encoded, form)
    with stops(EvaluationError, "a/b.png", "8 bits"):
        load(encoded.getvalue())


def test_a_worker_makes_a_batch_in_the_memory_that_it_shares():
    """So it is not copied there; a tensor that `torch.stack` makes is."""
    images = [torch.full((3, 4, 4), float(number)) for number in range(3)]

    def shared(batch):
        made = _collate(4, batch)
        return made, made.is_shared(), torch.stack(batch).is_shared()

    ((made, ours, stacked),) = torch.utils.data.DataLoader(
        images, 3, num_workers=1, collate_fn=shared, multiprocessing_context="fork"
    )
    assert (ours, stacked) == (True, False)
    assert torch.equal(made, torch.stack([*images, images[-1]]))
