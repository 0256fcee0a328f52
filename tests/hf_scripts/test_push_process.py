"""Publishers that are killed, and that must not need more memory for more files."""

import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from builders.sources.registry import declared_source
from hf_scripts import push, verify
from tests.hf_scripts.samples import REPO, contents, make_release
from tests.hub.client import in_process
from tests.hub.server import Hub
from tests.killing import heed_interrupts


def start(hub, folder, home, *flags, tag="v1.0.0", repo=REPO, module=("-m", "hf_scripts.push"), xet=False, **options):
    # Private, because a process of its own knows no declaration of the tests' source.
    arguments = ["--repo", repo, "--tag", tag, "--workers", "1", "--private", *flags]
    command = [sys.executable, *module, str(folder), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        env=hub.environment(home, xet=xet),
        stdout=pipe,
        stderr=pipe,
        text=True,
        preexec_fn=heed_interrupts,
        **options,
    )


def pushed(hub, folder, home, *, tag="v1.0.0"):
    """Push in this process, where nothing has to be killed; returns its exit code and what it said.

    As another process would, it knows no declaration of the tests' source.
    """
    out, err = io.StringIO(), io.StringIO()
    with in_process(hub, home), redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_scripts.publish.licences.declared_source", declared_source)
        code = push.main([str(folder), "--repo", REPO, "--tag", tag, "--workers", "1", "--private"])
    return code, out.getvalue(), err.getvalue()


