"""Values of the flags of one build, frozen once click has parsed them.

`builders.cli.build_options.parsed` makes them.

Tested by `tests/builders/commands/test_build.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.cli.executor_flags import ExecutorFlags
from builders.cli.source_places import Place, default_cache


@dataclass(frozen=True)
class BuildFlags:
    """Values of a build's flags. A flag that a command lacks has the value of one that is not given.

    Attributes:
        out: the release's folder, or its address in a store.
        splits: the values of `--splits`, as `builders.cli.split_choice.named` reads them.
        seed: keys every draw.
        check: `fast` or `decode`.
        withdraw: a CSV file's path, or the word `duplicates`.
        sources: the file that lists folders of sources.
        cache: the folder for downloads from the Hub.
        folders: the places given by the sources' own flags, by source key.
        variants: the folder given with each variant's flag, by the variant's name; empty for the flag alone.
        settings: the values of the flags whose values make generators, given or not, by the flags' names.
    """

    out: Path
    splits: tuple[str, ...] = ()
    dry_run: bool = False
    as_json: bool = False
    index_only: bool | None = None
    limit_per_class: int | None = None
    allow_partial: bool = False
    check: str = "fast"
    executor: ExecutorFlags = field(default_factory=ExecutorFlags)
    seed: int = 0
    quiet: bool = False
    adopt: Path | None = None
    withdraw: str | None = None
    demo: bool = False
    sources: Path | None = None
    cache: Path = field(default_factory=default_cache)
    folders: Mapping[str, Place] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
