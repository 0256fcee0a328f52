"""The executor on a real Ray cluster of this machine: the same results and bytes, and what is lost is run again."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from builders import imagenet_benchmark
from builders.errors import BuildError
from builders.executors.base import Resources
from builders.executors.ray import Driver, RayExecutor
from hf_scripts import materialize
from tests.builders.conftest import build_demo, files_of
from tests.builders.executors import tasks
from tests.builders.executors.ray_cluster import needs_ray, start_cluster
from tests.builders.executors.tasks import Call, DieOnce, Fail, Interval, Square, Touch, Weights, WithWeights
from tests.builders.executors.test_local import Total, most_at_once, nothing
from tests.builders.generate import toy
from tests.sentences import assert_sentence, stops

ROOT = Path(__file__).parents[3]
GPU, HALF = Resources(gpus=1), Resources(gpus=0.5)

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def toy_log(tmp_path_factory):
    return tmp_path_factory.mktemp("device")


@pytest.fixture(scope="module")
def cluster(toy_log):
    """Address of a cluster with two cores and a GPU in name. The toy's fifth image kills the process that makes it."""
    environment = {**toy.write_environment(toy_log), toy.KILL: "5"}
    with start_cluster(environment, num_cpus=2, num_gpus=1) as started:
        yield started.address


@pytest.fixture(scope="module")
def executor(cluster):
    with RayExecutor(cluster) as executor:
        yield executor


class Kept:
    """An executor that is entered already, and is left to the tests that come."""

    def __init__(self, executor):
        self.executor = executor

    def __enter__(self):
        return self.executor

    def __exit__(self, *_):
        pass


# The contract of executors


@needs_ray
def test_results_are_in_the_order_of_the_tasks_and_progress_adds_up(executor):
    for count in (0, 1, 20):
        total = Total()
        work = [Square(n, ballast=bytes(200_000), resources=HALF if n % 4 == 3 else Resources()) for n in range(count)]
        assert executor.run(work, total) == [n * n for n in range(count)]
        assert (total.images, total.size) == (count, sum(range(count)))


@needs_ray
@pytest.mark.slow
def test_the_first_failure_in_order_is_raised_and_waiting_tasks_are_cancelled(executor, tmp_path):
    for resources in (Resources(), HALF):
        folder = tmp_path / str(resources.gpus)
        folder.mkdir()
        later = [Touch(folder / str(n), seconds=0.3, resources=resources) for n in range(20)]
        running = Touch(folder / "running", seconds=1, resources=resources)
        with pytest.raises(BuildError) as caught:
            executor.run([running, Fail("the first", 0.3, resources), *later], nothing)
        assert str(caught.value) == "the first"
        # The one that ran ended. What stood behind began only until the news had reached Ray's nodes.
        names = {path.name for path in folder.iterdir()}
        assert "running" in names
        assert len(names) < 8
    with pytest.raises(ValueError, match="no such thing") as caught:
        executor.run([Call(tasks.raise_value_error)], nothing)
    assert "in raise_value_error" in caught.value.__notes__[0]
    assert executor.run([Square(3)], nothing) == [9]


@needs_ray
@pytest.mark.slow
def test_tasks_run_together_as_far_as_their_resources_allow(executor, tmp_path):
    expected = {Resources(): 2, Resources(cpus=2): 1, HALF: 2, GPU: 1}
    most = {}
    for number, (need, together) in enumerate(expected.items()):
        (tmp_path / str(number)).mkdir()
        # The first waits for the second, whose process may take long to start.
        work = [Interval(need, tmp_path / str(number), together)] * 20
        most[need] = most_at_once(executor.run(work, nothing))
    assert most == expected


@needs_ray
def test_what_is_costly_is_set_up_once_in_each_actor(executor, tmp_path):
    one, two = Weights(tmp_path, "one"), Weights(tmp_path, "two")
    loaded = executor.run([WithWeights(of, HALF) for of in (one, two) for _ in range(10)], nothing)
    assert [name for name, _ in loaded] == ["one"] * 10 + ["two"] * 10
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(written) == {str(pid) for _, pid in loaded}
    assert len(written) == 2
    assert set(written.values()) <= {"one two ", "one ", "two "}


@needs_ray
@pytest.mark.parametrize("need", [Resources(gpus=2), Resources(cpus=3)])
def test_tasks_that_no_node_can_run_are_refused_before_any_runs(executor, tmp_path, need):
    sentence = rf"^No node of the Ray cluster at .* has what a task needs \({need.cpus} cores, {need.gpus} GPUs\)\."
    with pytest.raises(BuildError, match=sentence):
        executor.run([Touch(tmp_path / "never"), Interval(need)], nothing)
    assert list(tmp_path.iterdir()) == []


