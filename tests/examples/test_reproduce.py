"""The grid of methods and seeds on scikit-learn's digits, and the published tables."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders.executors.ray_cluster import needs_ray, start_cluster
from tests.examples.paths import EXAMPLES, SHARED

for _package in ("torch", "pytorch_ood", "torchvision", "sklearn"):
    pytest.importorskip(_package, reason=f"needs {_package}, of the extras train and evaluate")

from examples import reproduce, train  # noqa: E402
from unknown_detection.evaluation.__main__ import main as evaluation  # noqa: E402
from unknown_detection.evaluation.errors import EvaluationError  # noqa: E402
from unknown_detection.evaluation.metrics.metrics import auroc  # noqa: E402
from unknown_detection.evaluation.releases import load  # noqa: E402
from unknown_detection.evaluation.scoring.scores import read_scores  # noqa: E402

NETS = EXAMPLES.parent / "tests" / "examples" / "small_nets.py"
QUICK = ("--epochs=2", "--batch=32", "--rate=0.03", "--external=digits/external_validation")


def in_this_process(command, log):
    """Run the same commands without a new process, which would import torch again each time."""
    assert command[0] == sys.executable
    with log.open("a") as file:
        file.write(" ".join(command) + "\n")
    if command[1] == "-m":
        workers = ["--workers=0"] if "--model" in command else []  # processes that read a few small images
        assert command[2:4] == ["unknown_detection", "evaluate"] and evaluation([*command[4:], *workers]) == 0
        return
    with pytest.raises(SystemExit) as ended:
        train.main(command[2:])
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def grid(digits_release, tmp_path_factory):
    """Four methods with two seeds, and two pairs of margins for energy."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    made = reproduce.Grid(
        str(digits_release),
        "digits",
        tmp_path_factory.mktemp("grid"),
        ("cpu",),
        seeds=2,
        methods=("ce", "edl", "mcdropout", "energy"),
        model=f"{NETS}:small",
        train_options=QUICK,
        margins=((-27, -5), (-5, -1)),
        execute=in_this_process,
    )
    made.run()
    yield made
    torch.set_num_threads(threads)


def test_every_row_of_the_table_has_its_runs(grid):
    """All detectors judge what they were trained for; the ensemble is one run of all seeds."""
    ours = reproduce.report(grid)
    assert {method for method, _ in ours} == {
        "MCP", "EDL", "MCdropout", "Ensemble", "ODIN", "Energy", "ReAct", "OpenMax"
    }  # fmt: skip
    columns = {column for _, column in ours}
    splits = ("near_ood", "far_ood_textures", "far_ood_noise")
    assert columns == {
        ("misclassification_detection", "", "accuracy"),
        ("misclassification_detection", "", "aurc"),
        ("unknown_detection", "", "aurc"),
        *(
            ("ood_detection", split, metric)
            for split in splits
            for metric in ("fpr_at_95_tpr_known_positive", "auroc")
        ),
    }
    assert {method: len(values) for (method, _), values in ours.items()} == {
        "MCP": 2, "EDL": 2, "MCdropout": 2, "Ensemble": 1, "ODIN": 2, "Energy": 2, "ReAct": 2, "OpenMax": 2
    }  # fmt: skip
    accuracy = ("misclassification_detection", "", "accuracy")
    assert all(min(values) > 50 for (_, column), values in ours.items() if column == accuracy)  # chance: 16.7 %
    log = (grid.out / "logs" / "ce-seed0.log").read_text()
    grid.run()
    assert (grid.out / "logs" / "ce-seed0.log").read_text() == log  # nothing is done twice

    reproduce.write_tables(grid.out, ours, {})
    rows = {(row["method"], row["unknown"], row["metric"]): row for row in _rows(grid.out / "table.csv")}
    vacuity = rows["EDL", "near_ood", "auroc"]
    first, second = ours["EDL", ("ood_detection", "near_ood", "auroc")]
    assert float(vacuity["mean"]) == pytest.approx((first + second) / 2, abs=0.006)
    assert float(vacuity["std"]) == pytest.approx(abs(first - second) / 2**0.5, abs=0.006)
    assert vacuity["runs"] == "2" and rows["Ensemble", "", "accuracy"]["std"] == ""


def test_margins_are_chosen_on_external_validation(grid):
    """By scikit-learn's area of the energies of validation against external_validation."""
    from sklearn.metrics import roc_auc_score

    release, areas = load(grid.release), {}
    for margins in grid.margins:
        table, _ = read_scores(grid.out / "scores" / f"energy{margins[0]}{margins[1]}-seed0.parquet")
        scores = dict(zip(table["id"].to_pylist(), table["score"].to_pylist(), strict=True))
        known, external = (
            release.rows("digits", split)["id"].to_pylist() for split in ("validation", "external_validation")
        )
        truth = [0] * len(known) + [1] * len(external)
        areas[margins] = roc_auc_score(truth, [scores[id_] for id_ in known + external])
        assert grid._external_auroc(margins) == pytest.approx(areas[margins], rel=1e-12)
        assert auroc([scores[id_] for id_ in known + external], [bool(unknown) for unknown in truth]) > 0.5
    best = max(areas, key=areas.get)
    assert [path.name for path in grid.scores()["energy"]] == [
        f"energy{best[0]}{best[1]}-seed{seed}.parquet" for seed in (0, 1)
    ]
    assert not (grid.out / "scores" / f"energy{min(areas, key=areas.get)[0]}-seed1.parquet").exists()


