"""`evaluate softmax`: mean softmax outputs by class, against NumPy's on the same logits."""

import csv

import numpy as np
import pytest

from tests.evaluation.stored import put
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.demo.release import CONFIG, KNOWN, NEAR
from unknown_detection.evaluation.features.store import FeatureStore, Identity
from unknown_detection.evaluation.models.features import Head
from unknown_detection.evaluation.releases import load

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

HEAD = Head(np.eye(len(KNOWN), dtype=np.float32), np.zeros(len(KNOWN), np.float32))
SPLITS = ("near_ood", "test")


def write_features(digits, out, seed, digest=""):
    """Features of a model whose logits are random; by split, the classes of the rows and their probabilities."""
    release, by_split = load(str(digits)), {}
    identity = Identity(digest or release.digest, "net", f"{seed}" * 64, KNOWN, (), {})
    store = FeatureStore.begin(out, identity, HEAD)
    for split in SPLITS:
        rows = release.rows(CONFIG, split)
        logits = 3 * np.random.default_rng([seed, len(split)]).normal(size=(len(rows), len(KNOWN)))
        logits = logits.astype(np.float32)
        put(store, (CONFIG, split), rows["id"], rows["label"].to_pylist(), {"logits": logits, "penultimate": logits})
        raised = np.exp(logits.astype(float))
        by_split[split] = np.array(rows["class_name"].to_pylist()), raised / raised.sum(axis=1, keepdims=True)
    return by_split


def read_means(path):
    with path.open(newline="") as file:
        head, *lines = csv.reader(file)
    return head, {line[0]: (int(line[1]), [float(value) for value in line[2:]]) for line in lines}


def test_softmax_outputs_are_averaged_over_the_images_of_each_class(digits, tmp_path, capsys):
    """Without --splits, of the splits of unknowns alone; classes that are taken for one known class stand together."""
    known, probabilities = write_features(digits, tmp_path / "one", seed=1)["near_ood"]
    arguments = ["softmax", "--features", str(tmp_path / "one"), "--release", str(digits), "--out"]
    assert main([*arguments, str(tmp_path / "out")]) == 0
    names = [f"softmax-digits-near-ood.{suffix}" for suffix in ("csv", "png", "svg")]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    head, means = read_means(tmp_path / "out" / names[0])
    assert head == ["class", "images", *KNOWN]
    assert sorted(means) == sorted(set(known.tolist())) and len(means) == len(NEAR)
    for name, (count, values) in means.items():
        assert count == (known == name).sum()
        assert values == pytest.approx(probabilities[known == name].mean(axis=0).tolist(), abs=1e-6)
    taken_for = [int(np.argmax(values)) for _, values in means.values()]
    assert taken_for == sorted(taken_for)
    assert f"digits/near_ood: {len(NEAR)} classes, {len(known)} images: " in capsys.readouterr().out
    svg = (tmp_path / "out" / names[2]).read_text(encoding="utf-8")
    assert all(f">{name}<" in svg for name in [*means, "softmax (%)"])
    assert main([*arguments, str(tmp_path / "again")]) == 0
    assert all((tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in names)


def test_an_ensemble_s_outputs_are_the_mean_of_its_members(digits, tmp_path):
    members = [write_features(digits, tmp_path / name, seed)["test"] for seed, name in ((1, "one"), (2, "two"))]
    flags = ["--features", str(tmp_path / "one"), "--member", str(tmp_path / "two"), "--splits", f"{CONFIG}/test"]
    assert main(["softmax", "--release", str(digits), *flags, "--out", str(tmp_path / "out")]) == 0
    _, means = read_means(tmp_path / "out" / "softmax-digits-test.csv")
    (names, first), (_, second) = members
    for name, (_, values) in means.items():
        expected = (first + second)[names == name].mean(axis=0) / 2
        assert values == pytest.approx(expected.tolist(), abs=1e-6)


def test_features_of_another_release_are_refused(digits, tmp_path, capsys):
    write_features(digits, tmp_path / "other", seed=1, digest="f" * 64)
    flags = ["--features", str(tmp_path / "other"), "--release", str(digits), "--out", str(tmp_path / "out")]
    assert main(["softmax", *flags]) == 2
    assert "are of the release with digest ffffffffffff" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
