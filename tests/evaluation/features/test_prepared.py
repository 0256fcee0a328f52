"""Images that are prepared for a model's input: from a release of BROAD to the report, with a model of timm."""

import json

import numpy as np
import PIL
import pytest
from PIL import Image

from tests.evaluation.broad_release import LABELS, OTHER, OWN, SPLITS, make_broad
from tests.evaluation.extra import timm, torch
from tests.evaluation.report.as_text import figures_of, page_of
from tests.evaluation.small_models import of_seed
from tests.sentences import assert_sentence, stops
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.runner import Runner, fill
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.features.table import RowTable
from unknown_detection.evaluation.models.models import open_model
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.scoring.scores import read_scores

MODEL = "test_resnet"  # of timm's models for tests: 160 x 160 pixels, of which the usual geometry crops 95 %
CONFIGS = tuple(dict.fromkeys(key.partition("/")[0] for key in SPLITS))
STORED = f"{OWN} x {OWN} pixels as stored"
RESIZED = f"{OTHER} x {OTHER} pixels resized to {OWN} x {OWN} (bilinear)"
WAYS = {
    "broad-adversarial/pgd_resnet50": STORED,
    "broad-adversarial/pgd_vit": RESIZED,
    "broad-corruptions/snow": STORED,
}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model():
    return of_seed(timm.create_model, model_name=MODEL, num_classes=len(LABELS))


