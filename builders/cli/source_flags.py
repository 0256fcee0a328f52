"""Says where copies of sources are, by flags and a file: in folders, in a store, or on the Hub.

Tested by `tests/builders/commands/test_build.py` and `tests/builders/cli/test_source_flags.py`.
"""

from __future__ import annotations

import contextlib
import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from builders.cli.build_options import BuildRequest, Place, default_cache
from builders.errors import BuildError, one_line
from builders.hub.place import PREFIX, HubPlace, parse_place
from builders.sources.titles import TITLES
from builders.storage.paths import as_path
from builders.storage.text_files import read_text_lines
from unknown_detection.words import first_few, quantity

if TYPE_CHECKING:
    from builders.sources.base import Source
    from builders.sources.obtain import Obtain


def parse_source_place(text: str) -> Place:
    """Parse the place of a copy of a source, as a user writes it."""
    return parse_place(text) if text.startswith(PREFIX) else as_path(text)


class PlaceType(click.ParamType[Any]):
    """The type of a flag that takes a folder or an address (`s3://BUCKET/PREFIX`, `hf://datasets/ORG/NAME`)."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the place."""
        return parse_source_place(value) if isinstance(value, str) else value


cache_option: Callable[[Any], Any] = click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=default_cache,
    show_default="~/.cache/unknown-detection",
    metavar="DIR",
    help="Folder for what is downloaded of sources given as hf://datasets/ORG/NAME.",
)


def source_roots(
    needing: Mapping[Source, Sequence[str]],
    partitions: Mapping[Source, Sequence[str]],
    request: BuildRequest,
    log: Callable[[str], object],
    closing: str = "",
) -> dict[str, Path]:
    """Return a folder for each source, by its key; a source on the Hub is downloaded, one in a store is not.

    `needing` has the configs that need each source. A dry run downloads nothing, and refuses what the cache lacks.
    `closing` ends the message that sources are missing, with what the user can do instead.
    """
    listed = listed_places(request)
    places = {source: listed[source.key] for source in needing if source.key in listed}
    refuse_wrong_folders({**request.folders, **{source.key: place for source, place in places.items()}})
    if missing := [source for source in needing if source not in places]:
        lines = [f"No folder was given for {quantity(len(missing), 'source')} of these splits:"]
        for source in missing:
            lines += missing_source(source, needing[source], partitions.get(source, ()))
        example = f'{SOURCES_FILE}, a line such as {missing[0].key} = "DIR" for each'
        raise BuildError("\n".join([*lines, f"Folders can also be listed once in {example}.{closing}"]))
    roots = {source.key: place for source, place in places.items() if not isinstance(place, HubPlace)}
    remote = {source: place for source, place in places.items() if isinstance(place, HubPlace)}
    if not remote:
        return roots
    from builders.hub import mirror  # which imports the Hub's client
    from builders.hub.client import hub_settings

    with hub_settings():
        downloads = {
            source: mirror.mirror_files(source, place, partitions.get(source, ()), request.cache, log)
            for source, place in remote.items()
        }
    absent = [f"{source.key}: {files.describe()}" for source, files in downloads.items() if files.missing]
    if request.dry_run and absent:
        head = "A dry run downloads nothing, and the cache lacks files to plan from. A build would download:"
        raise BuildError("\n".join([head, *absent, "Leave out --dry-run, or give folders."]))
    for source, files in downloads.items():
        roots[source.key] = mirror.download_mirror(source, files, log, quiet=request.quiet)
    return roots


def refuse_wrong_folders(places: Mapping[str, Place]) -> None:
    """Refuse folders that do not exist, all in one message, before anything is indexed or downloaded."""
    wrong = {
        key: "is a file, not a folder" if place.exists() else "does not exist"
        for key, place in places.items()
        if not isinstance(place, HubPlace) and not place.is_dir()
    }
    listed = [f"--{key} {one_line(places[key])} {why}" for key, why in wrong.items()]
    if len(listed) == 1:
        (key,) = wrong
        title = TITLES.get(key, key)
        raise BuildError(f"{title}: there is no folder {one_line(places[key])}. Give the right one with --{key}.")
    if listed:
        head = f"{len(listed)} sources have no folder where they are said to be:"
        raise BuildError("\n".join([head, *listed, "Give the right ones by these flags or in the sources file."]))


