"""What a generator may declare and return."""

import dataclasses
import hashlib
import pickle

import numpy as np
import pytest

from builders.errors import BuildError
from builders.generate.contract import AS_PNG, Generated, Generator, SourceImage, Weights, identity_differences
from builders.generate.exact.corruptions import DESCRIPTIONS
from builders.generate.exact.noise import GAUSSIAN_NOISE
from builders.generate.exact.resize import FIXED_RESIZE
from builders.registry import BENCHMARKS
from tests.manifests import as_json


def generator(**changes):
    values = {"name": "toy", "version": 1, "description": "a toy", "size": (2, 2), "start": print}
    return Generator(**(values | changes))


def test_names_end_ids():
    assert FIXED_RESIZE.row_id("lsun/test/a.webp") == "lsun/test/a.webp#fixed-resize-32"
    assert GAUSSIAN_NOISE.row_id("noise/00042") == "noise/00042#gaussian-32"
    assert AS_PNG.row_id("cifar100/test/00000") == "cifar100/test/00000"


def test_a_name_means_one_recipe():
    generators = {}
    for benchmark in BENCHMARKS.values():
        for split in benchmark.parts.values():
            if (declared := split.image_generator) is not None:
                assert generators.setdefault(declared.name, declared) == declared
    corruptions = {f"{name}-{severity}" for name in DESCRIPTIONS for severity in range(1, 6)}
    models = {"biggan-deep-256", "stable-diffusion-2"}
    attacked = {f"{attack}-{model}" for attack in ("pgd", "autoattack") for model in ("resnet50", "vit")}
    assert set(generators) == {"", "fixed-resize-32", "gaussian-32", "lsun-fix-32"} | corruptions | models | attacked


@pytest.mark.parametrize("generator", [AS_PNG, FIXED_RESIZE, GAUSSIAN_NOISE])
def test_a_generator_is_a_value_that_can_be_pickled(generator):
    copy = pickle.loads(pickle.dumps(generator))
    assert (copy, hash(copy)) == (generator, hash(generator))
    assert generator.identity()["reproducible"] == "exact"
    assert generator.nominal_bytes == 3072


def test_what_images_are_prepared_for_is_recorded_and_changes_no_identity():
    picture, prepared = generator(), generator(prepared=2)
    assert picture.identity() == prepared.identity()
    assert "prepared" not in as_json(picture.entry())
    assert as_json(prepared.entry())["prepared"] == 2


def test_identities_are_compared_by_what_the_images_follow_from():
    first = generator(parameters={"epsilon": 0.05, "steps": 40}, weights=(Weights("w", "aa"),))
    other = generator(version=2, parameters={"epsilon": 0.1, "start": "random"}, weights=(Weights("w", "bb"),))
    equal = dataclasses.replace(first, description="else", together=9)
    assert identity_differences(first.identity(), equal.identity()) == []
    assert identity_differences(first.identity(), other.identity()) == [
        "epsilon 0.1 instead of 0.05",
        "start random instead of not set",
        "steps not set instead of 40",
        "version 2 instead of 1",
        "w bb instead of aa",
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"pixels": None},
        {"pixels": np.zeros((2, 2, 3), np.uint8), "reason": "both"},
        {"pixels": np.zeros((2, 2, 3), np.float32)},
        {"pixels": np.zeros((2, 2, 4), np.uint8)},
        {"pixels": np.zeros(4, np.uint8)},
    ],
)
def test_an_image_is_eight_bit_rgb_or_grey_or_has_a_reason(values):
    with pytest.raises(ValueError, match=r"generated image|pixels must be uint8"):
        Generated(**values)


@pytest.mark.parametrize("generator", [AS_PNG, FIXED_RESIZE])
def test_a_generator_of_source_images_refuses_rows_without_one(generator):
    with pytest.raises(ValueError, match="s/1 has no source image"):
        generator.start(generator)([SourceImage("s/1", "c", "a class", None, b"")])


def test_weights_are_those_of_their_digest(tmp_path):
    path = tmp_path / "w.pth"
    path.write_bytes(b"weights")
    assert Weights("w", hashlib.sha256(b"weights").hexdigest(), path).verified() == path
    with pytest.raises(BuildError, match=r"w\.pth does not hold the weights w: its SHA-256 is .*, not 00\."):
        Weights("w", "00", path).verified()
    with pytest.raises(BuildError, match=r"Cannot read the weights .*absent: No such file"):
        Weights("w", "00", tmp_path / "absent").verified()