# What is lost


@needs_ray
@pytest.mark.parametrize("need", [Resources(), pytest.param(GPU, marks=pytest.mark.slow)], ids=["task", "actor"])
def test_a_worker_that_is_killed_costs_its_task_alone(executor, tmp_path, need):
    total = Total()
    work = [DieOnce(tmp_path / "once", need), *[Square(n, resources=need) for n in range(5)]]
    (killed, second), *squares = executor.run(work, total)
    assert killed != second
    assert squares == [0, 1, 4, 9, 16]
    assert total.images == 6


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize(("need", "kind"), [(Resources(), "WorkerCrashedError"), (GPU, "ActorDiedError")])
def test_a_task_that_kills_every_worker_ends_the_run_with_a_sentence(executor, need, kind):
    with pytest.raises(BuildError, match=rf"^The Ray cluster gave up a task \({kind}: .*it resumes\.$") as caught:
        executor.run([Call(tasks.die_at_work, need)], nothing)
    assert "\n" not in str(caught.value)
    assert executor.run([Square(3)], nothing) == [9]


# Releases


@needs_ray
def test_a_release_has_the_bytes_of_the_local_executors(executor, demo, imagenet_release, tmp_path):
    build_demo(demo, tmp_path / "out", executor=Kept(executor))
    assert files_of(tmp_path / "out") == files_of(imagenet_release)


@needs_ray
def test_generated_images_are_the_same_though_a_worker_was_killed_in_a_batch(executor, toy_log, tmp_path):
    photographs = toy.write_photographs(tmp_path / "photographs")
    with toy.with_device(tmp_path / "local"):
        toy.build_toy(photographs, tmp_path / "expected")
    toy.build_toy(photographs, tmp_path / "out", executor=Kept(executor))
    # The toy's recorded images depend on nothing that they declare, so they are equal, too.
    assert files_of(tmp_path / "out") == files_of(tmp_path / "expected")
    setups = [name.split("-")[1] for name in toy.logged(toy_log, "setup")]
    # The actor that was killed, and the one that made everything else: seven batches of three generators.
    assert sorted(setups.count(worker) for worker in set(setups)) == [1, 3]
    assert 30 < len(toy.logged(toy_log, "image")) <= 35


KILLED = """
import contextlib, os, signal, sys
from pathlib import Path
from builders.executors.ray import RayExecutor
from tests.builders import conftest
class Meter(conftest.TerminalMeter):
    @contextlib.contextmanager
    def step(self, title, images):
        def advance(images, size=0):
            if title == "writing":
                os.kill(os.getpid(), signal.SIGKILL)
        yield advance
conftest.TerminalMeter = Meter
demo = {path.name: path for path in sorted(Path(sys.argv[1]).iterdir()) if path.is_dir()}
conftest.build_demo(demo, Path(sys.argv[2]), executor=RayExecutor(sys.argv[3]))
"""


@needs_ray
@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_when_it_is_started_again(cluster, executor, demo, imagenet_release, tmp_path):
    """It is killed when it hears of its first shard, while others are being written."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(demo["imagenet"].parent), str(out), cluster]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    finished = {path: path.stat().st_mtime_ns for path in (out / "data").rglob("*.parquet")}
    assert finished
    assert not (out / "manifest.json").exists()
    build_demo(demo, out, executor=Kept(executor))
    assert files_of(out) == files_of(imagenet_release)
    assert any(path.stat().st_mtime_ns == written for path, written in finished.items())


# Ctrl-C

INTERRUPTED = """
import signal, sys
from pathlib import Path
import click
from builders.cli.console import exit_code
from builders.executors.base import Resources
from builders.executors.ray import RayExecutor
from tests.builders.executors.tasks import Touch

@click.command()
def command():
    folder, seconds = Path(sys.argv[2]), float(sys.argv[3])
    work = [Touch(folder / str(n), seconds, Resources(gpus=n % 2 / 2), folder / "begun") for n in range(20)]
    with RayExecutor(sys.argv[1]) as executor:
        executor.run(work, lambda images, size: None)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
sys.exit(exit_code(command, [], stopped="stopped."))
"""


TERMINATED = """
import os, signal, sys
from builders.executors.ray import RayExecutor
with RayExecutor(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGTERM)
"""


@needs_ray
def test_sigterm_ends_a_driver_as_any_command(cluster):
    done = subprocess.run([sys.executable, "-c", TERMINATED, cluster], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, b"", b"")


WHILE_JOINING = """
import os, signal, sys, ray
from builders.executors import ray as ours
init = ray.init
def joined(**given):
    os.kill(os.getpid(), signal.SIGTERM)
    init(**given)
    os.kill(os.getpid(), signal.SIGTERM)
    print("joined", flush=True)
