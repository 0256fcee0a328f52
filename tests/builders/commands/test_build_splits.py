"""A demo's models: used where no flag gives one, and as far as their packages are installed."""

import contextlib
import dataclasses
from pathlib import Path

import pytest

from builders.broad_benchmark import BENCHMARK, main
from builders.cli.build_options import BuildRequest
from builders.commands.build import choose_splits
from builders.commands.demo_build import demo_models, with_demo_models
from tests.sentences import assert_sentence

VALUES = {
    flag.name: () if flag.multiple else flag.default for settings in BENCHMARK.settings for flag in settings.flags
}
ATTACKED = [
    f"broad-adversarial/{attack}_test_{network}" for network in ("resnet", "vit") for attack in ("pgd", "autoattack")
]
GENERATED = ["broad-synthetic/biggan", "broad-synthetic/stable_diffusion"]


def flags(variants=(), **values):
    return BuildRequest(Path("out"), demo=True, settings=VALUES | values, variants=dict.fromkeys(variants, "folder"))


def planned(models):
    """The benchmark with the splits of a demo's models, before these are written."""
    return BENCHMARK.with_splits({settings.config: demo.planned for settings, demo in models})


def generated(**choices):
    """The splits for which a demo makes models."""
    ready = planned(demo_models(BENCHMARK, flags(**choices))).ready()
    return [key for key in ATTACKED + GENERATED if key in ready]


def test_models_are_made_for_the_configs_of_which_no_flag_gives_a_model():
    assert generated() == generated(device="cpu", epsilon=0.1) == ATTACKED + GENERATED
    assert generated(model=("vit",)) == generated(weights=("a",)) == GENERATED
    assert generated(biggan="folder") == ATTACKED
    assert generated(variants=["adopt-partial-broad"]) == []


def test_models_of_a_demo_are_written_and_make_what_the_flags_ask_for(tmp_path):
    """Of two splits that models could make, the flags ask for one."""
    ((settings, models),) = (item for item in demo_models(BENCHMARK, flags()) if item[0].config == "broad-synthetic")
    benchmark = planned([(settings, models)])
    written = []

    def write(folder, names):
        written.append((folder.name, list(names)))
        return {"biggan": "made"}

    def splits(values):
        assert values["biggan"] == "made"
        return {"biggan": benchmark.parts[GENERATED[0]]}

    settings, models = dataclasses.replace(settings, splits=splits), dataclasses.replace(models, write=write)
    build_flags = dataclasses.replace(flags(), out=tmp_path / "out")
    with contextlib.ExitStack() as cleanup:
        made = with_demo_models(benchmark, [(settings, models)], GENERATED, build_flags, cleanup)
    assert written == [("broad-synthetic", ["biggan", "stable_diffusion"])]
    assert [key for key in GENERATED if not made.needs(key)] == GENERATED[:1]


def test_splits_that_lack_the_same_packages_share_a_line(uninstalled, capsys):
    uninstalled("torch", "timm", "diffusers", "torchattacks", "transformers", "accelerate", "imagecorruptions-imaug")
    benchmark = planned(demo_models(BENCHMARK, flags()))
    _, splits = choose_splits(benchmark, [], flags(), lambda _: None)
    assert not {*splits} & {*ATTACKED, *GENERATED}
    lines = capsys.readouterr().err.splitlines()
    sentences = [line.partition(". For these, too: pip install 'unknown-detection[generate]'")[0] for line in lines]
    assert {
        f"left out {ATTACKED[0]}, {ATTACKED[2]}: timm, torch are not installed",
        f"left out {ATTACKED[1]}, {ATTACKED[3]}: timm, torch, torchattacks 3.3.0 are not installed",
        f"left out {GENERATED[0]}: torch is not installed",
        f"left out {GENERATED[1]}: accelerate, diffusers, torch, transformers are not installed",
    } < set(sentences)


@pytest.mark.parametrize("name", ["broad-synthetic", "broad-synthetic/biggan", "broad-adversarial/pgd_test_vit"])
def test_a_split_that_is_named_needs_the_packages(name, uninstalled, tmp_path, capsys):
    uninstalled("torch")
    assert main(["--demo", f"--splits={name}", f"--out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    # Other packages that lack here stand beside torch, and differ from machine to machine.
    assert "torch" in error and "needed to generate broad-" in error and "unknown-detection[generate]" in error
    assert not (tmp_path / "out").exists()


def test_a_misspelt_split_of_a_demos_model_is_named(tmp_path, capsys):
    assert main(["--demo", "--splits=broad-adversarial/pgd_test_vits", f"--out={tmp_path / 'out'}"]) == 2
    assert_sentence(capsys.readouterr().err, "broad-adversarial/pgd_test_vit")
    # Without --demo there is none.
    assert main(["--splits=broad-adversarial/pgd_test_vit", f"--out={tmp_path / 'out'}"]) == 2
    assert_sentence(capsys.readouterr().err)
    assert not (tmp_path / "out").exists()
