"""The command line as a whole: help with the core alone, and what is said where the extra is missing."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from unknown_detection.evaluation.__main__ import command, with_flags
from unknown_detection.evaluation.errors import EXTRA

ROOT = Path(__file__).parents[2]
MODULES = {"scikit-learn": "sklearn"}


def test_the_extra_is_what_the_project_lists():
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["evaluate"]
    names = [re.split(r"[<>=!~\[; ]", line)[0].lower() for line in lines]
    assert sorted(MODULES.get(name, name) for name in names) == sorted(EXTRA)


HELP = """
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys({extra!r}))
from unknown_detection.evaluation.__main__ import command, main
found = []
for arguments in ([], *([name] for name in command.commands)):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main([*arguments, "--help"])
    found.append((arguments, code, said.getvalue()))
print(json.dumps(found))
"""


def test_help_needs_nothing_of_the_extra_and_ends_with_an_example():
    process = subprocess.run(
        [sys.executable, "-c", HELP.format(extra=EXTRA)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(process.stdout)
    assert [arguments for arguments, _, _ in found] == [[], *([name] for name in command.commands)]
    for arguments, code, said in found:
        assert code == 0, arguments
        assert "Example: python -m unknown_detection evaluate " in " ".join(said.split()), arguments


def test_messages_name_parameters_in_python_and_flags_on_the_command_line():
    """Parameters that a command has not stay as they are, as does a traceback, of code that calls Python."""
    options = importlib.import_module("unknown_detection.evaluation.commands.extract").command.params
    message = "No fit_configs= and batch_size=0: give weights=, pretrained=True (or batch_size=)."
    shown = "No fit_configs= and --batch-size 0: give --weights, --pretrained (or --batch-size)."
    traceback = "\nTraceback (most recent call last):\n    extract(model, batch_size=0)"
    assert with_flags(message + traceback, options) == shown + traceback


WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
from unknown_detection.evaluation.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_missing_extra_is_one_sentence(digits, tmp_path):
    arguments = ["extract", "--release", str(digits), "--model", "timm:resnet18", "--splits", "digits/test"]
    arguments += ["--out", str(tmp_path / "features")]
    process = subprocess.run([sys.executable, "-c", WITHOUT, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 2, process.stderr
    assert "error: torch is not installed, but needed to run this command. Install it with pip" in process.stderr
