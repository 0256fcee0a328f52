"""Adversarial images of real pictures on real weights, from the source to the judged release."""

import copy
import dataclasses
import functools
import hashlib
import importlib.metadata
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.broad_benchmark import main
from builders.errors import BuildError
from builders.generate.adversarial.attacks import PARTS, PGD, AutoAttack
from builders.generate.adversarial.generator import Attacker, AttackSettings, stored_pixels
from builders.generate.adversarial.network import RESNET50, Predictions, load_network, model_named
from builders.generate.contract import NOT_FINITE, SourceImage
from builders.generate.sealed import prepare_original
from builders.release.images import decode
from builders.sources.datasets.imagenet import IMAGENET
from hf_scripts import materialize, verify
from taxonomy import tables
from tests.builders.conftest import files_of
from tests.builders.generate.adversarial import real, small
from tests.manifests import manifest_of
from tests.sentences import assert_sentence, stops
from unknown_detection.evaluation.protocols import broad

KEY = real.ATTACKED
STEPS = real.STEPS


def table(release, key):
    (path,) = (release / "data" / key.partition("/")[0]).glob(f"{key.partition('/')[2]}-*.parquet")
    return pq.read_table(path).to_pylist()


@real.REAL
def test_pgd_leaves_no_picture_right_and_the_columns_are_about_what_is_stored(world, release):
    real.one_thread()
    weights, _ = world
    clean, attacked = table(release, "broad-reference/test"), table(release, KEY)
    assert [row["source_id"] for row in attacked] == [row["source_id"] for row in clean]
    assert [row["label"] for row in attacked] == [row["label"] for row in clean]
    network = load_network(model_named(real.MODEL), weights, "cpu", list(IMAGENET.classes()))
    originals = np.stack(
        [prepare_original(decode(row["image"]["bytes"]).convert("RGB"), network.model.preparation) for row in clean]
    )
    stored = np.stack([np.asarray(decode(row["image"]["bytes"])) for row in attacked])
    labels = np.array([row["label"] for row in attacked])
    assert stored.shape == (20, 224, 224, 3)
    # 0.05 x 255 = 12.75, so 13 steps would be too many. Of the uniform start alone (12.75 - 11.5) / 12.75 = 9.8 %
    # round to 12 or 13 steps; PGD moves more pixels to the edge.
    steps = np.abs(stored.astype(int) - originals.astype(int))
    assert steps.max() == 12
    assert (steps == 12).mean() > 0.098
    # Read again and judged one by one, which is another batch size.
    before = [network.judge(image[None], label[None]) for image, label in zip(originals, labels, strict=True)]
    after = [network.judge(image[None], label[None]) for image, label in zip(stored, labels, strict=True)]
    for row, clean, perturbed in zip(attacked, before, after, strict=True):
        assert (row["prediction_before"], row["prediction"]) == (clean.predictions[0], perturbed.predictions[0])
        assert row["confidence_before"] == pytest.approx(clean.confidences[0], abs=1e-3)
        assert row["confidence"] == pytest.approx(perturbed.confidences[0], abs=1e-3)
        assert row["success"] is bool(clean.predictions[0] == row["label"] != perturbed.predictions[0])
        assert (row["attack"], row["part"], row["model"]) == ("pgd", "", real.ARCHITECTURE)
        assert (row["epsilon"], row["steps"], row["step_size"]) == (0.05, STEPS, 2 / 255)
    # Of the 20 pictures as they are the model gets 18, and of half of them mirrored about as many.
    right = sum(row["prediction_before"] == row["label"] for row in attacked)
    assert right >= 16
    assert sum(row["success"] for row in attacked) == right
    assert sum(row["prediction"] == row["label"] for row in attacked) == 0


@real.REAL
def test_the_manifest_records_how_and_the_release_verifies(world, release, tmp_path, capsys):
    entry = manifest_of(release)["configs"]["broad-adversarial"]["splits"]["pgd_tf_efficientnet_lite0"]
    (part,) = entry["parts"]
    assert (part["role"], part["labelled"]) == ("adversarial", True)
    assert part["role"] in broad.KINDS
    recorded = entry["generator"]
    assert recorded["reproducible"] == "recorded"
    assert recorded["weights"] == {real.ARCHITECTURE: hashlib.sha256(world[0].read_bytes()).hexdigest()}
    expected = {
        "attack": "pgd",
        "epsilon": 0.05,
        "levels": 12,
        "steps": STEPS,
        "step_size": 2 / 255,
        "random_start": True,
        "device": "cpu",
        "accuracy_check": False,
        "batch": 8,
        "size": 224,
        "resize": 256,
    }
    assert {name: recorded["parameters"][name] for name in expected} == expected
    assert {"torch", "timm"} <= recorded["parameters"].keys()
    assert verify.main([str(release), "--workers", "1"]) == 0
    # With other weights, or other steps, the folder is refused.
    out = ["--splits=broad-adversarial", "--workers=1", "--attack-batch=8", f"--out={release}"]
    before = files_of(release)
    assert main([*real.arguments(world, *out), "--pgd-steps=6"]) == 2
    assert_sentence(capsys.readouterr().err)
    assert files_of(release) == before
    # A pack that is made again on the same device has the same pixels.
    assert main(real.arguments(world, *out)) == 0
    assert files_of(release) == before


