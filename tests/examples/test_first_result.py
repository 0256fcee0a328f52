"""The first result: from sources to a table beside the leaderboard, on made-up sources; and OpenOOD's recipe."""

import csv
import math
import subprocess
import sys

import pandas as pd
import pytest

for _package in ("torch", "torchvision", "pytorch_ood", "safetensors"):
    pytest.importorskip(_package, reason=f"needs {_package}, of the extras evaluate and train")

import torch  # noqa: E402
from click.testing import CliRunner  # noqa: E402

from examples import first_result, train  # noqa: E402
from tests.examples.test_train import training  # noqa: E402
from unknown_detection.evaluation.models.weights import read_state_dict  # noqa: E402
from unknown_detection.evaluation.protocols.openood import published  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def run(*flags):
    return CliRunner().invoke(first_result.main, [*map(str, flags)], catch_exceptions=False)


def steps(done):
    """The commands that were run, each of which has a line."""
    return [line.partition(": python ")[0] for line in done.output.splitlines() if ": python " in line]


def test_the_demo_runs_all_steps_once_and_writes_ours_beside_the_leaderboards(tmp_path, capfd):
    done = run("--demo", "--out", tmp_path)
    assert done.exit_code == 0 and "these figures mean nothing" in done.output
    assert "95.06 ± 0.30" in done.output, "the leaderboard's accuracy on CIFAR-10"
    with (tmp_path / "tiny-on-cifar10" / "comparison.csv").open(newline="") as opened:
        table = {line["detector"]: line for line in csv.DictReader(opened)}
    rows = published("openood-cifar10")
    assert table.keys() == {*first_result.OF_DEMO.split(",")}
    for detector, line in table.items():
        assert float(line["published near"]) == rows.near_auroc[detector]
        assert float(line["far deviation"]) == rows.far_deviation[detector]
        assert float(line["far difference"]) == pytest.approx(float(line["far"]) - rows.far_auroc[detector], abs=0.011)
    assert steps(done) == ["build", "train"]
    weights = tmp_path / "tiny-on-cifar10" / "weights.safetensors"
    before = weights.stat().st_mtime_ns
    again = run("--demo", "--out", tmp_path)
    assert again.exit_code == 0 and steps(again) == []
    assert weights.stat().st_mtime_ns == before
    assert again.output.rpartition("detector")[2] == done.output.rpartition("detector")[2]
    dry = run("--demo", "--out", tmp_path, "--dry-run")
    assert dry.exit_code == 0 and "get, build: done\ntrain: not needed\n" in dry.output


def test_a_dry_run_says_what_is_to_be_downloaded_and_makes_nothing(tmp_path, capfd):
    """The bytes of the owners' archives of CIFAR-10 and DTD, as their pages and tensorflow/datasets have them."""
    dry = run("--out", tmp_path / "out", "--dry-run", "--device", "cpu", "--epochs", "1")
    assert dry.exit_code == 0 and "1 of 100 epochs" in dry.output
    shown = capfd.readouterr().out
    assert "170,498,071" in shown and "625,239,812" in shown
    # of Places365 the validation images alone: the training images would be 26 GB, by hand
    assert "val_256.tar" in shown and "525,158,400" in shown and "by hand" not in shown
    assert not (tmp_path / "out").exists()


