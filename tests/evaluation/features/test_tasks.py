"""Extraction by tasks on a real Ray cluster of this machine: one process's bytes, and what is lost is run again."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders.errors import BuildError
from builders.executors.local import LocalExecutor
from builders.executors.ray import RayExecutor
from tests.builders.conftest import files_of
from tests.builders.executors.ray_cluster import needs_ray, start_cluster
from tests.evaluation import small_models
from tests.evaluation.extra import torch
from tests.evaluation.refusals import refusal
from tests.evaluation.samples import CONFIG, LABELS, fitted, small_release
from tests.sentences import assert_sentence, stops
from unknown_detection.evaluation.__main__ import main
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features import runner
from unknown_detection.evaluation.features.extract import extract
from unknown_detection.evaluation.features.runner import Opening, on_a_cluster
from unknown_detection.evaluation.models.models import open_model

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.timeout(300)

NODE = "A_TEST_S_FOLDER"
"""Variable of the cluster's processes, and of no other: a folder in which the model below leaves notes."""

MODEL = f"""
import os
import signal
import time
from pathlib import Path

from tests.evaluation.small_models import Small

notes = Path(os.environ["{NODE}"]) if "{NODE}" in os.environ else None


class Noted(Small):
    def forward(self, images):
        if notes and (notes / "kill").exists() and len(images) == 8:
            (notes / "kill").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(images)


def cnn(num_classes):
    if notes:
        with (notes / "opened").open("a") as file:
            file.write(f"{{os.getpid()}}\\n")
    return Noted(num_classes)


def elsewhere(num_classes):
    if notes:
        import a_package_of_one_machine
    return Noted(num_classes)


class Slow(Noted):
    def forward(self, images):
        time.sleep(0.3 if notes and len(images) == 8 else 0)
        return super().forward(images)


def slow(num_classes):
    return Slow(num_classes)
"""

