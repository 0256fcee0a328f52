"""The flags that give models: what is said without them, and without the packages that they need."""

import dataclasses
import importlib.util

import pytest

from builders.broad.adversarial import ADVERSARIAL
from builders.broad.synthetic import SYNTHETIC
from builders.broad_benchmark import BENCHMARK, REFERENCE, main
from builders.imagenet_benchmark import BENCHMARK as IMAGENET
from builders.pipeline.command import make_command, run_command
from tests.builders.conftest import files_of

MODELS = {"biggan": "broad-synthetic/biggan", "stable-diffusion": "broad-synthetic/stable_diffusion"}
BUILT_WITHOUT_FLAGS = ("broad-reference", "broad-novel-classes", "broad-corruptions", "broad-multi-label")


def test_every_model_has_its_flag_and_its_split():
    assert {model.name: keys for model, keys in BENCHMARK.models().items()} == {
        name: (split,) for name, split in MODELS.items()
    }


def test_a_flag_that_models_share_is_there_once():
    # Those that attack and those that generate: whichever a benchmark has, they compute on one device.
    without_models = dataclasses.replace(BENCHMARK, configs=(REFERENCE, ADVERSARIAL), variants=())
    without_attacks = dataclasses.replace(BENCHMARK, settings=())
    for benchmark, times in ((BENCHMARK, 1), (without_models, 1), (without_attacks, 1), (IMAGENET, 0)):
        names = [option.name for option in make_command(benchmark).params]
        assert len(names) == len(set(names))
        assert names.count("device") == times
    assert {option.name: option.default for option in make_command(BENCHMARK).params}["device"] == "auto"


def test_without_flags_all_is_built_but_what_needs_them(tmp_path, demo, capsys):
    listed = [f"--{key}={demo[key]}" for key in ("imagenet", "inaturalist", "imagenet_o", "openimage_o", "coco2017")]
    assert main([*listed, "--dry-run", f"--out={tmp_path / 'out'}"]) == 0
    said = capsys.readouterr()
    for key in BENCHMARK.parts():
        assert (key in said.out) == (key.partition("/")[0] in BUILT_WITHOUT_FLAGS), key
    for model in ("resnet50", "vit"):
        assert f"broad-adversarial/pgd_{model}: left out, since it is made with --model {model} --weights" in said.err


@pytest.mark.parametrize("name", MODELS)
def test_a_split_that_is_named_needs_its_model(tmp_path, capsys, name):
    out = tmp_path / "out"
    for more in ([], ["--demo"]):
        assert main([f"--splits={MODELS[name]}", f"--out={out}", *more]) == 2
        message = capsys.readouterr().err
        assert f"No model was given for {MODELS[name]}. Give --{name} " in message
    assert not out.exists()


def test_splits_that_nobody_names_are_left_out_without_their_model(tmp_path, capsys):
    alone = dataclasses.replace(BENCHMARK, configs=(SYNTHETIC,), variants=())
    assert run_command(alone, ["--dry-run", f"--out={tmp_path / 'out'}"]) == 2
    said = capsys.readouterr().err
    for model, (split,) in BENCHMARK.models().items():
        assert f"{split}: left out, because no --{model.name} {model.given} is given\n" in said
    assert "No split is left to build without models. Give --biggan DIR or --stable-diffusion " in said


def test_a_model_that_no_split_needs_is_not_read(tmp_path, capsys):
    assert main(["--splits=broad-novel-classes/imagenet_o", "--biggan=none", f"--out={tmp_path / 'out'}"]) == 2
    assert "--imagenet_o DIR" in capsys.readouterr().err


@pytest.mark.parametrize("name", MODELS)
def test_without_the_extra_the_sentence_names_it(tmp_path, capsys, monkeypatch, name):
    found = importlib.util.find_spec
    # As in an install of the core alone, which is what the tests run in where the extra is not there.
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None if module == "torch" else found(module))
    assert main([f"--splits={MODELS[name]}", f"--{name}={tmp_path}", f"--out={tmp_path / 'out'}"]) == 2
    message = capsys.readouterr().err
    assert "torch" in message and "not installed" in message
    assert "pip install 'unknown-detection[generate]'" in message
    assert files_of(tmp_path) == {}


def test_authors_images_take_the_place_of_made_ones():
    adopted = BENCHMARK.with_variants(["adopt-partial-broad"])
    assert adopted.models() == {}
    assert {key for key in adopted.parts() if key.startswith("broad-synthetic/")} == set(MODELS.values())