def ended(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A release of many files: twelve shards in three splits. Read only."""
    splits = {"bench/test": range(8), "bench/near_ood": range(8), "bench-train/train": range(100, 108)}
    return make_release(tmp_path_factory.mktemp("many") / "release", splits, shards=4)


@pytest.fixture(scope="module")
def undisturbed(many, tmp_path_factory):
    with Hub() as hub:
        code, _, err = pushed(hub, many, tmp_path_factory.mktemp("home"))
        assert (code, err) == (0, "")
        return contents(hub, "v1.0.0")


@pytest.mark.parametrize("step", ["lfs_put", pytest.param("commit", marks=pytest.mark.slow)])
def test_ctrl_c_is_one_line_and_the_next_run_publishes_the_same(many, undisturbed, tmp_path, only_loopback, step):
    """While a request is being answered, to the process group, as from a terminal."""
    with Hub() as hub:
        hub.slow(step, 3600)
        process = start(hub, many, tmp_path / "home", start_new_session=True)
        while not hub.asked(step) and process.poll() is None:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        code, out, err = ended(process)
        assert (code, err) == (130, "stopped; run the same command again, and it resumes.\n")
        assert "verified" in out
        assert hub.tags(REPO) == {}
        assert pushed(hub, many, tmp_path / "home")[0] == 0
        assert contents(hub, "v1.0.0") == undisturbed


@pytest.mark.parametrize(
    ("step", "passing"), [("lfs_put", 5), pytest.param("commit", 0, marks=pytest.mark.slow), ("create_tag", 0)]
)
def test_a_publisher_that_is_killed(many, undisturbed, tmp_path, only_loopback, step, passing):
    """With SIGKILL, while a request is being answered. The next run sends nothing again that had arrived."""
    with Hub() as hub:
        hub.slow(step, 3600, skip=passing)
        process = start(hub, many, tmp_path / "home")
        while len(hub.asked(step)) <= passing and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert ended(process)[0] == -signal.SIGKILL
        assert hub.tags(REPO) == {}
        arrived = hub.uploads()
        assert len(arrived) >= passing
        code, out, err = pushed(hub, many, tmp_path / "home")
        assert (code, err) == (0, "")
        assert contents(hub, "v1.0.0") == undisturbed
        assert all(count == 1 for count in hub.uploads().values())
        assert len(hub.commits(REPO)) == 2
        assert hub.tags(REPO) == {"v1.0.0": hub.commits(REPO)[0].id}
        if step == "create_tag":
            assert "the commit exists already" in out


@pytest.mark.parametrize(
    "number",
    [*(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGHUP)), signal.SIGKILL],
    ids=lambda number: number.name,
)
def test_the_next_run_removes_what_killed_runs_left(tmp_path, only_loopback, monkeypatch, number):
    """In the temporary folder: their own folders, and neither those of running processes nor anybody else's."""
    temporary = tmp_path / "temporary"
    for name in ("unknown-detection-push-notes", "push-x", "verify-x"):
        (temporary / name).mkdir(parents=True)
    (temporary / "unknown-detection-verify-link").symlink_to(make_release(tmp_path / "release", {"bench/test": [1]}))
    before = sorted(temporary.iterdir())
    publish = [str(tmp_path / "release"), "--repo", REPO, "--tag", "v1.0.0", "--private", "--workers", "1"]
    check = [REPO, "--workers", "1"]
    with Hub() as hub:
        environment = {**hub.environment(tmp_path / "home"), "TMPDIR": str(temporary)}

        def default():
            """A run under nohup ignores SIGHUP, and its children would."""
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)

        def begun(name, flags, step):
            hub.slow(step, 3600)
            asked = len(hub.asked(step))
            command = [sys.executable, "-m", f"hf_scripts.{name}", *flags]
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default
            )
            while len(hub.asked(step)) <= asked and process.poll() is None:
                time.sleep(0.02)
            assert process.poll() is None
            return process

        def next_run(main, flags):
            """In this process, where nothing is killed."""
            with in_process(hub, tmp_path / "home"), monkeypatch.context() as patch:
                patch.setattr("hf_scripts.publish.licences.declared_source", declared_source)
                patch.setattr(tempfile, "tempdir", str(temporary))
                return main(flags)

        for step in ("create_repo", "commit"):
            process = begun("push", publish, step)
            process.send_signal(number)
            process.communicate(timeout=60)
            assert process.returncode == -number
        assert len(set(temporary.iterdir()) - set(before)) == 1, "the second run removed what the first one left"
        assert next_run(push.main, publish) == 0
        assert sorted(temporary.iterdir()) == before

        killed, running = begun("verify", check, "resolve"), begun("verify", check, "resolve")
        killed.send_signal(number)
        killed.communicate(timeout=60)
        assert len(set(temporary.iterdir()) - set(before)) == 2
        assert next_run(verify.main, check) == 0
        (left,) = set(temporary.iterdir()) - set(before)
        assert (left / "files").is_dir() and running.poll() is None
        running.kill()
        running.communicate(timeout=60)
        assert next_run(verify.main, check) == 0
        assert sorted(temporary.iterdir()) == before


# Not ru_maxrss, which a process inherits from the one that started it (getrusage(2), and execve in the kernel).
MEASURED = """
import pathlib, sys
from builders.sources.registry import SOURCES
from hf_scripts import push
code = push.main(sys.argv[1:])
print(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
sys.exit(code)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc, which is not here")
def test_memory_does_not_follow_the_number_of_files(tmp_path, only_loopback):
    """Five shards of a megabyte and fifty of them: the peaks are within a tenth of each other."""
    peaks = {}
    with Hub() as hub:
        for shards in (5, 50):
            # No images, but megabytes that do not compress.
            folder = make_release(
                tmp_path / str(shards),
                {"bench/test": range(shards)},
                shards=shards,
                picture=lambda text: os.urandom(1_000_000),
            )
            repo = f"org/of-{shards}"
            process = start(hub, folder, tmp_path / "home", "--check", "fast", repo=repo, module=("-c", MEASURED))
            code, out, err = ended(process)
            assert (code, err) == (0, "")
            assert len(hub.files(repo)) == shards + 7
            peaks[shards] = int(out.splitlines()[-1])
    assert peaks[50] < 1.1 * peaks[5], peaks
