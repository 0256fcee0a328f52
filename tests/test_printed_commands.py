"""Every command that a card, the release's page or the demo prints runs as it is printed, on the demo releases.

Those in messages have folders that are known when they are printed: they name commands and flags that exist.
"""

import ast
import html
import importlib
import os
import re
import shlex
import shutil

import pytest

from builders.commands import demo as demo_command
from builders.commands.report import main as report
from builders.registry import BENCHMARKS
from builders.release.manifest import read_manifest
from tests.test_docs import ROOT, check_exists
from unknown_detection.commands import COMMANDS

ENTRIES = {command.module: command.entry for command in COMMANDS}
PRINTED = re.compile(r"python -m (?:" + "|".join(map(re.escape, ENTRIES)) + r")(?: [^`<\n]*[^`<\n.])?(?![.\w])")


PACKAGES = ("builders", "hf_scripts", "taxonomy", "unknown_detection")
NAMED = re.compile(r"python -m [\w.]*\w(?: (?:--[\w-]+|[\w./-]+))*")


def printed_in(text):
    """The commands of a text, each once. A name alone, as in "`python -m X` does this", is not a command to type."""
    found = dict.fromkeys(PRINTED.findall(html.unescape(text)))
    return [command for command in found if len(shlex.split(command)) > 3]


def run(command, *more):
    """Run a printed command in this process; returns its exit code."""
    _, _, module, *arguments = shlex.split(command)
    return importlib.import_module(ENTRIES[module]).main([*arguments, *more])


@pytest.fixture(params=["imagenet_release", "cifar_release", "facets_release", "broad_release"])
def released(request, tmp_path):
    """A copy of a demo release, whose files are links, with its page beside it."""
    folder = tmp_path / "release"
    others = shutil.ignore_patterns(".state")  # its lock
    shutil.copytree(request.getfixturevalue(request.param), folder, ignore=others, copy_function=os.link)
    return request.param.removesuffix("_release"), folder


def test_commands_of_a_release_run_as_its_page_and_its_card_print_them(released, drawn_demo, demo, tmp_path, capsys):
    name, release = released
    assert report([str(release), "--out", str(tmp_path / "page.html"), "--pictures", "none"]) == 0
    commands = printed_in((tmp_path / "page.html").read_text() + (release / "README.md").read_text())
    modules = {shlex.split(command)[2] for command in commands}
    assert modules >= {
        "builders.commands.audit",
        "hf_scripts.verify",
        "hf_scripts.materialize",
        f"builders.{name}_benchmark",
    }
    config, sources = a_config_with_its_sources(read_manifest(release), demo)
    placeholders = {
        "ORG/NAME --splits CONFIG --revision TAG": f"{release} --splits {config}",
        "--SOURCE DIR --out DIR": f"{sources} --out {tmp_path / 'again'} --dry-run",
        "verify DIR": f"verify {release}",
        "sheet DIR": f"sheet {release} --images 2 --dry-run",
    }
    for command in commands:
        typed = command
        for shown, meant in placeholders.items():
            typed = typed.replace(shown, meant)
        assert not re.search(r"\b(DIR|CONFIG|TAG|SOURCE|ORG)\b", typed), f"what to put in is not known: {command}"
        if "--demo" in typed:  # the release itself was built by these flags
            typed += " --dry-run"
        elif "verify" in typed:
            typed += " --check fast --workers 1"
        elif "artifacts" in typed:
            typed += " --sample 20 --workers 1 --dry-run"
        assert run(typed) == 0, f"{command}: {capsys.readouterr().err}"
        capsys.readouterr()


def a_config_with_its_sources(manifest, demo):
    """A config of a release and the flags for its sources."""
    for config, entry in sorted(manifest.configs.items()):
        keys = sorted({source for split in entry.splits.values() for source in split.sources})
        if set(keys) <= demo.keys():
            return config, " ".join(f"--{key} {shlex.quote(str(demo[key]))}" for key in keys)
    raise AssertionError("no config has all its sources in the demo")


def test_the_next_commands_of_the_demo_run_as_printed(demo, tmp_path, monkeypatch, capsys):
    """Also where the folder has a name that a shell would divide."""
    folder = tmp_path / "a demo"
    folder.symlink_to(next(iter(demo.values())).parent)
    monkeypatch.setattr(demo_command, "write_demo", lambda root, **_: {key: root / key for key in demo})
    assert demo_command.main([str(folder)]) == 0
    commands = printed_in(capsys.readouterr().out)
    assert len(commands) == len(BENCHMARKS)
    for command in commands:
        assert run(command, "--dry-run", "--out", str(tmp_path / "out")) == 0, f"{command}: {capsys.readouterr().err}"


def texts_of(code):
    """The texts of a module but for docstrings; what is filled in later stands as X."""
    tree = ast.parse(code)
    passed_over = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):  # a docstring
            passed_over.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            passed_over |= {id(part) for part in node.values}
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed_over:
            yield node.value


def in_messages():
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    modules = [code for path in paths if "python -m " in (code := path.read_text(encoding="utf-8"))]
    return sorted({found.rstrip(" .") for code in modules for text in texts_of(code) for found in NAMED.findall(text)})


def test_commands_in_messages_name_what_exists():
    found = in_messages()
    assert len(found) > 40
    for words in map(str.split, found):
        if "X" not in words[2]:  # a module that is filled in, such as a benchmark's
            check_exists(words, " ".join(words))
