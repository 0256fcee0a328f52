"""Every command that README.md and docs/ show runs here, is compared elsewhere, or says what it needs.

A block of commands is fenced as `bash`. One that cannot run on the demo is marked on the line before it: `<!-- needs
real data -->`. Blocks fenced as `console` show output, which `test_readme.py` and the tests of publishing compare.
Commands and flags in sentences and in marked blocks exist.
"""

import functools
import importlib
import re
import shlex
import shutil
from pathlib import Path

import click
import pytest

from unknown_detection.__main__ import click_command, make_command
from unknown_detection.__main__ import main as installed_command
from unknown_detection.commands import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

NEEDS = {"real data", "the Hub", "the Hub and real data", "weights", "a cluster", "a store", "torch"}
"""What a block may say that it needs."""

_BLOCK = re.compile(r"^(?:<!-- needs (?P<needs>.+?) -->\n)?```bash\n(?P<text>.*?)^```", re.M | re.S)
_CONSOLE = re.compile(r"^\$ (.+)$", re.M)
_INLINE = re.compile(r"(?<!`)`((?:unknown-detection|python -m) (?!sealed)[^`]+)`")
_OURS = re.compile(r"unknown-detection |python -m (?:builders|hf_scripts|taxonomy|evaluation|benchmarks)\b")


def blocks(path):
    """What each block of commands needs, and its commands, each on one line."""
    for found in _BLOCK.finditer(path.read_text(encoding="utf-8")):
        text = re.sub(r"\\\n\s*", "", found["text"])
        yield found["needs"], [line for line in text.splitlines() if line]


def commands():
    """The page and text of every command of ours, in blocks and in sentences."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        shown = [line for _, lines in blocks(path) for line in lines] + _CONSOLE.findall(text)
        shown += [" ".join(code.split()) for code in _INLINE.findall(text)]
        for command in (part.replace(".venv/bin/", "") for line in shown for part in line.split(" && ")):
            if _OURS.match(command):
                yield path.relative_to(ROOT).as_posix(), command


def run_by_ci(line):
    """Whether it builds a whole demo benchmark, which `.ci/run` does with each, to verify them together."""
    words = line.split()
    named = {f"unknown-detection {command.name}": command.module for command in COMMANDS}
    is_build = words[3:] == ["--demo", "--out", words[-1]] and " ".join(words[:3]) in named
    name = " ".join(words[:3])
    return is_build and any(f"{start} --demo " in CI for start in (name, f"python -m {named[name]}"))


@functools.cache
def click_commands():
    """The click command of every command, by its words as both programs start it."""
    found = {}
    for command in COMMANDS:
        made = click_command(command, click.Context(make_command()))
        for start in (f"unknown-detection {command.name}", command.python):
            found[start] = made
            if isinstance(made, click.Group):
                for name in made.list_commands(click.Context(made)):
                    found[f"{start} {name}"] = made.get_command(click.Context(made), name)
    return found


def check_exists(words, where):
    """Assert that a command's module and flags exist, and in a group a command of that name."""
    known = click_commands()
    start = next((" ".join(words[:n]) for n in range(len(words), 1, -1) if " ".join(words[:n]) in known), None)
    if start is None:  # a module that is no command of the table
        assert words[:2] == ["python", "-m"], f"{where} is no command"
        module = ROOT / words[2].replace(".", "/")
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file(), where
        return
    inside = words[len(start.split()) :]
    if isinstance(known[start], click.Group) and inside:
        names = known[start].list_commands(click.Context(known[start]))
        assert inside[0] in names or not re.fullmatch("[a-z]+", inside[0]), where
    names = {name for param in known[start].params for name in param.opts + param.secondary_opts} | {"--help"}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= names, where


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_every_command_and_flag_exists(page, command):
    check_exists(shlex.split(command), f"{page}: {command}")


def run_here(line):
    """Run a command of ours in this process, and return its exit code."""
    program, *words = shlex.split(line)
    if program == "unknown-detection":
        return installed_command(words)
    assert [program, words[0]] == ["python", "-m"], line
    entries = {command.module: command.entry for command in COMMANDS}
    return importlib.import_module(entries.get(words[1], words[1])).main(words[2:])


RUN = [
    pytest.param(line, id=f"{path.relative_to(ROOT).as_posix()}-{line}")
    for path in PAGES
    for needs, lines in blocks(path)
    for line in lines
    if not needs and not run_by_ci(line)
]


@pytest.mark.parametrize("line", RUN)
def test_a_command_that_needs_nothing_runs(line, drawn_demo, imagenet_release, tmp_path, monkeypatch, capsys):
    shutil.copytree(imagenet_release, tmp_path / "build" / "unknown-detection")  # linked files would share locks
    monkeypatch.chdir(tmp_path)
    assert run_here(line) == 0, capsys.readouterr().err


def test_what_blocks_need_is_one_of_a_few_things():
    assert {needs for path in PAGES for needs, _ in blocks(path) if needs} <= NEEDS


def test_no_page_indents_its_commands():
    for path in PAGES:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        assert not re.search(r"^ {4,}(?:python|unknown-detection|pip) ", text, re.M), path
