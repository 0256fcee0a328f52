"""What a build is asked for, by the flags of a command.

Tested by `tests/builders/commands/test_build.py` and `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.cli.executor_flags import ExecutorFlags
from builders.declare.benchmark import Settings
from builders.declare.splits import Config
from builders.generate.flags import Flag
from builders.hub.place import HubPlace
from builders.release.layout import Layout

Place = Path | HubPlace
"""A folder of this machine or in a store, or a place on the Hub."""

DUPLICATES = "duplicates"
"""The value that `--withdraw` accepts instead of a list; see `builders.pipeline.without_duplicates`."""


def default_cache() -> Path:
    """Return the folder for downloads from the Hub, in the user's cache folder (XDG Base Directory Specification)."""
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(cache_home) if Path(cache_home).is_absolute() else Path.home() / ".cache"
    return home / "unknown-detection"


@dataclass(frozen=True)
class BuildRequest:
    """What a build is asked for. A command without some flag has that flag's default here.

    `splits` are names of configs and splits, and `config/split` alone once they are chosen. `index_only` says for all
    configs whether rows are written without pixels; None leaves it to each config. `withdraw` is a CSV file's path or
    the word `duplicates`, and `withdrawn` has the reasons of that file, by row id. `folders` are the places given by
    the sources' own flags, by source key. `variants` has the folder given with each variant's flag, by the variant's
    name; empty for the flag alone. `settings` are the values of the flags whose values make generators, given or not,
    by the flags' names.
    """

    out: Path
    splits: tuple[str, ...] = ()
    seed: int = 0
    dry_run: bool = False
    as_json: bool = False
    index_only: bool | None = None
    limit_per_class: int | None = None
    allow_partial: bool = False
    decode: bool = False
    executor: ExecutorFlags = field(default_factory=ExecutorFlags)
    quiet: bool = False
    adopt: Path | None = None
    withdraw: str | None = None
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    demo: bool = False
    sources: Path | None = None
    cache: Path = field(default_factory=default_cache)
    folders: Mapping[str, Place] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def without_duplicates(self) -> bool:
        """Whether `--withdraw duplicates` was given (`builders.pipeline.without_duplicates`)."""
        return self.withdraw == DUPLICATES

    @property
    def layout(self) -> Layout:
        """The paths of files in the release folder that is written."""
        return Layout(self.out)

    def has_pixels(self, config: Config) -> bool:
        """Whether a config's rows are written with pixels."""
        return not (config.index_only if self.index_only is None else self.index_only)

    def given(self, settings: Settings) -> list[Flag]:
        """Return those flags of some settings whose value differs from the default."""
        return [flag for flag in settings.flags if self.settings[flag.name] != (() if flag.multiple else flag.default)]
