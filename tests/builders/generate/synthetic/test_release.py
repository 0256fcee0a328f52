"""Synthetic images from their flags to a release that is verified, loaded and materialized; flags that are refused."""

import dataclasses
import shutil

import datasets
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra generate is not installed")
pytest.importorskip("diffusers", reason="the extra generate is not installed")

from builders.broad_benchmark import (  # noqa: E402
    BENCHMARK,
    GENERATIVE_MODELS,
    SYNTHETIC,
)
from builders.commands.benchmark import run_command  # noqa: E402
from builders.declare.quotas import Total  # noqa: E402
from builders.generate.contract import SourceImage  # noqa: E402
from builders.generate.synthetic import demo as tiny  # noqa: E402
from builders.generate.synthetic import stable_diffusion as sd  # noqa: E402
from hf_scripts import verify  # noqa: E402
from taxonomy import tables  # noqa: E402
from tests.builders.conftest import files_of  # noqa: E402
from tests.manifests import manifest_of  # noqa: E402
from tests.sentences import assert_sentence  # noqa: E402

IMAGES = 3


def few():
    """BROAD's config of synthetic images with some rows of each split."""

    def asked_for(values):
        return {name: with_few(split) for name, split in GENERATIVE_MODELS.splits(values).items()}

    def with_few(split):
        return dataclasses.replace(split, quota=Total(IMAGES))

    config = dataclasses.replace(SYNTHETIC, splits=tuple(map(with_few, SYNTHETIC.splits)))
    settings = dataclasses.replace(GENERATIVE_MODELS, splits=asked_for)
    return dataclasses.replace(BENCHMARK, configs=(config,), variants=(), settings=(settings,))


def build(out, *flags):
    return run_command(few(), [f"--out={out}", "--quiet", "--workers=1", "--device=cpu", *flags])


@pytest.fixture(scope="module")
def model_flags(tmp_path_factory):
    """The flags that give tiny models."""
    root = tmp_path_factory.mktemp("models")
    biggan, pipeline = tiny.write_biggan(root / "biggan"), tiny.write_pipeline(root / "sd2")
    return [f"--biggan={biggan}", f"--stable-diffusion={pipeline}"]


@pytest.fixture(scope="module")
def release(model_flags, tmp_path_factory):
    """An undisturbed release; read only."""
    out = tmp_path_factory.mktemp("synthetic") / "release"
    assert build(out, *model_flags) == 0
    return out


def loaded(release, split):
    return datasets.load_dataset(str(release), "broad-synthetic", split=split, streaming=True)


@pytest.mark.parametrize(
    ("split", "recipe", "side"), [("biggan", "biggan-deep-256", 256), ("stable_diffusion", "stable-diffusion-2", 64)]
)
def test_rows_have_their_class_prompt_and_seed(release, split, recipe, side):
    indices = {row.wnid: row.index for row in tables.imagenet1k()}
    rows = list(loaded(release, split))
    assert len(rows) == IMAGES
    for row in rows:
        assert row["id"] == f"{split}/{row['source_id']}#{recipe}"
        assert row["source_id"].split("/")[0] == row["class_id"]
        assert row["label"] == indices[row["class_id"]]
        assert row["seed"] == SourceImage(row["id"], "", "", None, b"").seed
        assert np.asarray(row["image"]).shape == (side, side, 3)
        prompts = [f"High quality image of a {name}." for name in sd.class_names(row["class_id"])]
        assert row["prompt"] in ([""] if split == "biggan" else prompts)


def test_it_verifies_and_the_manifest_records_what_made_the_pixels(release, capsys):
    assert verify.main([str(release), "--workers", "1"]) == 0, capsys.readouterr()
    entry = manifest_of(release)["configs"]["broad-synthetic"]["splits"]["biggan"]
    assert entry["generator"]["reproducible"] == "recorded"
    assert {"truncation", "batch_size", "dtype", "device", "torch"} <= set(entry["generator"]["parameters"])
    assert set(entry["generator"]["weights"]) == {"biggan/pytorch_model.bin"}
    licences = {key: source["licence"] for key, source in manifest_of(release)["sources"].items()}
    assert licences["biggan"]["publish"] == "gated" and licences["biggan"]["name"] == "not stated"
    assert licences["stable_diffusion"]["publish"] == "open"
    assert "Open RAIL++-M" in licences["stable_diffusion"]["name"]


def test_another_worker_and_a_rerun_change_no_byte(release, model_flags, tmp_path):
    assert build(tmp_path / "out", model_flags[0], "--splits=broad-synthetic/biggan", "--workers=2") == 0
    index = "index/broad-synthetic/biggan.parquet"
    assert files_of(tmp_path / "out")[index] == files_of(release)[index]
    copy = shutil.copytree(release, tmp_path / "copy")
    assert build(copy, *model_flags) == 0
    assert files_of(copy) == files_of(release)


def test_other_weights_are_another_folder(release, model_flags, tmp_path, capsys):
    out = shutil.copytree(release, tmp_path / "out")
    other = tiny.write_biggan(tmp_path / "other", tensors=tiny.biggan_tensors(seed=1))
    assert build(out, *model_flags, f"--biggan={other}", "--splits=broad-synthetic/biggan") == 2
    message = capsys.readouterr().err
    assert_sentence(message, "biggan/pytorch_model.bin")
    assert files_of(out) == files_of(release)


def test_a_model_that_gives_no_numbers_ends_the_build(tmp_path, capsys):
    """Its images were stored, black."""
    tensors = tiny.biggan_tensors()
    tensors["generator.conv_to_rgb.bias"].fill_(torch.nan)
    folder, out = tiny.write_biggan(tmp_path / "biggan", tensors), tmp_path / "out"
    assert build(out, f"--biggan={folder}", "--splits=broad-synthetic/biggan") == 2
    assert_sentence(capsys.readouterr().err, "biggan-deep-256", "not finite")
    assert not (out / "manifest.json").exists()
