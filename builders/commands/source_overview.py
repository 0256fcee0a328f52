"""Describes each source: its users, size, licence, ways to get it, and the copy on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.cli.source_flags import recognised_partitions
from builders.declare.benchmark import Benchmark
from builders.hub.place import HubPlace
from builders.registry import BENCHMARKS
from builders.sources.base import Source
from builders.storage.paths import store_of
from unknown_detection.words import byte_text

MAY_PUBLISH: Mapping[str, str] = {"open": "images", "gated": "images, not publicly", "ids-only": "ids only"}
"""What a licence lets one publish, in a few words."""

_LICENCE = 32
"""Characters of a licence's name in the table; `show` and `--json` have all of it."""


@dataclass(frozen=True)
class Overview:
    """One source, and its copy on this machine.

    Args:
        source: the source.
        needed_by: the splits that need it, by benchmark; with a flag of a variant behind the benchmark's name.
        folder: where the copy is, or an address on the Hub; None if none is named.
        folder_exists: whether the folder exists; None on the Hub, or in a store that was not asked.
        partitions: the partitions that were recognised there; None if nobody looked.
    """

    source: Source
    needed_by: Mapping[str, tuple[str, ...]]
    folder: Path | HubPlace | None = None
    folder_exists: bool | None = None
    partitions: tuple[str, ...] | None = None

    @property
    def size(self) -> str:
        """Bytes of the owner's files together, as far as their sizes are published."""
        sizes = [file.size for file in self.source.obtain.files] if self.source.obtain else []
        if not sum(sizes):
            return "not published"
        return byte_text(sum(sizes)) + ("" if all(sizes) else " and more")

    @property
    def ways(self) -> str:
        """Ways to get it: the command `get`, the Hub, or by hand."""
        obtain = self.source.obtain
        ways = ["get"] if obtain and obtain.is_plain else []
        if obtain and obtain.mirror and obtain.mirror.at:
            ways.append("Hub (account)" if obtain.mirror.gated else "Hub")
        return ", ".join(ways) or "by hand"

    @property
    def location(self) -> str:
        """Whether it is on this machine."""
        if self.folder is None:
            return "no"
        if self.folder_exists is False:
            return f"no folder {self.folder}"
        if self.partitions is None:
            return str(self.folder)
        return f"{self.folder} ({', '.join(self.partitions) or 'not recognised'})"

    def cells(self) -> list[str]:
        """Return the source's line of the table."""
        needed = ", ".join(f"{name} ({len(splits)})" for name, splits in self.needed_by.items())
        licence = self.source.licence
        licence_name = licence.name if len(licence.name) <= _LICENCE else f"{licence.name[: _LICENCE - 3]}..."
        publish = MAY_PUBLISH[licence.publish]
        return [self.source.key, needed, self.size, licence_name, publish, self.ways, self.location]

    def as_json(self) -> dict[str, Any]:
        """Return the description for programs."""
        source, obtain = self.source, self.source.obtain
        files = obtain.files if obtain else ()
        mirror = obtain.mirror if obtain else None
        return {
            "source": source.key,
            "title": source.title,
            "edition": source.edition,
            "needed_by": {name: list(splits) for name, splits in self.needed_by.items()},
            "licence": {"name": source.licence.name, "url": source.licence.url, "publish": source.licence.publish},
            "page": obtain.page if obtain else None,
            "files": [
                {
                    "name": file.name,
                    "bytes": file.exact_size or None,
                    "url": file.url or None,
                    "md5": file.md5 or None,
                    "sha256": file.sha256 or None,
                }
                for file in files
            ],
            "hub": {"place": mirror.at, "gated": mirror.gated} if mirror and mirror.at else None,
            "folder": None if self.folder is None else str(self.folder),
            "folder_exists": self.folder_exists,
            "partitions_found": None if self.partitions is None else list(self.partitions),
        }


HEADINGS = ("source", "needed by (splits)", "size", "licence", "may publish", "from", "here")
"""The first line of the table."""


def describe_source(source: Source, folder: Path | HubPlace | None = None, *, scan: bool = False) -> Overview:
    """Describe a source and its copy on this machine.

    Args:
        source: the source.
        folder: its folder, or a place on the Hub, as the user named it.
        scan: whether to look which partitions the folder holds, which lists all its files.
    """
    if folder is None or isinstance(folder, HubPlace) or (not store_of(folder).is_local and not scan):
        return Overview(source, needed_by(source), folder)  # a store is only asked where one waits for it
    partitions, exists = None, folder.is_dir()
    if scan and exists:
        with store_of(folder).cached_listings(folder):
            partitions = tuple(recognised_partitions(source, folder))
    return Overview(source, needed_by(source), folder, exists, partitions)


def needed_by(source: Source) -> dict[str, tuple[str, ...]]:
    """Return the splits that need a source, by benchmark, in declared order."""
    needed = {}
    for name, benchmark in BENCHMARKS.items():
        if splits := _splits_of(benchmark, source):
            needed[name] = splits
        for variant in benchmark.variants:
            if variant.source is source:
                of_variant = _splits_of(benchmark.with_variants([variant.name]), source)
                needed[f"{name} --{variant.name}"] = of_variant
    return needed


def _splits_of(benchmark: Benchmark, source: Source) -> tuple[str, ...]:
    keys = benchmark.parts()
    return tuple(key for key in keys if source in benchmark.partitions(benchmark.parts_of([key])))
