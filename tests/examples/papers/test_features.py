"""Scripts that read a model's features: mean softmax outputs by class, and times in forward passes."""

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="runs torch models")
pytest.importorskip("torchvision", reason="prepares images")
pytest.importorskip("matplotlib", reason="draws the map")

import unknown_detection as ud  # noqa: E402
from examples.digits_cnn import digits_cnn  # noqa: E402
from tests.evaluation import small_models  # noqa: E402
from tests.evaluation.conftest import release  # noqa: E402, F401
from tests.evaluation.samples import CONFIG, fitted  # noqa: E402
from tests.examples.papers.scripts import run, script  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def test_softmax_outputs_are_averaged_over_the_images_of_each_class(digits, tmp_path):
    """Against NumPy's exponentials of the same logits; classes that are taken for one known class stand together."""
    torch.manual_seed(0)
    features = ud.extract(digits_cnn(6).eval(), digits, "digits/near_ood", cache=tmp_path / "features", workers=0)
    run("unified_softmax", tmp_path / "features", digits, "digits/near_ood", tmp_path / "out")
    means = pd.read_csv(tmp_path / "out" / "softmax.csv", index_col="class")
    raised = np.exp(features.features("digits", "near_ood").logits.astype(float))
    outputs = raised / raised.sum(axis=1, keepdims=True)
    rows = ud.load(digits).rows("digits", "near_ood").to_pandas()
    assert [*means.columns] == ["0", "1", "2", "3", "4", "6"]
    assert {*means.index} == {5, 7, 9}
    for name, values in means.iterrows():
        assert values.to_numpy() == pytest.approx(outputs[rows["class_name"] == str(name)].mean(axis=0))
    taken = means.to_numpy().argmax(axis=1)
    assert (np.diff(taken) >= 0).all()
    assert (tmp_path / "out" / "softmax.png").read_bytes().startswith(b"\x89PNG")


def test_times_are_counted_in_forward_passes(release, monkeypatch):  # noqa: F811
    """By a clock that only a forward pass moves, since the model asks to sleep in each: a detector's passes are known.

    ODIN makes one pass for the gradient and one for the logits, CADet one a crop, and MC-dropout one a sample. Ens-V
    combines ODIN, CADet and six detectors that share one ordinary pass.
    """
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    chosen = {name: ud.detectors.DETECTORS[name] for name in ("msp", "knn", "odin", "cadet", "ens_v")}
    parts = {name: ud.detectors.DETECTORS[name] for name in chosen["ens_v"].base_methods}
    dropout = ud.detectors.MCDropout(samples=4)
    monkeypatch.setattr(ud.detectors, "DETECTORS", {**parts, **chosen, dropout.name: dropout})
    features = ud.extract(fitted(small_models.slow), release, f"{CONFIG}/test,{CONFIG}-train/train", workers=0)
    monkeypatch.setattr("time.perf_counter", lambda: sum(slept))
    passes = script("broad_times")["forward_passes"](features, (CONFIG, "test"), (f"{CONFIG}-train", "train"))
    expected = {"forward": 1, "msp": 1, "knn": 1, "odin": 2, "cadet": 5, "mc_dropout": 4, "ens_v": 1 + 2 + 5}
    assert passes[[*expected]].to_dict() == pytest.approx(expected)
