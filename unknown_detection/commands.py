"""The table of commands: which module runs each, and how messages name it.

Code and messages name a command as `python -m MODULE`, which always works. `as_started` rewrites that for somebody who
started `unknown-detection`.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = "unknown-detection"
"""The installed command."""

MODULE = "python -m unknown_detection"
"""The same command in a checkout that is not installed."""

_OVERVIEWS = ("unknown_detection", "builders", "hf_scripts")
"""The packages whose `__main__` is the command `unknown-detection`."""


@dataclass(frozen=True)
class Command:
    """A command of `unknown-detection`.

    Attributes:
        name: its words, such as `build imagenet`.
        module: the module that `python -m` runs; its function `main` takes the arguments and returns the exit code.
        summary: its line in the overview, in the imperative.
        section: its heading in the overview.
        inside: for one of several commands of a module, its name there.
        made_in: for a module that only declares a benchmark, the module whose `make_command` makes its click command
            (of the declared `BENCHMARK`, if there is one). Else the module itself has `command` or `make_command`.
    """

    name: str
    module: str
    summary: str
    section: str
    inside: str = ""
    made_in: str = ""

    @property
    def python(self) -> str:
        """The command line that starts it with Python."""
        if self.module.startswith("unknown_detection."):
            return f"{MODULE} {self.name}"
        return f"python -m {self.module} {self.inside}".rstrip()

    @property
    def entry(self) -> str:
        """The module that has `main` and the click command."""
        return self.module if "." in self.module else f"{self.module}.__main__"


_BUILD, _CHECK, _SHARE, _EVALUATE = "Build a release", "Look into it", "Share it", "Evaluate detectors"

BUILDER, FOLDERS = "builders.commands.benchmark", "builders.commands.folder"
"""The modules with the commands of a declared benchmark, and of one that is declared for a person's folders."""

_BENCHMARKS = {
    "imagenet": "The unified benchmark on ImageNet-200 (Kim, Koo and Hwang).",
    "cifar": "The unified benchmark on CIFAR-40 (Kim, Koo and Hwang).",
    "facets": "FACETS: is a class one of Places365?",
    "broad": "BROAD: kinds of shift from ImageNet-1k.",
    "openood": "OpenOOD v1.5 on ImageNet, MOS's four sets, ImageNet-OOD.",
    "ssb": "SSB: is a bird of a known kind, an aircraft of a known variant?",
    "folder": "A benchmark of your own folders of images.",
}

COMMANDS = (
    Command(
        "sources", "builders.commands.sources", "List the source datasets: where to get them, what is here.", _BUILD
    ),
    *(
        Command(
            f"build {name}",
            f"builders.{name}_benchmark",
            summary,
            _BUILD,
            made_in=FOLDERS if name == "folder" else BUILDER,
        )
        for name, summary in _BENCHMARKS.items()
    ),
    Command("doctor", "builders.commands.doctor", "Say whether a copy of a dataset is the dataset.", _CHECK),
    Command("compare", "builders.commands.compare", "Compare two releases or copies, image by image.", _CHECK),
    Command("verify", "hf_scripts.verify", "Check every digest, row and image, of a folder or on the Hub.", _CHECK),
    Command("audit", "builders.commands.audit", "Find overlaps, duplicates and artifacts that spoil results.", _CHECK),
    Command("explain", "taxonomy", "Explain why a class is in or out.", _CHECK, inside="explain"),
    Command("report", "builders.commands.report", "Write one HTML page about the release.", _CHECK),
    Command("push", "hf_scripts.push", "Publish on the Hugging Face Hub, as one commit and a tag.", _SHARE),
    Command("materialize", "hf_scripts.materialize", "Build a published index with your own images.", _SHARE),
    Command("export", "hf_scripts.export", "Write OpenOOD lists, class folders or webdataset tars.", _SHARE),
    Command("card", "hf_scripts.card", "Render the dataset card, or check that it is up to date.", _SHARE),
    Command(
        "evaluate",
        "unknown_detection.evaluation.__main__",
        "Extract features, score, report figures, or all three.",
        _EVALUATE,
    ),
)
"""All commands, in the order of the overview."""

GROUPS = {"build": "Build imagenet, cifar, facets, broad, openood, ssb or folder."}
"""The first words that several commands share, each with its line in the overview."""

_BY_PYTHON = {command.python: command.name for command in COMMANDS} | {MODULE: ""}
_NAMED = re.compile(
    "(" + "|".join(re.escape(name) for name in sorted(_BY_PYTHON, key=len, reverse=True)) + r")(?!\.?\w)"
)


def own_process() -> bool:
    """Whether this process runs a command of the table, and is not another program that imports its module."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name in {command.entry for command in COMMANDS}


def run_builder(declared: Any, argv: Sequence[str] | None = None) -> int:
    """Run the command line of a declared benchmark's build, or of the build of one's own folders if it is None.

    Declarations are a layer below the commands, whose modules are therefore imported by name.
    """
    module = importlib.import_module(BUILDER if declared is not None else FOLDERS)
    code: int = module.run_command(declared, argv) if declared is not None else module.run_command(argv)
    return code


def program() -> str:
    """Return how the user started `unknown-detection`; empty where Python runs another module or a notebook."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return MODULE if started.parent.name in _OVERVIEWS else ""
    return PROGRAM if started.stem.removesuffix("-script") == PROGRAM else ""


def as_started(text: str) -> str:
    """Return a text with every `python -m MODULE` of the table replaced by the command as the user started it.

    This is for printed texts only. Files have `python -m`, so that their bytes are the same for everybody.
    """
    started = program()
    return _NAMED.sub(lambda match: f"{started} {_BY_PYTHON[match[0]]}".rstrip(), text) if started else text


def version() -> str:
    """Return the version of the installed project, or of this checkout."""
    import tomllib
    from importlib import metadata

    try:
        return metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        project = Path(__file__).parents[1] / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
