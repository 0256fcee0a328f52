"""The flags and the file that give the folders of the sources.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from builders.cli.build_flags import BuildFlags
from builders.cli.source_places import Place, PlaceType, as_place
from builders.errors import BuildError, one_line
from builders.hub.place import is_hub_place
from builders.sources.titles import TITLES
from builders.storage.paths import store_of
from builders.storage.text_files import read_lines

if TYPE_CHECKING:
    from builders.sources.base import Source

SOURCES_FILE = Path("sources.toml")
"""The file in the current folder that is read if --sources is not given."""


def source_options(sources: Mapping[str, str]) -> list[Callable[[Any], Any]]:
    """Return a flag `--<key> DIR`, or an address instead of the folder, for each source, given titles by key."""
    return [
        click.option(f"--{key}", key, type=PlaceType(), metavar="DIR|ADDRESS", help=f"{title}.")
        for key, title in sources.items()
    ]


def sources_option() -> Callable[[Any], Any]:
    """Return the flag `--sources FILE`."""
    return click.option(
        "--sources",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help='TOML file with a line `source = "DIR"` for each source. Instead of DIR, an ADDRESS is s3://BUCKET/PREFIX,'
        f" in another store, or hf://datasets/ORG/NAME.  [default: {SOURCES_FILE} if there]",
    )


def listed_sources(given: Path | None) -> dict[str, Place]:
    """Read places by source key from a file; without one, from `SOURCES_FILE` if that exists.

    Raises:
        BuildError: the file has other lines than `source = "DIR"`, or names no source.
    """
    path = given or (SOURCES_FILE if SOURCES_FILE.is_file() else None)
    if path is None:
        return {}
    text = "\n".join(read_lines(path, "Correct it."))
    try:
        listed = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError
        problem = "nested too deeply" if isinstance(error, RecursionError) else one_line(error)
        raise BuildError(f'{path} is not TOML with lines such as imagenet = "DIR" ({problem}). Correct it.') from error
    known = list(TITLES)
    for key, value in listed.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"The nearest is {near[0]}" if near else f"Those are {', '.join(known)}"
            raise BuildError(f"{one_line(repr(key))} in {path} is no source. {hint}. Correct it.")
        if not isinstance(value, str) or not value or "\0" in value:
            raise BuildError(
                f'{key} in {path} is {one_line(repr(value), 80)}, not a folder in quotes. Write {key} = "DIR".'
            )
    return {key: _placed(key, value, path) for key, value in listed.items()}


def _placed(key: str, value: str, path: Path) -> Place:
    return (
        as_place(value)
        if is_hub_place(value) or not store_of(value).is_local
        else path.parent / _expanded(key, value, path)
    )


def _expanded(key: str, value: str, path: Path) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise BuildError(
            f"{key} in {path} is {one_line(value)}, and this machine knows no such user. Write the whole path."
        ) from error


def given_places(sources: Iterable[Source], flags: BuildFlags) -> dict[Source, Place]:
    """The places of some sources, by their flags or the sources file; sources that neither names are missing.

    Raises:
        BuildError: as for `listed_sources`.
    """
    listed = {**listed_sources(flags.sources), **flags.folders}
    return {source: listed[source.key] for source in sources if source.key in listed}


def refuse_sources_of_demo(flags: BuildFlags, log: Callable[[str], object]) -> None:
    """Refuse copies of sources that are given to a demo, which uses none; say that the file here is not read.

    Raises:
        BuildError: a flag names a copy or a file that names copies.
    """
    given = [f"--{key}" for key in flags.folders] + ["--sources"] * (flags.sources is not None)
    if given:
        named = " and ".join(given)
        raise BuildError(
            f"--demo makes up all sources, so {named} cannot be given with it. Leave out --demo to build from your "
            f"own copies, or {named} to try the tools."
        )
    if SOURCES_FILE.is_file():
        log(f"--demo makes up all sources; {SOURCES_FILE} is not read")


def missing_sources(missing: Iterable[tuple[Source, str]]) -> list[str]:
    """Describe the sources that have no folder: who needs them, where to get them, and the accepted layouts."""
    lines = []
    for source, needing in missing:
        lines.append(f"  --{source.key} DIR  {source.title}, for {needing}")
        lines += [f"      get it from {source.obtain.page}: {source.obtain.steps}"] if source.obtain else []
        lines += [f"      {way}" for way in _shorter_ways(source)]
        lines += [f"      {layout}" for layout in source.layouts]
    return lines


def listed_once(source: Source) -> str:
    """How to list the folders for all later commands, with a source as the example."""
    return f'Folders can also be listed once in {SOURCES_FILE}, a line such as {source.key} = "DIR" for each'


def _shorter_ways(source: Source) -> list[str]:
    """Ways to get a source with one command or one flag."""
    obtain, ways = source.obtain, []
    if obtain is not None and obtain.is_plain:
        ways.append(f"or run python -m builders.commands.sources get {source.key} --into DIR")
    if obtain is not None and obtain.mirror is not None and obtain.mirror.at:
        gate = ", once your account has accepted its terms" if obtain.mirror.gated else ""
        ways.append(f"or give --{source.key} {obtain.mirror.at}{gate}")
    return ways
