"""The executor on this machine: order, failures, resources, Ctrl-C, and workers that die at any instruction."""

import errno
import multiprocessing
import os
import platform
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from builders.errors import BuildError
from builders.executors import local
from builders.executors.base import Resources
from builders.executors.local import LocalExecutor
from tests.builders.executors import tasks
from tests.builders.executors.tasks import Call, Fail, Interval, Square, Touch, Weights, WithWeights
from tests.sentences import stops

ROOT = Path(__file__).parents[3]

# What must never hang is given up after a minute.
pytestmark = pytest.mark.timeout(60)

KILLED = re.escape(
    "A worker was killed, usually for lack of memory. Run the same command with fewer --workers; it resumes."
)


def nothing(images, size):
    pass


class Total:
    """Adds up progress."""

    images = size = 0

    def __call__(self, images, size):
        assert images >= 0
        assert size >= 0
        self.images += images
        self.size += size


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_are_in_the_order_of_the_tasks_and_progress_adds_up(workers):
    with LocalExecutor(workers) as executor:
        for count in (0, 1, 20):  # one after the other on the same workers
            total = Total()
            work = [Square(n, seconds=0.02 if n == 0 else 0) for n in range(count)]
            assert executor.run(work, total) == [n * n for n in range(count)]
            assert (total.images, total.size) == (count, sum(range(count)))
    assert multiprocessing.active_children() == []


def test_messages_larger_than_a_pipe_pass():
    work = [Square(n, ballast=bytes(1_000_000)) for n in range(6)]
    with LocalExecutor(2) as executor:
        assert executor.run(work, nothing) == [0, 1, 4, 9, 16, 25]


# Failures


def test_the_first_failure_in_order_is_raised_and_no_other_task_starts(tmp_path):
    later = [Touch(tmp_path / str(n), seconds=0.02) for n in range(40)]
    with LocalExecutor(2) as executor:
        with pytest.raises(BuildError) as caught:
            executor.run([Fail("the first", seconds=0.3), Fail("the second"), *later], nothing)
        assert str(caught.value) == "the first"
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(BuildError) as caught:
            executor.run([Touch(tmp_path / "running", seconds=0.3), Fail("the third"), *later], nothing)
        assert str(caught.value) == "the third"
        # The one that ran ended, and the workers go on.
        assert [path.name for path in tmp_path.iterdir()] == ["running"]
        assert executor.run([Square(3)], nothing) == [9]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others keep what they like")
def test_a_worker_uses_the_memory_of_an_image_for_the_next_one():
    with LocalExecutor(2) as executor:
        pages = executor.run([Call(tasks.pages_of_images)], lambda *_: None)
    # 122,000 pages of 4 KB if each image's fifty parts of 100 KB go back to the system.
    assert pages[0] < 1_000


def test_an_exception_travels_with_its_workers_traceback():
    with LocalExecutor(2) as executor, pytest.raises(ValueError, match="no such thing") as caught:
        executor.run([Call(tasks.raise_value_error)], nothing)
    assert "in raise_value_error" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("function", "kind", "sentence"),
    [
        (tasks.raise_unreadable, RuntimeError, "UnreadableError: one"),
        (tasks.return_what_cannot_be_pickled, Exception, "return_what_cannot_be_pickled"),
    ],
)
def test_what_cannot_be_pickled_is_an_error_and_not_a_dead_worker(function, kind, sentence):
    with LocalExecutor(2) as executor:
        with pytest.raises(kind, match=sentence):
            executor.run([Call(function)], nothing)
        assert executor.run([Square(3)], nothing) == [9]


# Workers that die


@pytest.mark.parametrize(
    "deadly",
    [
        Call(tasks.die_at_work),
        Call(tasks.die_counting_images),
        Call(tasks.die_pickling_the_answer),
        Call(tasks.die_sending_the_answer),
        Call(tasks.die_receiving_the_next_task),
        tasks.DeadlyToUnpickle(),
    ],
    ids=lambda task: getattr(getattr(task, "what", task), "__name__", type(task).__name__),
)
def test_a_worker_that_dies_ends_the_run_with_a_sentence(deadly, tmp_path):
    # Large, so that a pipe shared by all workers would be full when nobody reads it any more.
    later = [Square(n, seconds=0.01, ballast=bytes(200_000)) for n in range(30)]
    running = Touch(tmp_path / "running", seconds=0.2)
    with LocalExecutor(2) as executor:
        with pytest.raises(BuildError, match=f"^{KILLED}$"):
            executor.run([running, deadly, *later], nothing)
        assert (tmp_path / "running").exists()
        with pytest.raises(RuntimeError, match="its workers have ended"):
            executor.run([Square(1)], nothing)
    assert multiprocessing.active_children() == []