def test_edl_s_objective_is_chosen_by_validation_accuracy(grid):
    """With the first seed, from what each training logged last; the other seeds train with the best only."""
    reached = {}
    for objective in ("log", "digamma", "mse"):
        lines = (grid.out / "models" / f"edl-{objective}-seed0" / "log.jsonl").read_text().splitlines()
        reached[objective] = json.loads(lines[-1])["validation_accuracy"]
        log = (grid.out / "logs" / f"edl-{objective}-seed0.log").read_text()
        assert f"--objective {objective}" in log
    best = max(reached, key=reached.get)
    assert [path.name for path in grid.scores()["edl"]] == [f"edl-{best}-seed{seed}.parquet" for seed in (0, 1)]
    names = [path.name for path in (grid.out / "models").glob("edl-*-seed1")]
    assert names == [f"edl-{best}-seed1"]


def test_a_command_that_fails_names_its_log(tmp_path):
    with pytest.raises(EvaluationError, match=re.escape(str(tmp_path / "log"))):
        reproduce.execute([sys.executable, "-c", "raise SystemExit('no such thing')"], tmp_path / "log")
    assert "no such thing" in (tmp_path / "log").read_text()


def test_jobs_never_share_a_device(tmp_path):
    """Six jobs on two devices: never two on one, and both are used."""
    import threading

    grid = reproduce.Grid("", "", tmp_path, ("cuda:0", "cuda:1"))
    busy, used, lock, barrier = set(), [], threading.Lock(), threading.Barrier(2, timeout=20)

    def job(device):
        with lock:
            assert device not in busy
            busy.add(device)
            used.append(device)
        barrier.wait()
        with lock:
            busy.remove(device)

    grid._on_devices([job] * 6)
    assert sorted(used) == ["cuda:0"] * 3 + ["cuda:1"] * 3


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the worker of a command in /proc")
def test_a_cluster_s_training_that_is_killed_goes_on_to_the_same_weights(digits_release, tmp_path):
    """Its worker is killed behind the first epoch: the command ends with it, and the task is run again."""
    many = (*QUICK, "--epochs=20")  # so that the first is not the last by the time that it is noticed
    flags = ["--config=digits", "--methods=ce", "--seeds=1", f"--model={NETS}:small", f"--out={tmp_path}"]
    command = [sys.executable, str(EXAMPLES / "reproduce.py"), f"--release={digits_release}", *flags, "--executor=ray"]
    with start_cluster(num_cpus=2) as cluster:
        command += [f"--ray-address={cluster.address}", *many]
        environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
        process = subprocess.Popen(command, cwd=EXAMPLES.parent, env=environment, stdout=-1, stderr=-1, text=True)
        while not (tmp_path / "models" / "ce-seed0" / "checkpoint.pt").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        ((training, worker),) = processes_with(str(tmp_path / "models" / "ce-seed0"))
        os.kill(worker, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while (Path("/proc") / str(training) / "cmdline").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not (Path("/proc") / str(training) / "cmdline").exists()
        out, err = process.communicate(timeout=500)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("1 of 1 trained and scored\n")
    log = (tmp_path / "logs" / "ce-seed0.log").read_text()
    counts = [
        log.count(f"$ {sys.executable} {step}")
        for step in (EXAMPLES / "train.py", "-m unknown_detection evaluate extract")
    ]
    assert counts == [2, 1]
    alone = ["--known=digits-train", "--method=ce", "--seed=0", "--device=cpu", f"--out={tmp_path / 'alone'}"]
    with pytest.raises(SystemExit):
        train.main([f"--release={digits_release}", f"--model={NETS}:small", *alone, *many])
    weights = tmp_path / "models" / "ce-seed0" / "weights.safetensors"
    assert weights.read_bytes() == (tmp_path / "alone" / "weights.safetensors").read_bytes()


def processes_with(text):
    """Processes in whose command a text stands, but for those of this test's own, each with its parent."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if text.encode() in words:
                yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def test_the_published_figures_stand_in_the_paper():
    """Each method's line of the two tables, figure by figure in the order of the columns."""
    rows = _rows(reproduce.PUBLISHED)
    assert len(rows) == 11 * 13 + 11 * 11
    assert {row["method"] for row in rows} == set(reproduce.ROWS)
    assert {row["source"][-7:] for row in rows} == {"table 6", "table 7"}
    paper = SHARED / "papers" / "unified-unknown-detection.txt"
    if not paper.is_file():
        pytest.skip(f"the text of the paper is not at {paper}")
    text = paper.read_text()
    for config, title in (("cifar", "Table 6: "), ("imagenet", "Table 7: ")):
        table = text[text.index(title) :]
        for method in reproduce.ROWS:
            line = "\n".join(
                row["mean"] + row["std"] for row in rows if (row["config"], row["method"]) == (config, method)
            )
            assert f"\n{method}\n{line}\n" in table[:3000], (config, method)


def _rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