def missing_source(source: Source, needing: Sequence[str], partitions: Sequence[str] = ()) -> list[str]:
    """Describe a source that has no folder: what needs it, where to get it, and the accepted layouts.

    `partitions` are those that are needed; without any, all are.
    """
    obtain = source.obtain
    lines = [f"--{source.key} DIR  {source.title}, for {first_few(needing)}"]
    if obtain is not None:
        lines.append(f"    get it from {obtain.page}: {obtain.steps}")
        if names := _names_to_get(source, obtain, partitions):
            lines.append(f"    or run python -m builders.commands.sources get {' '.join(names)} --into DIR")
        if flag := obtain.mirror_flag(source.key):
            lines.append(f"    or give {flag}")
    return [f"  {line}" for line in (*lines, *(f"    {layout}" for layout in source.layouts))]


def _names_to_get(source: Source, obtain: Obtain, partitions: Sequence[str]) -> list[str]:
    """Return what `sources get` takes to download the needed partitions; nothing if a person has to download some."""
    needed = [file for file in obtain.files if not partitions or file.serves(partitions)]
    if not needed or not all(file.url for file in needed):
        return []
    return [source.key] if len(needed) == len(obtain.files) else [f"{source.key}-{name}" for name in partitions]


SOURCES_FILE = Path("sources.toml")
"""The file in the current folder that is read if --sources is not given."""


def source_options(sources: Mapping[str, str]) -> list[Callable[[Any], Any]]:
    """Return for each source a flag `--<key>` that takes its folder or address; `sources` has titles by key."""
    return [
        click.option(f"--{key}", key, type=PlaceType(), metavar="DIR|ADDRESS", help=f"{title}.")
        for key, title in sources.items()
    ]


sources_option: Callable[[Any], Any] = click.option(
    "--sources",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help='TOML file with a line `source = "DIR"` for each source. Instead of DIR, an ADDRESS is s3://BUCKET/PREFIX,'
    f" in another store, or hf://datasets/ORG/NAME.  [default: {SOURCES_FILE} if there]",
)


def recognised_partitions(source: Source, folder: Path) -> Iterator[str]:
    """Yield the partitions of a source that a folder holds, whether complete or not."""
    if folder.is_dir():
        from builders.sources.opening import scan  # here, since `--help` computes nothing

        for partition in source.expected():
            with contextlib.suppress(BuildError):
                scan(source, folder, (partition,))
                yield partition


def listed_sources(file: Path | None) -> dict[str, Place]:
    """Read the places of sources, by source key, from a file; without a file, from `SOURCES_FILE` if that exists."""
    path = file or (SOURCES_FILE if SOURCES_FILE.is_file() else None)
    if path is None:
        return {}
    text = "\n".join(read_text_lines(path, "Correct it."))
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
    place = parse_source_place(value)
    if isinstance(place, HubPlace):
        return place
    try:
        return path.parent / place.expanduser()
    except RuntimeError as error:
        raise BuildError(
            f"{key} in {path} is {one_line(value)}, and this machine knows no such user. Write the whole path."
        ) from error


def listed_places(request: BuildRequest) -> dict[str, Place]:
    """Return the places of sources by key, from the flags and the sources file; raises as `listed_sources`."""
    return {**listed_sources(request.sources), **request.folders}


def refuse_sources_of_demo(request: BuildRequest, log: Callable[[str], object]) -> None:
    """Refuse copies of sources together with --demo, which uses none, and say that the sources file is not read."""
    of_variants = {parse_source_place(folder): name for name, folder in request.variants.items() if folder}
    conflicting = [
        f"a folder for --{of_variants[place]}" if place in of_variants else f"--{key}"
        for key, place in request.folders.items()
    ] + ["--sources"] * (request.sources is not None)
    if conflicting:
        names = " and ".join(conflicting)
        raise BuildError(
            f"--demo makes up all sources, so {names} cannot be given with it. Leave out --demo to build from your "
            f"own copies, or {names} to try the tools."
        )
    if SOURCES_FILE.is_file():
        log(f"--demo makes up all sources; {SOURCES_FILE} is not read")
