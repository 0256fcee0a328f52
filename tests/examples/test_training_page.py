"""The commands of docs/training.md name files, commands and options that exist."""

import re
import shlex

import click
import pytest

from tests.examples.paths import EXAMPLES

for _package in ("torch", "pytorch_ood", "torchvision", "timm", "safetensors"):
    pytest.importorskip(_package, reason=f"needs {_package}, of the extra train")

from builders.commands.folder import make_command  # noqa: E402
from examples import digits_release, mnist_folders, reproduce, train  # noqa: E402
from tests.examples.papers.scripts import script  # noqa: E402
from unknown_detection.evaluation.commands import extract, report, score  # noqa: E402

PAGE = (EXAMPLES.parent / "docs" / "training.md").read_text(encoding="utf-8")
COMMANDS = {
    ("python", "examples/train.py"): train.main,
    ("python", "examples/reproduce.py"): reproduce.main,
    ("python", "examples/digits_release.py"): digits_release.main,
    ("python", "examples/mnist_folders.py"): mnist_folders.main,
    ("python", "-m", "builders.folder_benchmark"): make_command(),
    ("unknown-detection", "evaluate", "extract"): extract.command,
    ("unknown-detection", "evaluate", "score"): score.command,
    ("unknown-detection", "evaluate", "report"): report.command,
    ("python", "examples/papers/optimizer_robustness.py"): script("optimizer_robustness")["main"],
}


def shown():
    """The commands in the page's fences, as words."""
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            yield shlex.split(line)


def test_every_option_exists():
    checked = 0
    for words in shown():
        matches = [command for start, command in COMMANDS.items() if tuple(words[: len(start)]) == start]
        (command,) = matches
        known = {name for option in command.params if isinstance(option, click.Option) for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known, words
        checked += 1
    assert checked == 17


def test_every_file_and_method_of_the_page_exists():
    for path in re.findall(r"(?<![\w/])((?:examples|unknown_detection)/[\w/]+\.py)", PAGE):
        assert (EXAMPLES.parent / path).is_file(), path
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == list(train.METHODS)
    (named,) = re.findall(r"command are for each of (.+) and each seed", PAGE)
    assert re.findall(r"`(\w+)`", named) == list(train.OPTIMIZERS)