@pytest.fixture(scope="module")
def weights(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("weights") / "resnet.pt"
    torch.save(model.state_dict(), path)
    return path


@pytest.fixture
def extract(command, weights, tmp_path):
    """Run the command on a release; the exit code, and what it said on stdout and stderr."""
    given = {"model": f"timm:{MODEL}", "weights": weights, "device": "cpu", "out": tmp_path / "features"}

    def run(release, *flags, configs=CONFIGS):
        return command("extract", *flags, release=release, splits=",".join(configs), **given)

    return run


def logits_of(model, images):
    """The model's own, of images that get no geometry: pixels / 255, less the mean of 0.5, by the std of 0.5."""
    values = np.stack([np.asarray(image) for image in images]).transpose(0, 3, 1, 2).astype(np.float32)
    with torch.no_grad():
        return model(torch.from_numpy((values / np.float32(255) - np.float32(0.5)) / np.float32(0.5))).numpy()


def test_prepared_rows_are_evaluated_as_stored_and_a_resize_is_declared(extract, model, tmp_path, capsys):
    release = make_broad(tmp_path / "release")
    code, out, err = extract(release, "--workers", "1")
    assert code == 0 and "warning" not in err.lower(), "a slow machine draws a bar"
    for key, way in WAYS.items():
        assert f"{key}: images of {way}" in out.splitlines()
    store = FeatureStore.open(tmp_path / "features")
    assert store.identity.prepared == WAYS
    opened = load(str(release))
    for split, side in (("pgd_resnet50", OWN), ("pgd_vit", OTHER)):
        images = [row["image"] for row in opened.images("broad-adversarial", split)]
        assert {image.size for image in images} == {(side, side)}
        stored = [image.resize((OWN, OWN), Image.Resampling.BILINEAR) for image in images]  # the same size: a copy
        features = store.features("broad-adversarial", split).logits
        assert np.allclose(features, logits_of(model, stored), atol=1e-5)
        # The usual geometry gives others, by far.
        config = timm.data.resolve_data_config({}, model=model)
        usual = torch.stack([timm.data.create_transform(**config)(image) for image in images])
        with torch.no_grad():
            assert np.abs(features - model(usual).numpy()).max() > 100 * 1e-5

    scores = tmp_path / "scores.parquet"
    flags = ["--detectors", "msp,temperature", "--no-search", "--out", str(scores)]
    assert main(["score", "--features", str(tmp_path / "features"), *flags]) == 0
    assert "fitted: broad-reference/held_out" in capsys.readouterr().out
    assert read_scores(scores)[1].prepared == WAYS

    report = ["report", "--release", str(release), "--scores", str(scores), "--protocol", "broad", "--no-plots"]
    assert main([*report, "--out", str(tmp_path / "report")]) == 0
    note = f"timm:{MODEL} got images of {RESIZED}: broad-adversarial/pgd_vit"
    assert f"note: {note}\n" in capsys.readouterr().out and note in page_of(tmp_path / "report")
    figures = figures_of(tmp_path / "report").to_dict("records")
    assert {line["prepared"] for line in figures} == {json.dumps(WAYS)}
    assert {line["setting"] for line in figures if line["protocol"] == "broad"} == {"dsd", "ed"}
    # Three quarters of the 12 clean rows are of the 17 classes.
    assert {line["n_known"] for line in figures if line["unknown"] == "cocomagenet" and not line["statistic"]} == {9}


SNOW = ("broad-corruptions", "snow")
SPLIT = "broad-corruptions/snow"


@pytest.fixture
def runner(weights, tmp_path):
    """Runs the model on one split, whose images are prepared for it."""
    release = load(str(make_broad(tmp_path / "release", {"/".join(SNOW): SPLITS["/".join(SNOW)]})))
    return Runner(release, open_model(f"timm:{MODEL}", weights, LABELS, device="cpu"), batch_size=5, workers=1)


def test_a_batch_that_the_memory_does_not_hold_is_refused_with_a_smaller_one(runner, tmp_path):
    """Other errors of torch stay what they are."""

    def compute(model, images, ids):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with stops(EvaluationError, "5 images", "batch_size=2"):
        fill(runner, compute, RowTable(tmp_path / "none"), [SNOW], lambda count: None)

    def fails(model, images, ids):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        fill(runner, fails, RowTable(tmp_path / "failed"), [SNOW], lambda count: None)


def test_other_decoders_are_another_environment(runner, monkeypatch):
    """Rows of two versions of Pillow stood in one split, of which nothing was said."""
    before = runner.environment()
    monkeypatch.setattr(PIL, "__version__", "10.0.0")
    assert {name for name, value in runner.environment().items() if value != before[name]} == {"images"}


def test_a_release_that_says_nothing_is_evaluated_with_the_usual_geometry(extract, model, tmp_path):
    key = "broad-adversarial/pgd_resnet50"
    only = {key: SPLITS[key]}
    release = make_broad(tmp_path / "silent", only, sides={key: 0})
    code, out, _ = extract(release, configs=("broad-adversarial",))
    assert code == 0
    assert "pixels" not in out
    assert "prepared" not in json.loads((tmp_path / "features" / "identity.json").read_text(encoding="utf-8"))
    config = timm.data.resolve_data_config({}, model=model)
    images = [row["image"] for row in load(str(release)).images("broad-adversarial", "pgd_resnet50")]
    usual = torch.stack([timm.data.create_transform(**config)(image) for image in images])
    with torch.no_grad():
        expected = model(usual).numpy()
    features = FeatureStore.open(tmp_path / "features").features("broad-adversarial", "pgd_resnet50").logits
    assert np.allclose(features, expected, atol=1e-5)

    # The same rows under a manifest that says more are not mixed with these features.
    (tmp_path / "telling").mkdir()
    telling = make_broad(tmp_path / "telling" / "silent", only)
    code, _, err = extract(telling, configs=("broad-adversarial",))
    assert code == 2
    assert_sentence(err, STORED, key)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_an_image_of_another_size_than_its_manifest_says_is_named(extract, tmp_path, workers):
    key = "broad-adversarial/pgd_vit"
    release = make_broad(tmp_path / "release", {key: SPLITS[key]}, sides={key: OWN})
    code, _, err = extract(release, "--workers", workers, configs=("broad-adversarial",))
    assert code == 2
    assert_sentence(err, "imagenet/val/0.png#broad-adversarial-pgd_vit", "160")
    assert "Traceback" not in err