@real.REAL
@real.needed("torchattacks")
def test_autoattack_keeps_the_best_of_its_parts(world, tmp_path, monkeypatch):
    few = functools.partial(AutoAttack, steps=3, targets=1, queries=5)
    monkeypatch.setattr("builders.generate.adversarial.flags.AutoAttack", few)
    source = real.write_source(tmp_path / "imagenet", count=2)
    flags = real.arguments((world[0], source), "--attack=autoattack", "--workers=1", f"--out={tmp_path / 'out'}")
    key = "broad-adversarial/autoattack_tf_efficientnet_lite0"
    assert main([*(flag for flag in flags if flag != "--attack=pgd"), f"--splits={key},broad-reference/test"]) == 0
    rows = table(tmp_path / "out", key)
    originals = table(tmp_path / "out", "broad-reference/test")
    assert len(rows) == len(originals) == 2
    network = load_network(model_named(real.MODEL), world[0], "cpu", [row.wnid for row in tables.imagenet1k()])
    for row, original in zip(rows, originals, strict=True):
        before = prepare_original(decode(original["image"]["bytes"]).convert("RGB"), network.model.preparation)
        stored = np.asarray(decode(row["image"]["bytes"]))
        assert 0 < np.abs(stored.astype(int) - before.astype(int)).max() <= 12
        judged = network.judge(stored[None], np.array([row["label"]]))
        assert row["prediction"] == judged.predictions[0] != row["label"]
        assert (row["attack"], row["steps"], row["step_size"]) == ("autoattack", 3, 0.0)
        assert row["part"] in PARTS
    splits = manifest_of(tmp_path / "out")["configs"]["broad-adversarial"]["splits"]
    parameters = splits[key.partition("/")[2]]["generator"]["parameters"]
    assert parameters["parts"] == ", ".join(PARTS)
    assert parameters["torchattacks"] == importlib.metadata.version("torchattacks")


@real.REAL
def test_images_of_a_declared_model_are_copied_with_whatever_weights(tmp_path, capsys):
    import timm
    import torch

    real.one_thread()
    source, weights, out = real.write_source(tmp_path / "imagenet", 2), tmp_path / "resnet50.pth", tmp_path / "out"
    torch.save(timm.create_model("resnet50", pretrained=False).state_dict(), weights)
    flags = [f"--imagenet={source}", "--model=resnet50", f"--weights={weights}", "--attack=pgd", "--pgd-steps=1"]
    flags += ["--splits=broad-adversarial", "--allow-partial", "--workers=1", "--quiet", f"--out={out}"]
    assert main(flags) == 0
    copied = [str(out), "--splits=broad-adversarial", "--workers=1", "--quiet"]
    assert materialize.main([*copied, f"--out={tmp_path / 'copy'}"]) == 0
    ours, theirs = files_of(tmp_path / "copy"), files_of(out)
    names = [name for name in ours if "pgd_resnet50" in name]
    assert len(names) == 3  # index, images, sealed residuals
    assert all(ours[name] == theirs[name] for name in names)
    # None of 2 right may be chance, so random weights pass.
    parameters = manifest_of(out)["configs"]["broad-adversarial"]["splits"]["pgd_resnet50"]["generator"]["parameters"]
    assert parameters["accuracy_check"] is True
    for file in (tmp_path / "copy" / "data").rglob("*.parquet"):
        file.unlink()
    again = [str(tmp_path / "copy"), *copied[1:], f"--out={tmp_path / 'again'}"]
    assert materialize.main(again) == 2
    assert "--imagenet" in capsys.readouterr().err  # with which residuals are opened
    assert materialize.main([*again, f"--imagenet={source}"]) == 0
    assert all(files_of(tmp_path / "again")[name] == theirs[name] for name in names)


@real.needed(*real.TORCH)
def test_an_image_that_is_too_narrow_gets_a_reason_and_a_small_one_is_enlarged():
    # 32 pixels wide it would be 32 x 400,000 x 32 = 410 million pixels; the other has a 12th of the input's pixels.
    network = small.network()
    attacker = Attacker(AttackSettings(small.MODEL, PGD(steps=1), accuracy_check=False), network)
    sizes = ((9, 9), (1, 400_000), (9, 9))
    images = [SourceImage(str(size), "n01440764", "tench", Image.new("RGB", size), b"") for size in sizes]
    first, narrow, last = attacker(images)
    assert first.pixels.shape == last.pixels.shape == (32, 32, 3)
    assert narrow.pixels is None
    assert narrow.reason == "it is too narrow to be resized (1 x 400,000 pixels)"
    assert [image.reason for image in attacker(images[1:2])] == [narrow.reason]


