"""Extraction: what it keeps, that a row's numbers are its own, kills and reruns, and what is refused."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.builders.conftest import files_of
from tests.evaluation import small_models
from tests.evaluation.extra import timm, torch
from tests.evaluation.refusals import refused
from tests.evaluation.report.as_text import page_of
from tests.evaluation.samples import CONFIG, SPLITS, fitted, small_release
from tests.evaluation.small_models import of_seed
from tests.sentences import assert_sentence
from tests.unknown_detection.terminal.running import interrupted
from tests.unknown_detection.terminal.test_progress import Screen
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.features.runner import default_workers
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.releases import load
from unknown_detection.evaluation.scoring.scores import read_scores

FILE = Path(small_models.__file__)
ROOT = FILE.parents[2]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def extract(command, release, weights, tmp_path):
    """Run the command; the exit code, and what it said on stdout and stderr."""

    def run(*flags, out="out", where=release, config=CONFIG, model=f"{FILE}:cnn", path=weights):
        splits = {} if "--splits" in flags or config is None else {"splits": config}
        given = {"release": where, "model": model, "weights": path, "device": "cpu", "out": tmp_path / out}
        return command("extract", *flags, **given, **splits)

    return run


def only(names):
    """Flags that name some splits."""
    return "--splits", ",".join(f"{CONFIG}/{name}" for name in names.split(","))


def features_of(tmp_path, split="test", out="out", config=CONFIG):
    return FeatureStore.open(tmp_path / out).features(config, split)


def require_equal(features, expected):
    """Bit for bit, but for the last digit of logits."""
    arrays = zip((features.penultimate, *features.blocks), (expected.penultimate, *expected.blocks), strict=True)
    assert all(np.array_equal(values, of_expected) for values, of_expected in arrays)
    # A matrix as small as this model's last, 10 x 4, is multiplied in another way at the end of a batch.
    assert np.abs(features.logits - expected.logits).max() < 1e-6 * np.abs(expected.logits).max()


def test_features_are_those_of_the_model(release, extract, tmp_path):
    """Against the model itself, run on the images one by one."""
    code, out, _ = extract()
    assert code == 0
    assert f"{CONFIG}/test: 40 of 40 images" in out.splitlines()
    model = fitted(small_models.cnn)
    rows = load(str(release)).rows(CONFIG, "test")
    images = load(str(release)).images(CONFIG, "test")
    features = features_of(tmp_path)
    assert features.ids.tolist() == rows["id"].to_pylist()
    assert features.labels.tolist() == rows["label"].to_pylist()
    for number in range(len(features)):
        values = (np.asarray(images[number]["image"]) / 255 - small_models.MEAN) / small_models.STD
        image = torch.from_numpy(values.transpose(2, 0, 1)[None]).float()
        with torch.no_grad():
            first = model.layer1(image)
            second = model.layer2(first)
            assert np.allclose(features.logits[number], model(image)[0], atol=1e-4)
        assert np.allclose(features.blocks[0][number], first.mean((2, 3))[0], atol=1e-5)
        assert np.allclose(features.penultimate[number], second.mean((2, 3))[0], atol=1e-5)
    head = FeatureStore.open(tmp_path / "out").head()
    assert np.allclose(features.penultimate @ head.weight.T + head.bias, features.logits, atol=1e-4)
    assert (features.logits.argmax(1) == features.labels).mean() > 0.9
    assert (features_of(tmp_path, "near_ood").labels == -1).all()


def test_a_share_ends_with_what_is_left_to_do(extract):
    """Its last line named `score` as the next command, which such a folder is refused by."""
    last = extract(*only("test"), "--share", "1/2")[1].splitlines()[-1]
    assert last.startswith("share 1/2 is in ") and last.endswith("run the same command without --share")
    assert "evaluate score --features" in extract(*only("test"))[1].splitlines()[-1]


def test_a_split_that_is_gone_is_computed_again_and_damage_is_named(extract, tmp_path):
    flags = only("test,near_ood")
    assert extract(*flags)[0] == 0
    complete = files_of(tmp_path / "out")
    folder = tmp_path / "out" / "features"
    (near,) = folder.glob(f"{CONFIG}.near_ood.*")
    near.unlink()
    assert main(["score", "--features", str(tmp_path / "out"), "--out", str(tmp_path / "scores.parquet")]) == 2
    assert f"{CONFIG}/near_ood: 24 images" in extract(*flags, "--dry-run")[1]
    assert f"{CONFIG}/near_ood: 24 of 24 images" in extract(*flags)[1].splitlines()
    assert files_of(tmp_path / "out") == complete
    (first,) = folder.glob(f"{CONFIG}.test.*")
    first.write_bytes(b"")
    code, _, errors = extract(*flags)
    assert code == 2
    assert f"{first} is damaged. Delete it, and run the command that wrote it again" in errors


def test_a_network_that_always_drops_has_the_same_features_at_every_run(extract, tmp_path):
    """Those without dropout."""
    flags = only("test")
    for out in ("one", "two"):
        assert extract(*flags, out=out, model=f"{FILE}:always_dropping")[0] == 0
    assert extract(*flags, out="never")[0] == 0
    first, second, never = (features_of(tmp_path, out=out).logits for out in ("one", "two", "never"))
    assert np.array_equal(first, second)
    assert np.array_equal(first, never)


def test_a_row_has_its_numbers_wherever_it_stands(extract, release, tmp_path):
    """Bit for bit: with workers, in another order, without the rows beside it, in a batch that is not full."""
    flags = (*only("test,far_ood_noise"), "--batch-size", "16")
    assert extract(*flags)[0] == 0
    assert extract(*flags, "--workers", "2", out="workers")[0] == 0
    assert files_of(tmp_path / "workers") == files_of(tmp_path / "out")
    order = [*range(39, 12, -3), *range(0, 39, 5)]
    small_release(tmp_path / "other", {f"{CONFIG}/test": order})
    assert extract("--batch-size", "16", out="shuffled", where=tmp_path / "other")[0] == 0
    shuffled = features_of(tmp_path, out="shuffled")
    assert shuffled.ids.tolist() == [f"source/test/{number}.png" for number in order]
    require_equal(shuffled, features_of(tmp_path).take(np.array(order)))


@pytest.mark.parametrize("spec", [f"{FILE}:cnn", "timm:vit_tiny_r_s16_p8_224"], ids=["cnn", "vit"])
def test_another_batch_size_changes_the_last_digits_only(extract, weights, release, tmp_path, spec):
    """By less than 1e-5 of a column's largest number, as the docstring of `extract` says."""
    how = {"model": spec, "path": weights, "where": release}
    if spec.startswith("timm"):
        how["path"] = tmp_path / "timm.pt"
        torch.save(of_seed(timm.create_model, model_name=spec[5:], num_classes=4).state_dict(), how["path"])
        how["where"] = small_release(tmp_path / "few", {f"{CONFIG}/test": range(5)})
    for size in ("1", "4"):
        assert extract(*only("test"), "--batch-size", size, out=size, **how)[0] == 0
    single, other = (
        (of.logits, of.penultimate, *of.blocks) for of in (features_of(tmp_path, out=name) for name in "14")
    )
    for one, four in zip(single, other, strict=True):
        assert np.abs(one - four).max() < 1e-5 * np.abs(one).max()