SPLITS = {
    f"{CONFIG}/test": range(60),
    f"{CONFIG}/validation": range(100, 160),
    f"{CONFIG}/near_ood": range(24),
    # As FACETS' configs have it: images of test again, and others.
    f"{CONFIG}-again/test": range(30, 90),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A release, a model's file and its weights; read only."""
    folder = tmp_path_factory.mktemp("given")
    small_release(folder / "release", SPLITS)
    (folder / "model.py").write_text(MODEL)
    torch.save(fitted(small_models.cnn).state_dict(), folder / "cnn.pt")
    return folder


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def cluster(notes, tmp_path_factory):
    """Address of a cluster with two cores, and a GPU in name."""
    environment = {NODE: str(notes), "HF_DATASETS_CACHE": str(tmp_path_factory.mktemp("cache"))}
    with start_cluster(environment, num_cpus=2, num_gpus=1) as started:
        yield started.address


@pytest.fixture(scope="module")
def executor(cluster):
    with RayExecutor(cluster) as executor:
        yield executor


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Blocks of 16 rows and tasks of one block: the driver says so to its tasks."""
    monkeypatch.setattr(runner, "ROWS", 16)
    monkeypatch.setattr("unknown_detection.evaluation.features.runner._PARTS", 1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def extracted(folder, out, executor=None, function="cnn", **options):
    """The files of an extraction, and the lines that it logged."""
    lines = []
    options = {"weights": folder / "cnn.pt", "device": "cpu", "batch_size": 8, "log": lines.append} | options
    extract(f"{folder / 'model.py'}:{function}", folder / "release", cache=out, executor=executor, **options)
    return {name: data for name, data in files_of(out).items() if name != ".lock"}, lines


@needs_ray
@pytest.mark.parametrize("workers", [None, 2])
def test_features_have_the_bytes_of_one_process(folder, executor, notes, tmp_path, workers):
    (notes / "opened").write_text("")
    expected, output = extracted(folder, tmp_path / "expected", workers=0)
    files, lines = extracted(folder, tmp_path / "out", executor, workers=workers)
    assert files == expected
    assert lines == output
    assert f"{CONFIG}-again/test: 30 of 60 images" in lines
    # Fifteen tasks; each worker opened the model once, if not for an earlier test.
    opened = (notes / "opened").read_text().split()
    assert len(opened) == len(set(opened)) <= 4


@needs_ray
def test_a_worker_that_is_killed_costs_its_block_alone(folder, executor, notes, tmp_path):
    expected, output = extracted(folder, tmp_path / "expected", workers=0)
    (notes / "kill").touch()
    files, lines = extracted(folder, tmp_path / "out", executor)
    assert not (notes / "kill").exists()
    assert files == expected  # and nothing that the killed one began
    assert lines == output


KILLED = """
import sys
from pathlib import Path
from builders.executors.ray import RayExecutor
from tests.evaluation.features import test_tasks
test_tasks.runner.ROWS = 16
test_tasks.torch.set_num_threads(1)
with RayExecutor(sys.argv[1]) as executor:
    test_tasks.extracted(Path(sys.argv[2]), Path(sys.argv[3]), executor, function="slow")
"""


@needs_ray
@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_when_it_is_started_again(folder, cluster, executor, tmp_path):
    out = tmp_path / "out"
    expected, _ = extracted(folder, tmp_path / "expected", function="slow", workers=0)
    process = subprocess.Popen([sys.executable, "-c", KILLED, cluster, str(folder), str(out)], cwd=ROOT)
    while not list(out.glob("features/*.arrow")):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in out.glob("features/*.arrow")}
    assert 0 < len(finished) < 12
    files, _ = extracted(folder, out, executor, function="slow")
    assert files == expected
    assert {path: path.stat().st_mtime_ns for path in finished} == finished


@needs_ray
@pytest.mark.slow
def test_the_command_joins_the_cluster(folder, cluster, tmp_path, monkeypatch):
    """In a process of its own, since this one has joined it; its model is one by a relative path."""
    monkeypatch.setattr(runner, "ROWS", 512)
    splits = [(CONFIG, "near_ood"), (CONFIG, "validation")]
    expected, output = extracted(folder, tmp_path / "expected", workers=0, splits=splits)
    environment = {"OMP_NUM_THREADS": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    options = ["--release=release", "--model=model.py:cnn", "--weights=cnn.pt", "--device=cpu", "--batch-size=8"]
    options += [f"--splits={CONFIG}/near_ood,{CONFIG}/validation", "--executor=ray", f"--ray-address={cluster}"]
    command = [sys.executable, "-m", "unknown_detection", "evaluate", "extract", *options, f"--out={tmp_path / 'out'}"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.splitlines()[1:-1] == output[1:]
    assert {name: data for name, data in files_of(tmp_path / "out").items() if name != ".lock"} == expected


SHARE = """
import sys
from pathlib import Path
from tests.evaluation.features import test_tasks
test_tasks.runner.ROWS = 16
test_tasks.torch.set_num_threads(1)
test_tasks.extracted(Path(sys.argv[1]), Path(sys.argv[2]), workers=0, share=sys.argv[3] + "/2")
"""


def test_two_processes_fill_one_folder_without_a_cluster(folder, tmp_path):
    """At the same time, as on two machines with one disk; the same call without a share finds all there."""
    expected, _ = extracted(folder, tmp_path / "expected", workers=0)
    out = tmp_path / "out"
    commands = [[sys.executable, "-c", SHARE, str(folder), str(out), share] for share in "12"]
    processes = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    assert [process.wait() for process in processes] == [0, 0]
    files, lines = extracted(folder, out, workers=0)
    assert files == expected
    assert all(f"{key}: there already, {len(rows)} images" in lines for key, rows in SPLITS.items())


def test_a_share_leaves_the_rest_and_computes_it_in_one_way(folder, tmp_path):
    out = tmp_path / "out"
    _, lines = extracted(folder, out, splits="near_ood,small/test", workers=0, share="2/2")
    assert [line for line in lines if " of " in line] == [
        f"{CONFIG}/test: 28 of 60 images",
        f"{CONFIG}/near_ood: 8 of 24 images",
    ]
    _, lines = extracted(folder, out, splits="near_ood,small/test", workers=0, share="2/2")
    assert f"{CONFIG}/test: 0 of 60 images" in lines, "the other share's are not there"
    with stops(EvaluationError, "batch_size"):
        extracted(folder, out, splits="near_ood,small/test", workers=0, share="1/2", batch_size=4)
    for share in ("0/2", "3/2", "half", "1/", ""):
        with stops(EvaluationError, "1/4", share):
            extracted(folder, out, share=share)


# What is refused


def refused(capsys, *flags):
    """What the command says on stderr; it ends with exit code 2, and before it opens the release."""
    assert main(["extract", "--release=nowhere", "--splits=a", "--model=b", "--out=out", *flags]) == 2
    return capsys.readouterr().err


@needs_ray
def test_an_address_that_does_not_answer_is_refused_at_once(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and never answers
        started = time.monotonic()
        port = server.getsockname()[1]
        message = refused(capsys, "--executor=ray", f"--ray-address=127.0.0.1:{port}")
        assert_sentence(message, f"127.0.0.1:{port}")
        assert time.monotonic() - started < 5
    message = refused(capsys, "--executor=ray", f"--ray-address=127.0.0.1:{port}")
    assert_sentence(message, f"127.0.0.1:{port}")


def test_without_the_extra_or_without_the_executor_a_sentence_says_so(capsys, monkeypatch):
    assert "--ray-address is only used with --executor ray" in refused(capsys, "--ray-address=here:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "Run pip install 'unknown-detection[ray]'" in refused(capsys, "--executor=ray")


def test_devices_of_one_machine_are_no_clusters(folder, tmp_path):
    for device in ("cuda:1", "mps"):
        with stops(EvaluationError, device):
            extracted(folder, tmp_path / "out", LocalExecutor(1), device=device)
    assert on_a_cluster("cuda", None) == ("cuda", 4)
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_open_already_cannot_be_sent_to_tasks(folder, tmp_path):
    model = open_model(f"{folder / 'model.py'}:cnn", folder / "cnn.pt", LABELS, device="cpu").module
    with stops(EvaluationError):
        extract(model, folder / "release", cache=tmp_path / "out", executor=LocalExecutor(1))


@needs_ray
def test_a_gpu_that_no_node_has_is_refused_before_anything_is_written(folder, cluster, executor, tmp_path):
    flags = {"workers": 1, "device": "cuda"}
    # The node has a GPU in name only, so there torch looks for it.
    if not torch.cuda.is_available():
        assert "torch cannot use cuda" in refusal(extracted, folder, tmp_path / "out", executor, **flags)
    with stops(BuildError, "GPUs"):
        extracted(folder, tmp_path / "out", executor, device="cuda")
    with pytest.MonkeyPatch.context() as patch:
        nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}]
        patch.setattr("ray.nodes", lambda: nodes)
        with stops(BuildError, "GPUs"):
            extracted(folder, tmp_path / "out", executor, **flags)
    assert not (tmp_path / "out").exists()


@needs_ray
def test_what_a_node_lacks_or_has_otherwise_is_named(folder, executor, tmp_path, monkeypatch):
    with pytest.raises(
        BuildError, match=r"^A package that a task needs is not on the Ray node .*a_package_of_one_mach"
    ):
        extracted(folder, tmp_path / "out", executor, function="elsewhere")
    with monkeypatch.context() as patch:
        patch.setattr(
            "unknown_detection.evaluation.features.extract.Opening",
            lambda release, model, digest, *options: Opening(release, model, "0" * 64, *options),
        )
        with pytest.raises(EvaluationError, match=r"^The model .*:cnn on the node .* where the command runs\."):
            extracted(folder, tmp_path / "other", executor)

    class FirstIsOther:
        """The same, but for the torch of the worker that is asked first."""

        def run(self, tasks, progress):
            return [{**found, "torch": "0"} for found in executor.run(tasks, progress)]

    with pytest.raises(EvaluationError, match=r"other last digits than the first one: torch \S+ instead of 0\."):
        extracted(folder, tmp_path / "third", FirstIsOther())