def test_workers_killed_at_any_time_end_the_run():
    """Ten kills, from the start of the workers on; a run that was over before its kill gives all results."""
    work = [Square(n, seconds=0.001, ballast=bytes(50_000)) for n in range(100)]
    outcomes = []
    for seed in range(10):
        chosen = random.Random(seed)
        with LocalExecutor(3) as executor:
            killer = threading.Thread(target=kill_one, args=(chosen,))
            killer.start()
            try:
                outcomes.append(executor.run(work, nothing) == [n * n for n in range(100)])
            except BuildError as error:
                assert re.fullmatch(KILLED, str(error))
                outcomes.append("killed")
            killer.join()
        assert multiprocessing.active_children() == []
    assert False not in outcomes
    assert "killed" in outcomes


def kill_one(chosen):
    while not (workers := multiprocessing.active_children()):
        time.sleep(0.001)
    time.sleep(chosen.uniform(0, 0.3))
    chosen.choice(sorted(workers, key=lambda process: process.name)).kill()


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (tasks.crash_at_work, r"^A worker crashed \(Segmentation fault\)\. Run the same command with fewer"),
        (tasks.exit_at_work, r"^A worker ended before its tasks were done \(exit code 3\)\. Run the same"),
    ],
)
def test_the_sentence_says_how_a_worker_ended(function, sentence):
    with LocalExecutor(2) as executor, pytest.raises(BuildError, match=sentence):
        executor.run([Call(function), Square(1)], nothing)


START = """
from builders.errors import BuildError
from builders.executors.local import LocalExecutor
from tests.builders.executors.tasks import Square
if __name__ == "__main__":
    with LocalExecutor(2) as executor:
        try:
            executor.run([Square(1)], lambda *_: None)
        except BuildError as error:
            print(error)
"""


BEGUN = """
import signal, time
from multiprocessing.forkserver import _forkserver
from builders.executors import local
from tests.builders.executors.tasks import Square
if __name__ == "__main__":
    local.begin(["fractions"])
    while _forkserver._forkserver_pid is None:
        time.sleep(0.01)
    begun = _forkserver._forkserver_pid
    with local.LocalExecutor(2, preload=["fractions"]) as executor:
        print(executor.run([Square(3)], lambda *_: None), begun == _forkserver._forkserver_pid)
    print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no server forks workers there")
def test_the_server_of_workers_may_be_begun_before_them_and_ctrl_c_still_reaches_the_command():
    ran = subprocess.run([sys.executable, "-c", BEGUN], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines() == ["[9] True", "set()"]


def test_more_workers_than_files_may_be_open_are_refused(monkeypatch):
    """A worker takes two, and a process may have 1,024 or so (`ulimit -n`)."""

    def pipe(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(local, "_Worker", pipe)
    with stops(BuildError, "100,000"):
        LocalExecutor(100_000).__enter__()


def test_workers_that_cannot_be_started_are_said_to_be_so_with_the_reason(tmp_path):
    """A Unix socket's path has at most 107 characters on Linux (unix(7)), and Python puts the socket into TMPDIR."""
    temporary = tmp_path / ("long" * 25)
    temporary.mkdir()
    command, environment = [sys.executable, "-c", START], {**os.environ, "TMPDIR": str(temporary)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.stdout.startswith("A worker could not be started: AF_UNIX path too long. "), ran.stderr
    assert "TMPDIR" in ran.stdout and ran.stdout.count("\n") == 1


def test_where_nothing_can_be_resumed_a_death_stops_the_other_workers_at_once(tmp_path):
    with LocalExecutor(2, resumes=False) as executor, stops(BuildError, "--workers"):
        executor.run([Touch(tmp_path / "never", seconds=30), Call(tasks.die_at_work)], nothing)
    assert list(tmp_path.iterdir()) == []


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    process = start(tmp_path, seconds=60)
    pids = wait_for_workers(process, tmp_path)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_next_run_removes_the_socket_of_a_killed_one(workers, tmp_path, tmp_path_factory, monkeypatch):
    """Python's own folder for it, `pymp-...`, would stay for good."""
    temporary = tmp_path_factory.mktemp("t")  # a short path, which a socket needs
    monkeypatch.setenv("TMPDIR", str(temporary))
    killed = start(tmp_path, seconds=60)
    wait_for_workers(killed, tmp_path)
    killed.kill()
    killed.communicate()
    (left,) = temporary.iterdir()
    assert left.name.startswith("unknown-detection-mp-")
    code = f"from builders.executors.local import LocalExecutor\nwith LocalExecutor({workers}): pass"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
    assert list(temporary.iterdir()) == []


# Ctrl-C, which a terminal sends to every process of its foreground group

SCRIPT = """
import os, signal, sys, time
from dataclasses import dataclass
from pathlib import Path
import click
from builders.cli.console import exit_code
from builders.executors.base import ONE_CORE
from builders.executors.local import LocalExecutor

@dataclass(frozen=True)
class Work:
    name: str
    resources = ONE_CORE
    def run(self, progress):
        (Path(sys.argv[1]) / f"{self.name}-{os.getpid()}.pid").touch()
        time.sleep(float(sys.argv[2]))
        (Path(sys.argv[1]) / f"{self.name}.done").touch()

@click.command()
def command():
    with LocalExecutor(2, preload=["builders.pipeline.run"], resumes=sys.argv[3] == "resumes") as executor:
        print("entered", flush=True)
        executor.run([Work(str(n)) for n in range(8)], lambda images, size: None)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
    sys.exit(exit_code(command, [], stopped="stopped."))
"""

STOPPED = "stopped.\n"


def start(folder, *, seconds, resumes="resumes"):
    script = folder / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(folder), str(seconds), resumes]
    pipe, environment = subprocess.PIPE, os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "entered\n"
    return process