def test_a_dry_run_writes_nothing(extract, tmp_path):
    """Without --splits it is of all."""
    lines = extract("--dry-run", config=None)[1].splitlines()
    assert sorted(line.partition(":")[0] for line in lines if line.endswith(" bytes")) == sorted(SPLITS)
    code, out, _ = extract(*only("test"), "--dry-run")
    assert code == 0
    # Logits, penultimate and two blocks of 4, 10, 6 and 10 float32, and the label.
    assert f"{CONFIG}/test: 40 images, {40 * (4 * (4 + 10 + 6 + 10) + 8):,} bytes" in out.splitlines()
    assert out.splitlines()[-1] == "nothing was written"
    assert not (tmp_path / "out").exists()
    extract(*only("test"))
    assert f"{CONFIG}/test: there already" in extract(*only("test"), "--dry-run")[1].splitlines()


def test_a_run_that_is_killed_goes_on_to_the_same_bytes(extract, weights, tmp_path):
    """With SIGKILL after its first part, and with a worker, which ends too."""
    release = small_release(tmp_path / "long", {f"{CONFIG}/near_ood": range(1100), f"{CONFIG}/test": range(20)})
    model = f"{FILE}:slow"
    assert extract(where=release, model=model, out="undisturbed")[0] == 0
    arguments = {"--release": release, "--splits": CONFIG, "--model": model, "--weights": weights, "--device": "cpu"}
    arguments |= {"--out": tmp_path / "killed", "--workers": 1}
    command = [sys.executable, *("-m", "unknown_detection", "evaluate", "extract")]
    command += [str(text) for pair in arguments.items() for text in pair]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE)
    folder = tmp_path / "killed" / "features"
    while process.poll() is None and not list(folder.glob(f"{CONFIG}.near_ood.*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    # The worker has ended too, with or without a complaint, once nobody holds its stderr open any more.
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    blocks = len(list(folder.glob(f"{CONFIG}.near_ood.*")))
    assert 1 <= blocks < 3
    code, out, _ = extract(where=release, model=model, out="killed")
    assert code == 0
    assert f"{CONFIG}/test: there already, 20 images" in out.splitlines()
    assert f"{CONFIG}/near_ood: {1100 - 512 * blocks:,} of 1,100 images" in out.splitlines()
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "undisturbed")


def test_ctrl_c_keeps_finished_splits_and_says_so(extract, release, weights, tmp_path):
    """While the second split is written; the worker, which the terminal interrupts too, says nothing."""
    assert extract(out="undisturbed")[0] == 0
    options = {"--release": release, "--splits": CONFIG, "--model": f"{FILE}:cnn", "--weights": weights}
    options |= {"--device": "cpu", "--out": tmp_path / "stopped", "--workers": 1}
    arguments = ["extract", *(text for pair in options.items() for text in pair)]
    how = {"at": f"os.rename:/{CONFIG}.near_ood.", "env": {"OMP_NUM_THREADS": "1"}}
    process = interrupted("unknown_detection", "evaluate", *arguments, **how)
    message = "stopped; what is finished is kept. Run the same command again to continue.\n"
    assert (process.returncode, process.stderr) == (130, message)
    code, out, _ = extract(out="stopped")
    assert code == 0
    assert f"{CONFIG}/test: there already" in out
    assert files_of(tmp_path / "stopped") == files_of(tmp_path / "undisturbed")


COUNTING = """
from tests.evaluation import small_models

def cnn(num_classes):
    model = small_models.cnn(num_classes)
    def note(module, images):
        with open({path!r}, "a") as file:
            file.write(str(len(images[0])) + " ")
    model.register_forward_pre_hook(note)
    return model
"""


def test_an_image_of_several_configs_is_run_once(extract, tmp_path):
    other = f"{CONFIG}-train"
    mixed = [*range(60, 20, -1), 3, 90]
    release = small_release(
        tmp_path / "shared", {f"{CONFIG}/test": range(50), f"{CONFIG}/near_ood": [1], f"{other}/test": mixed}
    )
    (tmp_path / "counting.py").write_text(COUNTING.format(path=str(tmp_path / "ran")))
    how = {"where": release, "model": f"{tmp_path / 'counting.py'}:cnn"}
    flags = ("--batch-size", "5")
    assert extract(*flags, out="alone", config=other, **how)[0] == 0
    assert extract(*flags, **how)[0] == 0
    (tmp_path / "ran").unlink()
    code, out, _ = extract(*flags, config=other, **how)
    assert code == 0
    # Of 42 images the first has those from 3 and from 21 to 49: 12 are left, in three batches.
    assert f"{other}/test: 12 of 42 images" in out.splitlines()
    assert [size for size in (tmp_path / "ran").read_text().split() if size == "5"] == ["5"] * 3
    reused, computed = (features_of(tmp_path, out=name, config=other) for name in ("out", "alone"))
    assert reused.ids.tolist() == computed.ids.tolist() == [f"source/test/{number}.png" for number in mixed]
    assert np.array_equal(reused.labels, computed.labels)
    require_equal(reused, computed)
    assert f"{other}/test: there already, 42 images" in extract(*flags, config=other, **how)[1].splitlines()
    # Numbers that were computed in another way are not taken.
    assert extract("--batch-size", "6", *only("test"), out="six", **how)[0] == 0
    assert f"{other}/test: 42 of 42 images" in extract(*flags, out="six", config=other, **how)[1].splitlines()


def test_logits_that_are_no_numbers(extract, tmp_path):
    state = fitted(small_models.cnn).state_dict()
    state["fc.bias"][1] = float("nan")
    torch.save(state, tmp_path / "nan.pt")
    assert "logits of small_models.py:cnn is NaN or infinite for 40 images" in refused(
        extract(path=tmp_path / "nan.pt")
    )


@pytest.mark.parametrize("flags", [(), ("--quiet",)], ids=["bars", "quiet"])
def test_bars_on_a_terminal(extract, monkeypatch, flags):
    """Rows, time left and images a second; elsewhere nothing at all, as other tests see."""
    monkeypatch.setattr(sys, "stderr", Screen())
    assert extract(*only("test"), *flags)[0] == 0
    shown = sys.stderr.getvalue()
    if flags:
        assert shown == ""
    else:
        assert f"{CONFIG}/test: 100%" in shown
        assert "40/40" in shown
        assert "images/s]" in shown


def test_a_published_accuracy_that_differs_ends_the_run_before_other_splits(extract, release, tmp_path):
    """With --accept it goes on; then `score` does not ask again, and the page of the report says so first."""
    assert extract(*only("test,validation"), "--published-accuracy", "50", "--dry-run")[0] == 0
    ran = extract(*only("validation,test,near_ood,far_ood_noise"), "--published-accuracy", "50")
    assert re.search(r"cnn is right on \d+\.\d\d % of the 40 rows of small/test, but 50 % are published", refused(ran))
    assert FeatureStore.open(tmp_path / "out").splits == (f"{CONFIG}/test",)
    scores, page = tmp_path / "s.parquet", tmp_path / "report"
    scored = ["score", "--features", str(tmp_path / "out"), "--detectors", "msp", "--out", str(scores)]
    code, output, _ = extract(
        *only("validation,test,near_ood,far_ood_noise"), "--published-accuracy", "50", "--accept"
    )
    assert code == 0
    features = features_of(tmp_path)
    right = f"{100 * (features.logits.argmax(1) == features.labels).mean():.2f}"
    line = f"accuracy {right} % of 40 rows of small/test; published: 50 %"
    assert line in output.splitlines()
    assert main(scored) == 0
    source = read_scores(scores)[1].source
    assert source["accuracy"] == "50"
    assert line in source["receipt"]
    judged = ["report", "--release", str(release), "--scores", str(scores), "--protocol", "openood", "--no-plots"]
    assert main([*judged, "--out", str(page)]) == 0
    before = page_of(page).partition("Zhang et al.")[0]
    warning = rf"cnn is right on {right} % of the 40 rows of small/test, but 50 % are published"
    assert re.search(rf"Before you use the figures.*{warning}.*the run went on with --accept", before, re.DOTALL)


def test_what_was_not_accepted_ends_the_scoring(extract, tmp_path):
    """Another figure, said later of features that are there."""
    assert extract(*only("validation,test,near_ood"))[0] == 0
    assert extract(*only("test"), "--published-accuracy", "40")[0] == 2
    scored = ["score", "--features", str(tmp_path / "out"), "--detectors", "msp", "--out", str(tmp_path / "s.parquet")]
    assert main(scored) == 2
    assert main([*scored, "--accept"]) == 0
    assert "but 40 % are published" in read_scores(tmp_path / "s.parquet")[1].source["accepted"]


def test_a_head_that_is_not_linear_keeps_the_detectors_that_do_not_read_it(extract, command, tmp_path):
    """MSP, KNN and the like are scored; among all, ViM and the like are left out with the reason."""
    code, out, _ = extract(config=f"{CONFIG},{CONFIG}-train", model=f"{FILE}:scaled")
    assert code == 0 and "the logits are no linear layer's" in out
    assert not (tmp_path / "out" / "head.arrow").exists()
    score, scores = ("score", "--no-search"), tmp_path / "scores.parquet"
    code, _, err = command(*score, features=tmp_path / "out", out=scores, detectors="msp,knn,vim")
    assert code == 3
    assert_sentence(err)
    code, out, _ = command(*score, features=tmp_path / "out", out=scores, detectors="all")
    (note,) = (line for line in out.splitlines() if line.startswith("left out: "))
    assert re.search(r"[ ,]vim[ ,][^;]*\(reads the model's last layer, found none", note)
    detectors = set(read_scores(scores)[0]["detector"].to_pylist())
    assert {"msp", "energy", "knn", "mahalanobis"} <= detectors
    assert not {"vim", "react", "dice", "ash", "scale", "gradnorm", "fdbd"} & detectors


def test_the_workers_by_default_are_as_many_as_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)))
    assert default_workers() == 6
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    assert default_workers() == 0  # one core decodes best in the process that needs the images
