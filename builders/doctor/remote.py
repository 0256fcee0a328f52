"""Downloads the copy of a source that a mirror on the Hub has, into the cache that builds use."""

from __future__ import annotations

from pathlib import Path

from builders.errors import BuildError
from builders.hub.place import parse_place
from builders.hub.retry import Log
from builders.sources.registry import SOURCES


def downloaded_copy(text: str, cache: Path, log: Log) -> Path:
    """Return the folder with the files of a known mirror, given as `hf://datasets/ORG/NAME`.

    Raises:
        BuildError: it is no known mirror of a source.
    """
    from builders.hub import mirror
    from builders.hub.client import hub_settings

    place = parse_place(text)
    for source in SOURCES.values():
        known = source.obtain.mirror if source.obtain else None
        if known is not None and known.at and parse_place(known.at).repo == place.repo:
            with hub_settings():
                files = mirror.mirror_files(source, place, tuple(source.expected()), cache, log)
                return mirror.download_mirror(source, files, log)
    raise BuildError(
        f"{text} is no mirror that a source here names, so nothing says which of its files to take. Download it, and "
        "give the folder."
    )
