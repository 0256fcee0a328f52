"""The flags whose values make generators: what is said without them, and without the packages that they need."""

import dataclasses

import pytest

from builders.broad_benchmark import BENCHMARK, SYNTHETIC, main
from builders.commands.benchmark import make_command, run_command
from builders.imagenet_benchmark import BENCHMARK as IMAGENET

MODELS = {"biggan": "broad-synthetic/biggan", "stable-diffusion": "broad-synthetic/stable_diffusion"}
ATTACKED = {f"broad-adversarial/{attack}_{model}" for attack in ("pgd", "autoattack") for model in ("resnet50", "vit")}
BUILT_WITHOUT_FLAGS = ("broad-reference", "broad-novel-classes", "broad-corruptions", "broad-multi-label")


def test_every_split_that_needs_a_model_says_which_flag_gives_it():
    needed = {split: BENCHMARK.needs(split).split()[0] for split in MODELS.values()}
    assert needed == {split: f"--{name}" for name, split in MODELS.items()}
    assert set(BENCHMARK.splits) - set(BENCHMARK.ready()) == {*MODELS.values(), *ATTACKED}


def test_a_flag_that_models_share_is_there_once():
    # Those that attack and those that generate: whichever a benchmark has, they compute on one device.
    of_attacks, of_models = (dataclasses.replace(BENCHMARK, settings=(settings,)) for settings in BENCHMARK.settings)
    for benchmark, times in ((BENCHMARK, 1), (of_attacks, 1), (of_models, 1), (IMAGENET, 0)):
        names = [option.name for option in make_command(benchmark).params]
        assert len(names) == len(set(names))
        assert names.count("device") == times
    assert {option.name: option.default for option in make_command(BENCHMARK).params}["device"] == "auto"


def test_without_flags_all_is_built_but_what_needs_them(tmp_path, demo, capsys):
    listed = [f"--{key}={demo[key]}" for key in ("imagenet", "inaturalist", "imagenet_o", "openimage_o", "coco2017")]
    assert main([*listed, "--dry-run", f"--out={tmp_path / 'out'}"]) == 0
    printed = capsys.readouterr()
    for key in BENCHMARK.splits:
        assert (key in printed.out) == (key.partition("/")[0] in BUILT_WITHOUT_FLAGS), key
    for model in ("resnet50", "vit"):
        assert f"pgd_{model}: left out, since it is made with --model {model} --weights" in printed.err


@pytest.mark.parametrize("name", MODELS)
def test_a_split_that_is_named_needs_its_model(tmp_path, capsys, name):
    out = tmp_path / "out"
    assert main([f"--splits={MODELS[name]}", f"--out={out}"]) == 2
    message = capsys.readouterr().err
    assert f"--splits {MODELS[name]} cannot be generated yet: {MODELS[name]} is made with --{name} DIR" in message
    assert not out.exists()


def test_splits_that_nobody_names_are_left_out_without_their_model(tmp_path, capsys):
    alone = dataclasses.replace(BENCHMARK, configs=(SYNTHETIC,), variants=())
    assert run_command(alone, ["--dry-run", f"--out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert "All splits of this benchmark need a model: give --biggan DIR or --stable-diffusion DIR|ORG/NAME." in error


def test_a_model_that_no_split_needs_is_not_read(tmp_path, capsys):
    assert main(["--splits=broad-novel-classes/imagenet_o", "--biggan=none", f"--out={tmp_path / 'out'}"]) == 2
    assert "--imagenet_o DIR" in capsys.readouterr().err


@pytest.mark.parametrize("name", MODELS)
def test_authors_images_and_a_model_exclude_each_other(tmp_path, capsys, name):
    assert main([f"--adopt-partial-broad={tmp_path}", f"--{name}={tmp_path}", f"--out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert f"--adopt-partial-broad takes the images of broad-synthetic from its folder, so --{name} cannot" in error
