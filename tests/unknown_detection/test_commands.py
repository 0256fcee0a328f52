"""The table of commands: what it names exists, and messages name a command as the user started it."""

import re
import sys
from pathlib import Path

import pytest

from builders.registry import BENCHMARKS
from unknown_detection.commands import COMMANDS, GROUPS, MODULE, PROGRAM, as_started, program

ROOT = Path(__file__).parents[2]


def test_names_are_once_in_the_table_and_grouped():
    names = [command.name for command in COMMANDS]
    assert len(set(names)) == len(names)
    assert {name.partition(" ")[0] for name in names if " " in name} == set(GROUPS)


def test_every_benchmark_can_be_built():
    built = {command.name: command.module for command in COMMANDS if command.name.startswith("build ")}
    assert built == {f"build {name}": f"builders.{name}_benchmark" for name in (*BENCHMARKS, "folder")}


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        ("/venv/bin/unknown-detection", PROGRAM),
        ("C:\\venv\\Scripts\\unknown-detection.exe".replace("\\", "/"), PROGRAM),
        ("/venv/Scripts/unknown-detection-script.py", PROGRAM),
        ("/here/unknown_detection/__main__.py", MODULE),
        ("/here/builders/__main__.py", MODULE),
        ("/here/hf_scripts/__main__.py", MODULE),
        ("/here/builders/commands/audit.py", ""),
        ("/here/builders/imagenet_benchmark.py", ""),
        ("/venv/bin/pytest", ""),
        ("", ""),
    ],
)
def test_how_the_user_started_it(monkeypatch, started, expected):
    monkeypatch.setattr(sys, "argv", [started])
    assert program() == expected


SPELLINGS = [
    ("python -m builders.imagenet_benchmark --demo", "build imagenet --demo"),
    ("python -m builders.commands.audit artifacts DIR", "audit artifacts DIR"),
    ("python -m hf_scripts.verify.", "verify."),
    ("`python -m hf_scripts.verify`", "verify"),
    ("python -m taxonomy explain cifar mushroom", "explain cifar mushroom"),
    ("python -m unknown_detection evaluate score --features F", "evaluate score --features F"),
]


@pytest.mark.parametrize(("python", "words"), SPELLINGS)
@pytest.mark.parametrize("started", [f"/bin/{PROGRAM}", "/here/unknown_detection/__main__.py"])
def test_a_message_names_the_command_that_was_started(monkeypatch, started, python, words):
    monkeypatch.setattr(sys, "argv", [started])
    named = PROGRAM if started.endswith(PROGRAM) else MODULE
    expected = f"`{named} {words}`" if python.startswith("`") else f"{named} {words}"
    assert as_started(f"Run {python}") == f"Run {expected}"


@pytest.mark.parametrize(
    "text",
    [
        "python -m taxonomy freeze --check",  # no command of the table
        "python -m hf_scripts.verify_more",
        "python -m unknown_detection.evaluation.commands",
        "python -m builders.commands.demo DIR",
        "python -m benchmarks.evaluating.metrics",
    ],
)
def test_other_modules_keep_their_names(monkeypatch, text):
    monkeypatch.setattr(sys, "argv", [f"/bin/{PROGRAM}"])
    assert as_started(text) == text


def test_a_module_that_was_started_itself_is_named_by_python(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/here/hf_scripts/push.py"])
    for python, _ in SPELLINGS:
        assert as_started(python) == python


def test_the_documentation_lists_the_keys_of_every_document():
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)(?: --dry-run)?` \| `(?:release|benchmark|repository|sources|place|a)`", text, re.M)
    printing = {
        name
        for path in (*(ROOT / "builders").rglob("*.py"), *(ROOT / "hf_scripts").rglob("*.py"))
        for name in re.findall(r'print_document\("(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert printing == set(rows)
