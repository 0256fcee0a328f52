"""`unknown-detection`: it finds the command, hands the arguments on, completes them in a shell, and is quick."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from unknown_detection.__main__ import COMPLETE_VARIABLE, SHELLS, main
from unknown_detection.commands import COMMANDS, MODULE, PROGRAM

ROOT = Path(__file__).parents[2]
MODULES = ("unknown_detection", "builders", "hf_scripts")
HEAVY = {"torch", "datasets", "pandas", "pyarrow", "numpy", "PIL", "builders", "hf_scripts", "taxonomy"}


def run(*arguments, module="unknown_detection"):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The installed command on PATH: a script like the one that pip writes for the entry point."""
    target = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"][PROGRAM]
    module, function = target.split(":")
    script = tmp_path / "bin" / PROGRAM
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n", encoding="utf-8"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return script


# Finding commands


@pytest.mark.parametrize("module", MODULES)
def test_a_package_without_arguments_shows_the_overview(module):
    done = run(module=module)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {MODULE} COMMAND ...\n")
    for command in COMMANDS:
        assert f"\n  {command.name.partition(' ')[0]} " in done.stdout


def test_the_arguments_reach_the_command_as_they_are(monkeypatch):
    received = []
    monkeypatch.setattr("hf_scripts.verify.main", lambda argv: received.append(argv) or 7)
    arguments = ["DIR", "--check", "fast", "--", "-x", "--help", ""]
    assert main(["verify", *arguments]) == 7
    monkeypatch.setattr("taxonomy.__main__.main", lambda argv: received.append(argv) or 0)
    assert main(["explain", "cifar", "--all"]) == 0
    monkeypatch.setattr("builders.folder_benchmark.main", lambda argv: received.append(argv) or 0)
    assert main(["build", "folder", "-h"]) == 0
    assert received == [arguments, ["explain", "cifar", "--all"], ["-h"]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["vrify"], "There is no command 'vrify'. Did you mean verify? See python -m unknown_detection --help."),
        (["build", "imagnet"], "There is no command 'imagnet'. Did you mean imagenet? See python -m unknown_det"),
        (["qqqq"], "Those are sources, build, doctor, compare"),
        (["--versoin"], "No such option"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        (["explain", "cifar", "mushrom"], "'mushroom'"),
        (["explain", "cifar"], "Missing argument 'CLASS'. See python -m taxonomy explain --help."),
        (["evaluate", "scroe"], "There is no command 'scroe'. Did you mean score?"),
        (["verify"], "Missing argument 'DIR|ORG/NAME'. See python -m hf_scripts.verify --help."),
        (["verify", "nowhere"], "There is no folder nowhere, and a repository on the Hub is named ORG/NAME."),
        (["export", "DIR", "--format", "zip"], "'zip' is not one of"),
        (["push", "DIR", "--repo", "o/n", "--tag", "v1.0.0", "--json"], "--json describes what --dry-run would do."),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(capsys, arguments, sentence):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert sentence in printed.err


def test_messages_name_the_installed_command(program, tmp_path):
    done = subprocess.run([PROGRAM, "verify"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: Missing argument 'DIR|ORG/NAME'. See unknown-detection verify --help.\n"
    done = subprocess.run([PROGRAM, "build", "cifar"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("\n  unknown-detection build cifar --demo --out build/unknown-detection\n")
    assert "python -m" not in done.stderr


def test_version(program):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{PROGRAM} {declared}\n"


# Speed


def imported(*commands):
    """The packages that a process has imported after some commands, each the words of one."""
    script = (
        "import sys\nfrom unknown_detection.__main__ import main\n"
        f"for words in {commands!r}:\n    sys.argv[1:] = words.split()\n    assert main() == 0\n"
        "print('\\nimported', *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_the_overview_imports_no_command():
    # What takes time is what is imported: click alone takes 0.05 s, a builder 0.5 s.
    assert not imported("", "--help", "build", "build --help", "--version", "completion bash") & HEAVY


def test_no_help_page_imports_what_is_slow():
    # The rest is imported in 0.2 to 0.8 s: pyarrow, NumPy and Pillow, which say what the options may be.
    words = ["build broad", "push", "audit pairs", "evaluate extract", "materialize", "explain"]
    modules = imported(*(f"{word} --help" for word in words))
    slow = {"torch", "datasets", "pandas", "matplotlib", "sklearn", "timm"}
    assert not modules & (slow | {"scipy"})
    assert {"builders", "hf_scripts", "taxonomy"} <= modules
    assert (
        not imported("evaluate score --help") & slow
    )  # it asks all detectors for their hyperparameters, some by SciPy


# Completion


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_for_each_shell(capsys, shell):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert COMPLETE_VARIABLE in text and f"{shell}_complete" in text
    assert text.startswith("# ") and f"completion {shell}" in text.splitlines()[0]
    program = shutil.which(shell)
    if program is not None:  # each shell can tell whether a script parses
        subprocess.run([program, "-n"], input=text, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_values(program):
    expected = {
        "build ": ["imagenet", "cifar", "facets", "broad", "openood", "ssb", "folder"],
        "verify DIR --check f": ["fast"],
        "build cifar --splits cifar-train,cifar/far_ood_d": ["cifar-train,cifar/far_ood_dtd"],
    }
    asked = [[PROGRAM, *line.split(" ")] for line in expected]
    script = "\n".join(
        [
            "compopt() { :; }  # bash allows it only where a person asks for a completion",
            f'eval "$({PROGRAM} completion bash)"',
            f"complete -p {PROGRAM} >&2",
            *(
                f"COMP_WORDS=({' '.join(word or chr(39) * 2 for word in words)}) COMP_CWORD={len(words) - 1}\n"
                f'COMPREPLY=(); _unknown_detection_completion {PROGRAM}; echo "${{COMPREPLY[*]}}"'
                for words in asked
            ),
        ]
    )
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert f"-F _unknown_detection_completion {PROGRAM}" in done.stderr
    assert dict(zip(expected, map(str.split, done.stdout.splitlines()), strict=True)) == expected
