"""Ctrl-C at chosen moments: one line on stderr, exit code 130, no traceback of any process, the same bytes later."""

import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.builders.conftest import files_of
from tests.sentences import assert_sentence
from tests.unknown_detection.terminal.running import ROOT, interrupted, screen_of
from unknown_detection.starting import runs_command
from unknown_detection.terminal import interrupts

RESUMES = "stopped; run the same command again and it goes on where this run stopped.\n"


@pytest.fixture(autouse=True)
def _heeds_interrupts():
    """A shell has what it runs in the background ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ended(done):
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("module", "arguments", "imported"),
    [
        ("builders.imagenet_benchmark", ["--demo"], "builders.declare.benchmark"),
        pytest.param("builders.commands.audit", ["overlap", "x"], "pyarrow", marks=pytest.mark.slow),
        pytest.param("hf_scripts.push", ["x"], "click", marks=pytest.mark.slow),
        ("unknown_detection", ["evaluate", "demo"], "click"),
        ("taxonomy", ["freeze"], "numpy"),
    ],
)
def test_ctrl_c_while_a_command_imports(module, arguments, imported):
    done = interrupted(module, *arguments, at=f"import:{imported}")
    assert ended(done) == (130, "", "stopped.\n")


GARBAGE = """
import gc, sys
sys.argv[0] = {started!r}
import click
from unknown_detection.terminal.command_line import run_command_line
imports = gc.isenabled(), gc.get_freeze_count() > 0
run_command_line(click.Command("work", callback=lambda: print(*imports, gc.isenabled(), gc.get_freeze_count() > 0)),
                 [], (), stopped="")
"""


@pytest.mark.parametrize(
    ("started", "states"), [("unknown-detection", "False False True True"), ("notebook", "True False True False")]
)
def test_garbage_is_looked_for_after_the_imports_of_a_command_and_as_before_in_other_processes(started, states):
    command = [sys.executable, "-c", GARBAGE.format(started=started)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == states


def test_ctrl_c_while_a_build_indexes_writes_and_finishes(built, tmp_path):
    """One moment after the other, each in the run that goes on after the one before; the second at a keyboard."""
    out = tmp_path / "out"
    results = [interrupted(*built.arguments, "--out", out, at="os.listdir:/val/")]
    code, lines = screen_of(*built.arguments, "--out", out, typed=lambda text: b"\x03" * ("planned" in text))
    assert (code, lines[-1]) == (130, RESUMES.strip())
    assert sum("stopped;" in line for line in lines) == 1
    assert not any("Traceback" in line or "Exception" in line for line in lines)
    results.append(interrupted(*built.arguments, "--out", out, at="os.rename:manifest.json"))
    for done in results:
        code, printed, err = ended(done)
        assert (code, printed) == (130, "")
        # Notes stand above it; what ends a run is this one line.
        assert err.endswith(f"\n{RESUMES}") and err.count("stopped;") == 1
        assert "Traceback" not in err and "Exception" not in err
    assert interrupted(*built.arguments, "--out", out, at="").returncode == 0
    assert files_of(out) == built.files


def test_ctrl_c_while_a_release_is_verified(built):
    arguments = ("hf_scripts.verify", built.folder, "--check", "fast", "--workers", "2")
    done = interrupted(*arguments, at="socket.__new__:socket")
    assert ended(done) == (130, "", "stopped; nothing was changed.\n")


def test_an_exception_that_a_library_makes_of_it_is_no_error():
    def lost():
        try:
            signal.raise_signal(signal.SIGINT)
        except interrupts.Stopped as error:
            raise RuntimeError("the client failed") from error

    assert interrupts.run_stoppable(lost, "stopped.") == 130


def test_one_that_python_cannot_raise_comes_again():
    class Held:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    def lost():
        Held()
        for _ in range(500):
            time.sleep(0.02)
        return 0

    assert interrupts.run_stoppable(lost, "stopped.") == 130


def test_what_is_kept_is_said_only_where_it_is(capsys):
    def work():
        with interrupts.stopping_says("stopped; finished splits are kept."):
            pass
        signal.raise_signal(signal.SIGINT)

    def inside():
        with interrupts.stopping_says("stopped; finished splits are kept."):
            signal.raise_signal(signal.SIGINT)

    assert interrupts.run_stoppable(work, "stopped.") == 130
    assert interrupts.run_stoppable(inside, "stopped.") == 130
    assert_sentence(capsys.readouterr().err)


IN_THE_END = """
import os, signal, sys
from unknown_detection.starting import runs_command
from unknown_detection.terminal import interrupts

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):
        kill(pid, number)

interrupts.watch()
late = Late()
sys.exit(interrupts.run_stoppable(lambda: 3, "stopped."))
"""


def test_ctrl_c_while_python_takes_its_modules_down_leaves_the_exit_code():
    """Where Python has given up all handlers, so that a signal would end the process."""
    done = subprocess.run([sys.executable, "-c", IN_THE_END], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended(done) == (3, "", "")


def test_another_handler_stays_and_other_exceptions_pass():
    def fails():
        raise ValueError("no interrupt")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="no interrupt"):
        interrupts.run_stoppable(fails, "stopped.")
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert interrupts.run_stoppable(lambda: signal.raise_signal(signal.SIGINT) or 3, "stopped.") == 3
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("command", "argv", "ours"),
    [
        (["python", "-m", "unknown_detection", "evaluate", "demo"], ["-m", "evaluate", "demo"], True),
        (["python", "-mbuilders.commands.audit"], ["-m"], True),
        (["python", "/usr/bin/unknown-detection", "verify"], ["/usr/bin/unknown-detection", "verify"], True),
        (["python", "C:\\x\\unknown-detection.exe"], ["C:\\x\\unknown-detection.exe"], True),
        (["python", "-m", "their.program", "builders"], ["-m", "builders"], False),
        (["python", "their.py", "-m", "builders"], ["their.py", "-m", "builders"], False),
        (["python"], [""], False),
    ],
)
def test_only_processes_of_our_commands_are_watched(monkeypatch, command, argv, ours):
    monkeypatch.setattr(sys, "orig_argv", command)
    monkeypatch.setattr(sys, "argv", argv)
    assert runs_command() == ours


def test_ctrl_c_before_our_handler_is_imported_gives_no_traceback():
    """The handler's own imports are the first that a command makes."""
    done = interrupted("builders.commands.audit", "--help", at="import:unknown_detection.terminal")
    assert ended(done) == (-signal.SIGINT, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["build", "verify"])
def test_ctrl_c_at_many_moments(built, tmp_path, command):
    """Spread over all audit events of the command; only after the last of its work may it end as without Ctrl-C."""
    out = tmp_path / "out"
    arguments = (*built.arguments, "--out", out)
    if command == "verify":
        arguments = ("hf_scripts.verify", built.folder, "--workers", "2")
    plain = interrupted(*arguments, at="", count=tmp_path / "count")
    last = int((tmp_path / "count").read_text())
    for number in range(30):
        shutil.rmtree(out, ignore_errors=True)
        done = interrupted(*arguments, at=1 + (last - 1) * number // 29)
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr, number
        if done.returncode == 0:
            assert done.stdout == plain.stdout, number
        else:
            assert done.returncode == 130, number
            assert done.stderr.splitlines()[-1].startswith("stopped"), number
            assert done.stdout == "", number
        if command == "build":
            assert interrupted(*arguments, at="").returncode == 0
            assert files_of(out) == built.files, number