@pytest.mark.parametrize(("epsilon", "levels"), [(0.05, 12), (8 / 255, 8), (1 / 255, 1), (0.03, 7)])
def test_pixels_are_projected_after_rounding(epsilon, levels):
    torch = pytest.importorskip("torch")
    assert AttackSettings(RESNET50, PGD(epsilon=epsilon)).levels == levels
    drawn = np.random.RandomState(0)
    originals = drawn.randint(0, 256, (2, 8, 8, 3)).astype(np.uint8)
    images = originals.transpose(0, 3, 1, 2) / 255
    attacked = (images + epsilon * np.sign(drawn.normal(size=images.shape))).clip(0, 1)
    pixels = stored_pixels(torch.from_numpy(attacked.astype(np.float32)), originals, levels)
    steps = pixels.astype(int) - originals.astype(int)
    assert np.abs(steps).max() == levels
    # An original that is stored as it is.
    np.testing.assert_array_equal(stored_pixels(torch.from_numpy(images.astype(np.float32)), originals, 12), originals)


@pytest.mark.parametrize("epsilon", [0, -0.05, 0.001, 1.5, float("nan")])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with stops(BuildError, "--epsilon"):
        AttackSettings(RESNET50, PGD(epsilon=epsilon))


def test_the_best_of_some_results_is_the_most_confident_misclassification(monkeypatch):
    torch = pytest.importorskip("torch")
    results = {
        # of each image: the class, its probability, that of class 0
        "a": ([1, 0, 0], [0.6, 0.9, 0.5], [0.3, 0.9, 0.5]),
        "b": ([2, 0, 0], [0.8, 0.7, 0.6], [0.1, 0.7, 0.6]),
        "c": ([0, 3, 0], [0.9, 0.2, 0.8], [0.9, 0.1, 0.8]),
    }
    scripted = iter([Predictions(*map(np.array, judged)) for judged in results.values()])
    network = SimpleNamespace(
        device="cpu", pixels=lambda images: torch.zeros(3, 3, 1, 1), judge=lambda pixels, labels: next(scripted)
    )
    settings = AttackSettings(small.MODEL, PGD())
    steps = [(part, torch.full((3, 3, 1, 1), value / 255)) for value, part in enumerate(results, start=1)]
    monkeypatch.setattr(PGD, "candidates", lambda *_: iter(steps))
    rows, originals = [SourceImage(str(number), "", "", None, b"") for number in range(3)], np.zeros((3, 1, 1, 3))
    before = Predictions(np.zeros(3, int), np.ones(3), np.ones(3))
    best = Attacker(settings, network)._attack(rows, originals.astype(np.uint8), np.zeros(3, int), before)
    # The last was never fooled: the result that is least sure of class 0.
    assert [image.values["part"] for image in best] == ["b", "c", "a"]
    assert [image.pixels[0, 0, 0] for image in best] == [2, 3, 1]
    assert [image.values["prediction"] for image in best] == [2, 3, 0]
    assert [image.values["confidence"] for image in best] == [0.8, 0.2, 0.5]
    assert [image.values["success"] for image in best] == [True, True, False]


@pytest.mark.parametrize("where", ["its logits", "its gradients"])
def test_a_model_that_gives_no_numbers_attacks_nothing(where):
    """The rows had a confidence of NaN, and those of random pixels counted as successes."""
    torch = pytest.importorskip("torch")
    classify = small.network().module

    class NotFinite(torch.nn.Module):
        def forward(self, pixels):
            logits = list(classify(pixels))
            for row in range(0, len(pixels), 2):
                zero = pixels[row].sum() * 0
                # The root of 0 is 0, and has no gradient.
                logits[row] = logits[row] + (zero / 0 if where == "its logits" else zero.sqrt())
            return torch.stack(logits)

    network = copy.copy(small.network())
    network.module = network.fast = NotFinite()
    pixels, labels = small.images()
    wnids = list(IMAGENET.classes())
    rows = [
        SourceImage(f"{number}#pgd-small", wnids[label], "", Image.fromarray(image), b"")
        for number, (image, label) in enumerate(zip(pixels, labels, strict=True))
    ]
    attacked = Attacker(AttackSettings(small.MODEL, PGD(steps=3), accuracy_check=False), network)(rows)
    assert [image.reason for image in attacked] == [NOT_FINITE, ""] * 12
    assert all(np.isfinite(image.values["confidence"]) for image in attacked[1::2])


def test_seeds_are_of_the_row():
    # sha256sum of the id begins with these 16 hex digits, of which the last bit is cut.
    assert SourceImage("abc", "", "", None, b"").seed == 0xBA7816BF8F01CFEA >> 1


@real.REAL
def test_weights_of_another_accuracy_end_the_build(world, tmp_path, monkeypatch, capsys):
    # The 20 pictures are easy ones: as if the card had promised a tenth.
    model = dataclasses.replace(model_named(real.MODEL), accuracy=0.1, card="a card")
    monkeypatch.setattr("builders.generate.adversarial.flags.model_named", lambda _: model)
    flags = [flag for flag in real.arguments(world) if flag != "--no-accuracy-check"]
    out = tmp_path / "out"
    assert main([*flags, f"--splits={KEY}", "--workers=1", "--pgd-steps=1", f"--out={out}"]) == 2
    assert_sentence(capsys.readouterr().err)
    assert not (out / "manifest.json").exists()
