"""Where the copies of sources are: folders, addresses in a store, or places on the Hub that are downloaded first.

Tested by `tests/builders/cli/test_source_places.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from builders.errors import BuildError, one_line
from builders.hub.place import HubPlace, is_hub_place, parse_place
from builders.storage.paths import as_path, store_of

if TYPE_CHECKING:
    from builders.sources.base import Source

Place = Path | HubPlace
"""A folder of this machine or in a store, or a place on the Hub."""


def default_cache() -> Path:
    """The folder for downloads from the Hub, in the user's cache folder (XDG Base Directory Specification)."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    return home / "unknown-detection"


def as_place(text: str) -> Place:
    """Read a place as a person writes it.

    Raises:
        BuildError: it begins as an address of the Hub or of a store, and is none.
    """
    return parse_place(text) if is_hub_place(text) else as_path(text)


class PlaceType(click.ParamType[Any]):
    """A flag's value that is a folder or an address such as `s3://BUCKET/PREFIX` or `hf://datasets/ORG/NAME`."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the place."""
        return as_place(value) if isinstance(value, str) else value


class LocalPath(click.Path):
    """A flag's value that exists on this machine; addresses are refused in a sentence."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, exists=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if isinstance(value, str) and not store_of(value).is_local:
            flag = param.opts[0] if param is not None else "This flag"
            raise BuildError(
                f"{flag} {one_line(value)} lies in a store or on the Hub, and {flag} reads files of this machine "
                "alone. Copy it here, and give the copy."
            )
        return super().convert(value, param, ctx)


def cache_option() -> Callable[[Any], Any]:
    """Return the flag `--cache DIR`."""
    return click.option(
        "--cache",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_cache,
        show_default="~/.cache/unknown-detection",
        metavar="DIR",
        help="Folder for what is downloaded of sources given as hf://datasets/ORG/NAME.",
    )


def refuse_wrong_folders(places: Mapping[Source, Place]) -> None:
    """Refuse folders that do not exist, all in one message and before anything is indexed or downloaded.

    Raises:
        BuildError: there are such folders.
    """
    wrong = {
        source: "is a file, not a folder" if place.exists() else "does not exist"
        for source, place in places.items()
        if not isinstance(place, HubPlace) and not store_of(place).is_folder(place)
    }
    if not wrong:
        return
    listed = [f"--{source.key} {one_line(places[source])} {why}" for source, why in wrong.items()]
    if len(listed) == 1:
        (source,) = wrong
        raise BuildError(
            f"{source.title}: there is no folder {one_line(places[source])}. Give the right one with --{source.key}."
        )
    head = f"{len(listed)} sources have no folder where they are said to be:"
    raise BuildError("\n".join([head, *listed, "Give the right ones by these flags or in the sources file."]))


@dataclass(frozen=True)
class Downloads:
    """Downloads sources from the Hub into a cache.

    `only_look` downloads nothing, and refuses what the cache lacks.
    """

    cache: Path
    log: Callable[[str], object]
    quiet: bool = False
    only_look: bool = False

    def folders(self, places: Mapping[Source, Place], partitions: Mapping[Source, Sequence[str]]) -> dict[str, Path]:
        """Return a folder for each source, by its key; what is on the Hub is downloaded, what is in a store is not.

        Args:
            places: where each source is. Folders are checked first.
            partitions: the partitions that are needed of each.

        Raises:
            BuildError: a folder does not exist, or something cannot be downloaded.
        """
        refuse_wrong_folders(places)
        roots = {source.key: place for source, place in places.items() if not isinstance(place, HubPlace)}
        remote = {source: place for source, place in places.items() if isinstance(place, HubPlace)}
        if not remote:
            return roots
        from builders.hub import mirror  # which imports the Hub's client
        from builders.hub.client import hub_settings

        with hub_settings():
            wanted = {
                source: mirror.wanted_files(source, place, partitions.get(source, ()), self.cache, self.log)
                for source, place in remote.items()
            }
        absent = {source: files for source, files in wanted.items() if files.absent}
        if self.only_look and absent:
            lines = [f"{source.key}: {files.describe()}" for source, files in absent.items()]
            head = "A dry run downloads nothing, and the cache lacks files to plan from. A build would download"
            raise BuildError("\n".join([f"{head}:", *lines, "Leave out --dry-run, or give folders."]))
        for source, files in wanted.items():
            roots[source.key] = mirror.download(source, files, self.log, quiet=self.quiet)
        return roots
