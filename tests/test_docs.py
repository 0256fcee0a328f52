"""Every command that README.md and docs/ show runs here, is compared elsewhere, or says what it needs.

A block of commands is fenced as `bash`. One that cannot run on the demo is marked by a comment on the line before it:
`<!-- needs real data -->`. Blocks fenced as `console` show output, which `test_readme.py` compares. Commands and flags in
sentences and in marked blocks have to exist.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.builders.conftest import linked_copy
from unknown_detection.__main__ import COMMANDS, command_named

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

NEEDS = ("real data", "the Hub", "the Hub and real data", "weights", "a cluster", "nothing else to run")
"""What a block may say that it needs."""

_BLOCK = re.compile(r"^(?:<!-- needs (?P<needs>.+?) -->\n)?```bash\n(?P<text>.*?)^```", re.M | re.S)
_CONSOLE = re.compile(r"^\$ (.+)$", re.M)


def blocks(path):
    """What each block of commands needs, and its commands, each on one line."""
    for found in _BLOCK.finditer(path.read_text(encoding="utf-8")):
        text = re.sub(r"\\\n\s*", "", found["text"])
        yield found["needs"], [line for line in text.splitlines() if line and not line.startswith("#")]


def commands():
    """Every command that a page shows, in blocks and in sentences."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        shown = [line for _, lines in blocks(path) for line in lines] + _CONSOLE.findall(text)
        shown += [" ".join(code.split()) for code in re.findall(r"(?<!`)`((?:unknown-detection|python -m) [^`]+)`", text)]
        yield from ((path.relative_to(ROOT).as_posix(), command) for line in shown for command in line.split(" && "))


def is_ours(command):
    return re.match(r"(\.venv/bin/)?(unknown-detection|python -m (builders|hf_scripts|taxonomy|evaluation|unknown_det))", command)


@pytest.mark.parametrize(("page", "command"), sorted({c for c in commands() if is_ours(c[1])}))
def test_every_command_and_flag_exists(page, command):
    words = shlex.split(command.removeprefix(".venv/bin/"))
    found, rest = resolve(words)
    names = {name for param in found.params for name in [*param.opts, *param.secondary_opts]} | {"--help"}
    given = {word.partition("=")[0] for word in rest if word.startswith("--")}
    assert given <= names, f"{page}: {command}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_says_what_it_needs_or_runs(path, imagenet_release, tmp_path):
    ours = [(needs, line) for needs, lines in blocks(path) for line in lines]
    assert {needs for needs, _ in ours if needs} <= set(NEEDS)
    to_run = [line for needs, line in ours if not needs]
    if not to_run:
        return
    copy_release(imagenet_release, tmp_path / "build" / "unknown-detection")
    for line in to_run:
        words = shlex.split(line)
        start = [sys.executable, "-m", "unknown_detection"] if words[0] == "unknown-detection" else [sys.executable]
        done = subprocess.run([*start, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_no_page_indents_its_commands():
    for path in PAGES:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        assert not re.search(r"^ {4,}(python|unknown-detection|pip) ", text, re.M), path
