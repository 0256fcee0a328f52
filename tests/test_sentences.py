"""Sentences of refusals stand in one file: what fails, what is renewed, and what goes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PLUGINS = ("-p", "xdist", "-p", "no:cacheprovider")
"""Others that are installed take most of the time in which such a run starts."""

CONFTEST = """
from tests import sentences

def pytest_addoption(parser):
    sentences.add_option(parser)

def pytest_configure(config):
    sentences.register(config, config.rootpath / "sentences.txt")
"""

TESTS = """
import pytest
from tests.sentences import assert_sentence, stops

@pytest.mark.parametrize("name", ["a", "b"])
def test_one(name, tmp_path):
    with stops(ValueError, tmp_path / name):
        raise ValueError(f"{tmp_path / name} is missing.\\n  Put it there.")

def test_two(capsys):
    assert_sentence("a note\\nerror: No --flag at 127.0.0.1:4711.\\n", "--flag")
    assert_sentence("Another.")

def test_skipped():
    pytest.skip("here")
"""

TEXT = r"""test_a.py::test_one[a]
  - TMP/a is missing.
      Put it there.
test_a.py::test_one[b]
  - TMP/b is missing.
      Put it there.
test_a.py::test_skipped
  - What it says elsewhere.
test_a.py::test_two
  - No --flag at HOST:PORT.
  - Another.
"""


class Project:
    """A folder with tests of its own, run in processes of their own."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_a.py").write_text(TESTS)
        self.write(TEXT)

    def write(self, text):
        (self.folder / "sentences.txt").write_text(text)

    def read(self):
        return (self.folder / "sentences.txt").read_text()

    def run(self, *flags, succeeds=True):
        command = [*(sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", "."), *PLUGINS, *flags]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == (0 if succeeds else 1), done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.mark.parametrize("workers", [pytest.param("-n0", marks=pytest.mark.slow), "-n2"])
def test_a_reworded_sentence_fails_until_it_is_renewed(project, workers):
    project.write(TEXT.replace("TMP/b is missing", "TMP/b is not here").replace("  - Another.\n", ""))
    printed = project.run(workers, succeeds=False)
    assert "2 failed" in printed and "says: TMP/b is missing." in printed and "had:  TMP/b is not here." in printed
    assert "had:  nothing" in printed and "--renew-sentences test_a.py" in printed
    project.run(workers, "--renew-sentences")
    assert project.read() == TEXT  # that of the skipped test stays


def test_only_tests_that_ran_and_passed_are_renewed(project):
    other = TEXT.replace("missing", "gone").replace("Another", "Other")
    project.write(other)
    project.run("--renew-sentences", "-k", "two")
    assert project.read() == other.replace("Other", "Another")
    (project.folder / "test_a.py").write_text(TESTS.replace('assert_sentence("Another.")', "assert 0"))
    project.run("--renew-sentences", "-k", "two", succeeds=False)
    assert project.read() == other.replace("Other", "Another")


def test_what_is_no_more_said_fails_and_goes(project):
    (project.folder / "test_a.py").write_text(TESTS.replace('    assert_sentence("Another.")\n', ""))
    assert "says no more: Another." in project.run(succeeds=False)
    project.run("--renew-sentences")
    assert project.read() == TEXT.replace("  - Another.\n", "")


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n2", marks=pytest.mark.slow)])
def test_entries_of_tests_that_are_no_more_are_listed_and_go(project, workers):
    gone = "test_a.py::test_zero\n  - Nothing.\ntest_b.py::test_one\n  - Nothing.\n"
    project.write(TEXT + gone)
    printed = project.run(workers)
    assert "test_a.py::test_zero is no more" in printed and "test_b.py::test_one is no more" in printed
    project.run(workers, "--renew-sentences", "test_a.py::test_two")
    assert project.read() == TEXT + gone.partition("test_b")[0]  # test_zero might be in what was not collected
    project.run(workers, "--renew-sentences", "-k", "two")
    assert project.read() == TEXT


def test_what_must_be_named_is_asserted(project):
    (project.folder / "test_a.py").write_text(TESTS.replace("tmp_path / name):", '"elsewhere.csv"):'))
    assert "['elsewhere.csv'] not named in: " in project.run("--renew-sentences", "-k", "one", succeeds=False)
    assert project.read() == TEXT
