"""The judge of the soak: whatever a fault may not leave is found, and an undisturbed result passes."""

import re
import signal
import tempfile
from pathlib import Path

import pytest

from tests.soak import judge
from tests.soak.commands import Ran
from tests.soak.operations import Operation, left_in

BEFORE = {"out/manifest.json": "old", "out/.state/lock": "x"}
AFTER = {"out/manifest.json": "new", "out/data/a.parquet": "1", "out/.state/plan.arrow": "2"}
AFTER |= {"hub/org/name commits": "1"}
BUILD = Operation("build", "", "module", lambda world: (), rewrites=("out/README.txt",))


def ran(code, err=""):
    return Ran(code, "", err, 0.0, "python -m module")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"out/data/a.parquet": "other"}, "the result differs in out/data/a.parquet"),
        ({"out/data/a.parquet": None}, "the result lacks out/data/a.parquet"),
        ({"out/data/.a.parquet.12.tmp": "3"}, "the result has beside out/data/.a.parquet.12.tmp"),
        ({"tmp/unknown-detection-push-x": ""}, "the result has beside tmp/unknown-detection-push-x"),
        ({"out/.state/plan.arrow": None}, "the result lacks out/.state/plan.arrow"),
        ({"hub/org/name commits": "2"}, "the result differs in hub/org/name commits"),
        ({f"out/{n}": "" for n in range(7)}, "the result has beside out/0, out/1, out/2, out/3, out/4 and 2 more"),
    ],
)
def test_every_difference_from_an_undisturbed_run_is_found(change, problem):
    outcome = {name: digest for name, digest in (AFTER | change).items() if digest is not None}
    assert judge.differences(outcome, AFTER) == [problem]


def test_an_equal_result_passes_whatever_the_state_holds():
    assert judge.differences(AFTER, AFTER) == []
    assert judge.differences(AFTER | {"out/.state/plan.arrow": "other", "out/.state/lock": ""}, AFTER) == []


@pytest.mark.parametrize(
    ("code", "err", "problem"),
    [
        (None, "", "the command did not end"),
        (1, "", "exit code 1: "),
        (-signal.SIGSEGV, "", "exit code -11: "),
        (2, "no space", "exit code 2 without a sentence: 'no space'"),
        (2, "error: half a sent", "exit code 2 without a sentence: 'error: half a sent'"),
        (130, "", "exit code 130 without a line that says so"),
        (-signal.SIGINT, "building", "exit code -2: building"),
        (0, "Traceback (most recent call last):\nKeyError: 1", "a traceback: KeyError: 1"),
        (-signal.SIGKILL, "Exception ignored in: <x>\nOSError: 28", "a traceback: OSError: 28"),
    ],
)
def test_a_disturbed_command_may_not_end_in_every_way(code, err, problem):
    assert judge.ending(ran(code, err), disturbed=True) == [problem]


@pytest.mark.parametrize(
    ("code", "err"),
    [
        (0, ""),
        (2, "100 images\nerror: Cannot write out/a: no space left on device. Fix this and run it again.\n"),
        (130, "stopped; run the same command again, and it resumes.\n"),
        (-signal.SIGKILL, ""),
        (-signal.SIGTERM, ""),
        (-signal.SIGINT, ""),
    ],
)
def test_ways_to_end_with_a_fault_are_none_without(code, err):
    assert judge.ending(ran(code, err), disturbed=True) == []
    assert bool(judge.ending(ran(code, err), disturbed=False)) == (code != 0)


@pytest.mark.parametrize(
    ("outcome", "problems"),
    [
        ({"out/manifest.json": "half"}, ["out/manifest.json is neither as before nor as after"]),
        ({}, ["out/manifest.json got lost"]),
        (AFTER | {"out/data/.a.parquet.1.tmp": "half", "out/.state/plan.arrow": "half"}, []),
        ({"out/manifest.json": "old", "out/README.txt": "of some splits"}, []),
    ],
)
def test_what_is_visible_in_the_meantime_is_old_or_new(outcome, problems):
    assert judge.torn(outcome, BEFORE, AFTER, BUILD) == problems


def test_only_pythons_own_probe_may_lie_in_the_temporary_folder(tmp_path):
    folder = tmp_path / "tmp"
    with tempfile.TemporaryDirectory() as elsewhere:
        assert re.fullmatch("tmp[a-z0-9_]{8}", Path(elsewhere).name)  # the names that `tempfile` draws
    files = {"z3wuwypc": "", "abcdef12": "blat", "abcdef34": "ours", "notes.txt": "", "a/b": "blat"}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert left_in(folder) == ["a/b", "abcdef34", "notes.txt"]