def wait_for_workers(process, folder):
    """The processes of the two tasks that run first."""
    while len(started := sorted(folder.glob("*.pid"))) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    return [int(path.stem.split("-")[1]) for path in started]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("resumes", ["resumes", "only reads"])
def test_ctrl_c_is_one_line_and_lets_running_tasks_end_where_they_can_be_used(tmp_path, resumes):
    process = start(tmp_path, seconds=1, resumes=resumes)
    pids = wait_for_workers(process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, STOPPED)
    finished = ["0.done", "1.done"] if resumes == "resumes" else []
    assert sorted(path.name for path in tmp_path.glob("*.done")) == finished
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("seed", range(2))
def test_ctrl_c_while_workers_start_is_one_line(tmp_path, seed):
    process = start(tmp_path, seconds=0.2)
    time.sleep(random.Random(seed).uniform(0, 0.6))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, STOPPED)


def test_ctrl_c_a_second_time_does_not_wait_for_running_tasks(tmp_path):
    process = start(tmp_path, seconds=60)
    pids = wait_for_workers(process, tmp_path)
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.5)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, STOPPED)
    assert not any(alive(pid) for pid in pids)


# Resources


def most_at_once(intervals):
    return max(sum(begun <= at < ended for begun, ended, _ in intervals) for at, _, _ in intervals)


def test_tasks_run_together_as_far_as_their_resources_allow(tmp_path):
    expected = {
        Resources(): 3,
        Resources(cpus=2): 1,
        Resources(cpus=8): 1,
        Resources(cpus=0.5): 3,
        Resources(gpus=0.5): 2,
        Resources(gpus=1): 1,
    }
    most = {}
    with LocalExecutor(3) as executor:
        for number, (resources, together) in enumerate(expected.items()):
            (tmp_path / str(number)).mkdir()
            # The first ones wait for the last, whose worker may take long to start.
            work = [Interval(resources, tmp_path / str(number), together)] * 9
            most[resources] = most_at_once(executor.run(work, nothing))
    assert most == expected


def test_what_is_costly_is_set_up_once_in_each_worker(tmp_path):
    one, two = Weights(tmp_path, "one"), Weights(tmp_path, "two")
    with LocalExecutor(2) as executor:
        loaded = executor.run([*[WithWeights(one)] * 20, *[WithWeights(two)] * 20], nothing)
    assert [name for name, _ in loaded] == ["one"] * 20 + ["two"] * 20
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(written) == {str(pid) for _, pid in loaded}
    assert set(written.values()) <= {"one two ", "one ", "two "}


def test_workers_have_the_environment_of_the_caller_and_not_of_when_their_server_started(monkeypatch):
    """Such as credentials that somebody sets in a notebook after a first build."""
    for value in ("one", "other", None):
        if value is None:
            monkeypatch.delenv("UNKNOWN_DETECTION_TEST")
        else:
            monkeypatch.setenv("UNKNOWN_DETECTION_TEST", value)
        with LocalExecutor(2) as executor:
            assert executor.run([Call(tasks.variable)] * 2, nothing) == [value, value]


def test_an_executor_that_was_not_entered_runs_nothing():
    with pytest.raises(RuntimeError, match="was not entered"):
        LocalExecutor(2).run([Square(1)], nothing)


def in_a_forked_process():
    pass


def test_a_forked_process_leaves_the_servers_socket_alone(tmp_path):
    """As a torch DataLoader forks: its processes forget `multiprocessing`'s finalizers, and what these held."""
    code = """
    import multiprocessing
    from builders.executors.local import LocalExecutor
    from tests.builders.executors.tasks import Square
    from tests.builders.executors.test_local import in_a_forked_process

    for _ in range(2):
        with LocalExecutor(2) as executor:
            assert executor.run([Square(3)], lambda *_: None) == [9]
        forked = multiprocessing.get_context("fork").Process(target=in_a_forked_process)
        forked.start()
        forked.join()
        assert forked.exitcode == 0
    """
    finished = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")