ray.init = joined
with ours.RayExecutor(sys.argv[1]):
    print("not reached", flush=True)
"""


@needs_ray
def test_sigterm_while_ray_is_joined_waits_until_then(cluster):
    """Found by the soak: Ray's handlers ended the process with 15, or with a stack."""
    done = subprocess.run([sys.executable, "-c", WHILE_JOINING, cluster], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, b"joined\n", b"")


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize(("times", "seconds"), [(1, 1.5), (2, 60)])
def test_ctrl_c_is_one_line_and_lets_running_tasks_end(cluster, tmp_path, times, seconds):
    command = [sys.executable, "-c", INTERRUPTED, cluster, str(tmp_path), str(seconds)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    for _ in range(times):
        time.sleep(0.7)
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "stopped.\n")
    done = len(list(tmp_path.iterdir())) - 1
    assert done == 0 if times == 2 else 1 <= done <= 4


# Addresses


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@needs_ray
def test_an_address_that_does_not_answer_is_refused_at_once(tmp_path, capsys, monkeypatch):
    started = time.monotonic()
    build = ["--demo", "--out", str(tmp_path / "out"), "--executor", "ray"]
    assert imagenet_benchmark.main([*build, "--ray-address", f"127.0.0.1:{closed_port()}"]) == 2
    assert re.search(r"No Ray cluster answers at 127\.0\.0\.1:\d+: Connection refused\.", capsys.readouterr().err)
    with socket.create_server(("127.0.0.1", 0)) as server:  # whose connections the system accepts; nothing answers
        listening = server.getsockname()[1]
        assert materialize.main([str(tmp_path), *build[1:], "--ray-address", f"127.0.0.1:{listening}"]) == 2
    assert_sentence(capsys.readouterr().err, f"127.0.0.1:{listening}")
    assert time.monotonic() - started < 5
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    assert imagenet_benchmark.main(build) == 2
    assert_sentence(capsys.readouterr().err, "ray://head:10001", "HOST:PORT")
    assert list(tmp_path.iterdir()) == []


@needs_ray
def test_what_listens_on_the_default_port_is_not_joined_unless_asked_for(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    joined = []
    monkeypatch.setattr("socket.create_connection", lambda *args, **_: joined.append(args))
    assert imagenet_benchmark.main(["--demo", "--out", str(tmp_path / "out"), "--executor", "ray"]) == 2
    assert_sentence(capsys.readouterr().err, "--executor", "HOST:PORT")
    assert joined == []
    assert list(tmp_path.iterdir()) == []


@needs_ray
def test_a_cluster_of_the_loopback_address_alone_is_refused(monkeypatch):
    """Ray asks at the machine's own address instead, where such a cluster does not listen, and waited without end."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))  # as a gRPC server begins (RFC 9113, 6.5)
                connection.recv(100)

        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        monkeypatch.setattr("ray.util.get_node_ip_address", lambda: "127.0.0.2")  # this machine too, and refused
        with stops(BuildError, f"127.0.0.2:{port}"):
            RayExecutor(f"localhost:{port}").__enter__()


def test_without_the_extra_a_sentence_names_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert imagenet_benchmark.main(["--demo", "--out", str(tmp_path / "out"), "--executor", "ray"]) == 2
    assert_sentence(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--executor=ray", "--workers=2"], "--workers does not apply to --executor ray"),
        (["--ray-address=here:1"], "--ray-address is only used with --executor ray"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(tmp_path, capsys, flags, sentence):
    assert imagenet_benchmark.main(["--demo", "--out", str(tmp_path / "out"), *flags]) == 2
    assert sentence in capsys.readouterr().err


# Nodes that are not like this machine


@needs_ray
def test_a_node_that_lacks_something_is_named(executor, tmp_path, monkeypatch):
    own = executor._driver
    for driver, sentence in (
        (Driver(str(tmp_path / "not-shared"), own.versions), "cannot use the folder .*/not-shared: No such"),
        (Driver(str(ROOT), (("numpy", "0"), *own.versions[1:])), r"has numpy \S+, and this machine 0;"),
    ):
        monkeypatch.setattr(executor, "_driver", driver)
        with pytest.raises(BuildError, match=f"^The Ray node .* {sentence}"):
            executor.run([Square(1)], nothing)
    monkeypatch.undo()
    missing = tmp_path / "nowhere" / "file"
    with pytest.raises(BuildError, match=f"^A file that a task needs is not on the Ray node .*{missing}"):
        executor.run([Touch(missing)], nothing)