def test_a_copy_that_is_not_there_is_refused_before_anything_is_downloaded(tmp_path):
    done = run("--out", tmp_path / "out", "--places365", tmp_path / "places")
    assert done.exit_code == 2 and f"There is no {tmp_path / 'places'}." in done.output.replace("\n", " ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--detectors", "msp,enrgy"], "'enrgy' is not a detector"),
        (["--device", "cuda:99"], "torch cannot use cuda:99"),
        (["--weights", "none.ckpt"], "'none.ckpt' does not exist"),
    ],
)
def test_what_the_last_steps_refuse_is_refused_before_the_first(tmp_path, flags, words):
    """A detector's name was only read after the download, the build and the training."""
    script = [sys.executable, first_result.__file__, "--out", str(tmp_path / "out"), *flags]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_is_said_before_anything_is_made(tmp_path):
    flags = ["x", "--demo", "--out", str(tmp_path / "out")]
    script = f"import sys, runpy; sys.modules['pytorch_ood'] = None; sys.argv = {flags!r}"
    script += f"; runpy.run_path({first_result.__file__!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "pytorch_ood is not installed" in done.stderr
    assert "pip install -e '.[train,evaluate]'" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_openoods_checkpoints_are_all_called_best_and_have_folders_of_their_own(tmp_path):
    """The second one was refused as another model than that of the first's features."""
    asked = []
    for seed in ("s0", "s1"):
        weights = tmp_path / seed / "best.ckpt"
        weights.parent.mkdir()
        torch.manual_seed(int(seed[1]))
        torch.save(train.resnet18_openood(10).state_dict(), weights)
        asked.append(weights)
    out = tmp_path / "out"
    run("--demo", "--out", out)
    (out / "demo-release").rename(out / "release")
    for weights in asked:
        done = run("--out", out, "--weights", weights, "--detectors", "msp")
        assert done.exit_code == 0, done.output
    assert len(list(out.glob("published-best-*-on-cifar10/comparison.csv"))) == 2


def test_means_stand_beside_those_of_the_same_detector():
    """By hand: the means 0.9 and 0.8 in percent less 88.03 and 90.73, the leaderboard's line of MSP."""
    lines = [("msp", "near_ood", "tin", 1.0), ("msp", "near_ood", "cifar100", 0.8), ("msp", "far_ood", "mnist", 0.8)]
    lines += [("msp", "near_ood", "mean", 0.1), *(("own", role, "tin", 0.5) for role in ("near_ood", "far_ood"))]
    table = first_result.compare(
        pd.DataFrame(lines, columns=["detector", "role", "split", "AUROC"]), "openood-cifar10"
    )
    assert table.index.tolist() == ["msp"]
    assert table.loc["msp"].tolist() == [90.0, 88.03, 0.25, 1.97, 80.0, 90.73, 0.43, -10.73]


def test_a_checkpoint_of_openoods_names_gives_the_same_network(tmp_path):
    """Its `resnet18_32x32.py` calls a block's projection shortcut; torchvision's ResNet calls it downsample."""
    torch.manual_seed(0)
    model = train.resnet18_openood(10).eval()
    named = {name.replace(".downsample.", ".shortcut."): of for name, of in model.state_dict().items()}
    assert "layer2.0.shortcut.0.weight" in named
    torch.save(named, tmp_path / "best.ckpt")
    other = train.resnet18_openood(10).eval()
    images = torch.rand(2, 3, 32, 32)
    assert not torch.equal(other(images), model(images))
    other.load_state_dict(
        read_state_dict(first_result.of_openood(tmp_path / "best.ckpt", tmp_path / "out" / "w.safetensors"))
    )
    assert torch.equal(other(images), model(images))


def test_the_recipe_is_openoods(digits_release):
    """Its `configs/pipelines/train/baseline.yml` and `trainers/base_trainer.py`: 100 epochs of batches of 128, SGD.

    The rate of step i of n is 1e-6 + (0.1 - 1e-6) (1 + cos(pi i / n)) / 2, by `trainers/lr_scheduler.py`.
    """
    ours = training(digits_release, recipe="openood")
    assert (ours.epochs, ours.batch) == (100, 128)
    group = ours.optimizer.param_groups[0]
    assert [group[name] for name in ("momentum", "weight_decay", "nesterov")] == [0.9, 5e-4, True]
    steps = 391  # batches of 128 among 50,000 images
    for step in (0, 1, 195 * steps, 100 * steps - 1):
        expected = 1e-6 + (0.1 - 1e-6) * 0.5 * (1 + math.cos(step / (100 * steps) * math.pi))
        assert ours._rate(step / steps) == pytest.approx(expected, rel=1e-9)


def test_the_last_epoch_of_the_best_accuracy_is_kept(digits_release):
    """As its `recorders/base_recorder.py` does, which keeps an epoch that is as good as the best before."""
    ours = training(digits_release, recipe="openood")
    ours.log = [{"epoch": n, "validation_accuracy": of} for n, of in enumerate((0.5, 0.75, 0.75, 0.25), start=1)]
    assert ours.kept["epoch"] == 3
