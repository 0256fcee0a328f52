"""The flags and the file that give the folders of the sources.

Tested by `tests/builders/pipeline/test_command.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from builders.errors import BuildError
from builders.sources.base import Source

SOURCES_FILE = Path("sources.toml")
"""The file in the current folder that is read if --sources is not given."""


def source_options(sources: Iterable[Source]) -> list[Callable[[Any], Any]]:
    """Return a flag `--<key> DIR` for each source that has a folder."""
    return [
        click.option(
            f"--{source.key}",
            source.key,
            type=click.Path(path_type=Path),
            metavar="DIR",
            help=f"{source.title}. Run without any source to see the layouts that are accepted.",
        )
        for source in sources
        if source.on_disk
    ]


def sources_option() -> Callable[[Any], Any]:
    """Return the flag `--sources FILE`."""
    return click.option(
        "--sources",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help=f'TOML file with a line `source = "DIR"` for each source.  [default: {SOURCES_FILE} if there]',
    )


def listed_sources(given: Path | None) -> dict[str, Path]:
    """Read folders by source key from a file; without one, from `SOURCES_FILE` if that exists.

    Raises:
        BuildError: the file has other lines than `source = "DIR"`.
    """
    path = given or (SOURCES_FILE if SOURCES_FILE.is_file() else None)
    if path is None:
        return {}
    try:
        listed = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BuildError(f'{path} is not TOML with lines such as imagenet = "DIR" ({error}). Correct it.') from error
    for key, value in listed.items():
        if not isinstance(value, str):
            raise BuildError(f'{key} in {path} is {value!r}, not a folder in quotes. Write {key} = "DIR".')
    return {key: path.parent / Path(value).expanduser() for key, value in listed.items()}


def missing_sources(missing: Iterable[tuple[Source, str]]) -> list[str]:
    """Describe the sources that have no folder: who needs them, where to get them, and the accepted layouts."""
    lines = []
    for source, needing in missing:
        lines.append(f"  --{source.key} DIR  {source.title}, for {needing}")
        lines += [f"      get it from {source.obtain.page}: {source.obtain.steps}"] if source.obtain else []
        lines += [f"      {layout}" for layout in source.layouts]
    return lines
