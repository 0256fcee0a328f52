"""Runs builds, `materialize`, `verify`, `doctor` and `compare` from Python: the commands, with keywords for flags.

The commands are found by name, as the overview of `unknown-detection` finds them. Without `workers=`, they work in the
caller's process: further ones import the caller's program, which then has to do its work under
`if __name__ == "__main__":`, as for any use of `multiprocessing`.

Tested by `tests/test_public_names.py` and `tests/evaluation/test_steps.py`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unknown_detection.commands import COMMANDS
from unknown_detection.terminal.progress import Log

if TYPE_CHECKING:
    from unknown_detection.evaluation.releases import Release


def build(benchmark: str, out: str | Path, *, log: Log = lambda text: None, **flags: Any) -> Release:
    """Build a benchmark from your own copies of its source datasets, or from small made-up ones.

        >>> release = ud.build("cifar", "build/cifar", demo=True, splits=["cifar/test", "cifar/near_ood"])
        >>> release.splits("cifar")
        ('near_ood', 'test')

    Args:
        benchmark: `imagenet`, `cifar`, `facets`, `broad`, or `folder` for your own images.
        out: folder of the release; an interrupted or repeated call goes on there.
        log: receives what the command prints.
        flags: those of `unknown-detection build BENCHMARK`, with `_` for `-`: `demo=True`; `imagenet="/data/imagenet"`
            and so on for the sources; a list for a flag that may be repeated. With `workers=8`, processes of their
            own import your program: let it do its work under `if __name__ == "__main__":`.

    Returns:
        The release.

    Raises:
        BuildError: anything that the user can fix, such as a source that is missing.
        ValueError: there is no such benchmark, or a flag cannot have this value.
        TypeError: there is no such flag.
    """
    known = [command.name.removeprefix("build ") for command in COMMANDS if command.name.startswith("build ")]
    if benchmark not in known:
        raise ValueError(f"There is no benchmark {benchmark!r}; choose one of {', '.join(known)}.")
    printed = _run(f"build {benchmark}", out=out, quiet=True, **flags)
    log(printed)
    return _load(out)


def materialize(
    release: str | Path | Release, out: str | Path, *, log: Log = lambda text: None, **flags: Any
) -> Release:
    """Build the rows of a release that was published without its images, from your own copies of the sources.

        >>> release = ud.materialize("build/index", "build/whole", cifar100="sources/cifar100", svhn="sources/svhn")
        >>> release.digest == ud.load("build/index").digest
        True

    Args:
        release: ORG/NAME on the Hub, with `revision=TAG`, a release's folder, or an opened one.
        out: folder of the new release.
        log: receives what the command prints.
        flags: those of `unknown-detection materialize`, as for `build`.

    Returns:
        The release, with the rows and digests of the published one.

    Raises:
        BuildError: anything that the user can fix, such as a source that is missing.
        ValueError: a flag cannot have this value.
        TypeError: there is no such flag.
    """
    printed = _run("materialize", _place(release, flags), out=out, quiet=True, **flags)
    log(printed)
    return _load(out)


def verify(release: str | Path | Release, **flags: Any) -> list[str]:
    """Check every digest, row and image of a release.

        >>> ud.verify("build/cifar")
        []

    Args:
        release: a folder, ORG/NAME on the Hub, or an opened one.
        flags: those of `unknown-detection verify`, as for `build`.

    Returns:
        The problems, in sentences; none for a release that is complete and undamaged.

    Raises:
        BuildError: there is no release to check.
        ValueError: a flag cannot have this value.
        TypeError: there is no such flag.
    """
    printed = _run("verify", _place(release, flags), json=True, **flags)
    return [message for problem in json.loads(printed)["problems"] for message in problem["messages"]]


def doctor(place: str | Path, **flags: Any) -> dict[str, Any]:
    """Say whether the copy of a dataset in a folder or archive is the dataset.

        >>> ud.doctor("copy", against="dtd.parquet")["sentence"]
        'complete: every one of 188 images of Describable Textures (DTD) (images) as in dtd.parquet'

    Args:
        place: the folder or archive.
        flags: those of `unknown-detection doctor`, as for `build`.

    Returns:
        What `unknown-detection doctor --json` prints: `whole`, `sentence`, `kinds`, `differences` and more.

    Raises:
        BuildError: there is no image in it, or the index cannot be read.
        ValueError: a flag cannot have this value.
        TypeError: there is no such flag.
    """
    document: dict[str, Any] = json.loads(_run("doctor", str(place), json=True, **flags))
    return document


def compare(a: str | Path | Release, b: str | Path | Release, **flags: Any) -> dict[str, Any]:
    """Compare two releases, copies, folders or indexes, image by image.

        >>> ud.compare("build/before", "build/after")["kinds"]
        {}

    Args:
        a: a folder, an index file, ORG/NAME on the Hub, or an opened release.
        b: the same.
        flags: those of `unknown-detection compare`, as for `build`.

    Returns:
        What `unknown-detection compare --json` prints: `equal`, `sentence`, `kinds`, `differences` and more.

    Raises:
        BuildError: one of the two cannot be read.
        ValueError: a flag cannot have this value.
        TypeError: there is no such flag.
    """
    places = []
    for side, revision in ((a, "revision_a"), (b, "revision_b")):
        opened: dict[str, Any] = {}
        places.append(_place(side, opened))
        if opened.get("revision"):
            flags.setdefault(revision, opened["revision"])
    document: dict[str, Any] = json.loads(_run("compare", *places, json=True, **flags))
    return document


def _load(where: str | Path | Release) -> Release:
    release: Release = importlib.import_module("unknown_detection.evaluation.releases").load(where)
    return release


def _place(release: str | Path | Release, flags: dict[str, Any]) -> str:
    """Return the folder or repository of a release; one that is open is read at its revision."""
    if isinstance(release, str | Path):
        return str(release)
    opened = _load(release)  # refuses anything else
    flags.setdefault("revision", opened.revision)
    return opened.source


def _run(name: str, *words: str, **flags: Any) -> str:
    """Run a command in this process; return what it printed."""
    overview = importlib.import_module("unknown_detection.__main__")
    (listed,) = [command for command in COMMANDS if command.name == name]
    command = overview.click_command(listed, click.Context(click.Command(name)))
    arguments = _arguments({"workers": 1, **flags})
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            command.main([*words, *arguments], prog_name=name, standalone_mode=False)
    except click.NoSuchOption as error:
        message = error.format_message().replace("--", "")
        raise TypeError(f"{name}: {message}") from None
    except click.ClickException as error:
        raise ValueError(f"{name}: {error.format_message()}") from None
    return printed.getvalue()


def _arguments(flags: dict[str, Any]) -> list[str]:
    """Return keywords as arguments of a command line."""
    arguments = []
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        for item in value if isinstance(value, list | tuple) else [value]:
            arguments += [] if item is None or item is False else [flag] if item is True else [flag, str(item)]
    return arguments
