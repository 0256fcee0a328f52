"""BROAD's demo with models: one build of the configs that need some, from made-up sources and random weights."""

import functools

import datasets
import numpy as np
import pytest

from builders.broad_benchmark import BENCHMARK, main
from builders.generate.adversarial.attacks import AutoAttack
from builders.generate.contract import SourceImage
from builders.release.tables import read_excluded
from hf_scripts import verify
from tests.builders.conftest import files_of
from tests.builders.generate.adversarial.real import TORCH, needed
from tests.manifests import manifest_of, rows_in
from tests.sentences import assert_sentence

pytestmark = needed(*TORCH, "torchattacks", "diffusers", "transformers", "accelerate")

CLASSES = sorted(BENCHMARK.sources()[0].classes())
ATTACKED = {f"{attack}_test_{network}" for attack in ("pgd", "autoattack") for network in ("resnet", "vit")}
STEPS = 2
FEW = functools.partial(AutoAttack, steps=STEPS, targets=1, queries=5)
SPLITS = "broad-adversarial,broad-synthetic,broad-reference/test"


def build(out, *flags):
    few = ["--limit-per-class=2", f"--pgd-steps={STEPS}"]
    return main(["--demo", "--workers=1", "--quiet", "--device=cpu", f"--out={out}", *few, *flags])


@pytest.fixture(scope="module")
def release(demo, tmp_path_factory):
    out = tmp_path_factory.mktemp("broad-demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        # The demo's sources are written once for all tests; models are written as by a user's command.
        patch.setattr("builders.commands.build.demo_sources", lambda *_, **__: demo)
        patch.setattr("builders.generate.adversarial.flags.AutoAttack", FEW)
        assert build(out, f"--splits={SPLITS}") == 0
    return out


def rows_of(release, config, split):
    return list(datasets.load_dataset(str(release), config, split=split, streaming=True))


def test_a_demo_has_the_configs_that_models_make_and_says_how(release, capsys):
    configs = manifest_of(release)["configs"]
    assert set(configs["broad-adversarial"]["splits"]) == ATTACKED
    assert set(configs["broad-synthetic"]["splits"]) == {"biggan", "stable_diffusion"}
    assert manifest_of(release)["benchmarks"]["broad"]["demo"] is True
    for name in ATTACKED:
        entry = configs["broad-adversarial"]["splits"][name]
        parameters = entry["generator"]["parameters"]
        # Random weights guess, so their accuracy is recorded as not checked.
        assert parameters["accuracy_check"] is False
        assert parameters["steps"] == STEPS
        assert parameters["architecture"] == f"timm:{name.partition('_')[2]}"
        assert rows_in(entry) == 6
    assert configs["broad-synthetic"]["splits"]["stable_diffusion"]["generator"]["parameters"]["steps"] == 50
    assert verify.main([str(release), "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    assert "broad is built from demo sources and is not for results" in printed


def test_images_are_made_of_the_first_classes_and_the_others_are_listed(release):
    clean = {row["source_id"]: row for row in rows_of(release, "broad-reference", "test")}
    for name in ATTACKED:
        rows = rows_of(release, "broad-adversarial", name)
        assert sorted(row["class_id"] for row in rows) == CLASSES[:6]
        assert all(row["image"].size == (160, 160) for row in rows)
        assert all(row["label"] == clean[row["source_id"]]["label"] for row in rows)
    for name in ("biggan", "stable_diffusion"):
        rows = rows_of(release, "broad-synthetic", name)
        assert sorted(row["class_id"] for row in rows) == sorted(2 * CLASSES[:4])
        assert len({np.asarray(row["image"]).tobytes() for row in rows}) == len(rows)
        assert all(row["seed"] == SourceImage(row["id"], "", "", None, b"").seed for row in rows)
    excluded = read_excluded(release / "excluded" / "broad-synthetic.csv")
    left = {row.class_id: row.images for row in excluded if row.rule == "demo-classes"}
    assert left == dict.fromkeys(CLASSES[4:], 25)


def test_a_second_run_uses_the_same_models_and_changes_no_byte(release, demo, monkeypatch, capsys):
    monkeypatch.setattr("builders.commands.build.demo_sources", lambda *_, **__: demo)
    before = files_of(release)
    weights = {path: path.read_bytes() for path in (release / ".state" / "demo-models").rglob("*") if path.is_file()}
    assert len(weights) > 10
    monkeypatch.setattr("builders.generate.adversarial.flags.AutoAttack", FEW)
    assert build(release, "--splits=broad-adversarial,broad-synthetic") == 0
    assert files_of(release) == before
    assert {path: path.read_bytes() for path in weights} == weights
    # Flags of the attack hold for the demo's models, too, and other ones are another folder.
    assert build(release, "--splits=broad-adversarial", "--pgd-steps=3") == 2
    assert_sentence(capsys.readouterr().err)
