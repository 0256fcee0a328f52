"""The paths of the files in a release folder.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builders.storage.folders import remove_temporary
from builders.storage.locks import file_lock
from builders.storage.paths import inside

INDEX_SUFFIX = "-index"
"""Suffix of the config that holds the rows of another without images."""


SEALED_SUFFIX = "-sealed"
"""Suffix of the config that holds the sealed residuals of another's images (`builders.storage.sealed_files`)."""

FOLDERS = ("data", "index", "sealed", "excluded", "audit", "duplicates", "samples")
"""Folders of a release, besides its state."""

STATE = ".state"
"""Folder of what a later run needs to go on; never published."""

RECORDS = ".state/parts"
"""Folder of the records of finished shards."""

PIXELS = ".state/pixels"
"""Folder of the images of shards as they are compared with others."""

MANIFEST = "manifest.json"

CARD = "README.md"
"""The dataset card, whose YAML `load_dataset` reads."""

CROISSANT = "croissant.json"
"""The release as Croissant metadata (JSON-LD), which dataset search engines and loaders read."""

LICENCES = "LICENSE.md"
"""The terms of each source, to which the card's `license_link` leads; the Hub knows the file by this name."""

DESCRIPTIONS = {"card": CARD, "croissant": CROISSANT, "licences": LICENCES}
"""Paths of the files that a manifest determines, by its field that lists each."""

# Added by publishing: the list of versions, and for each a table of the ids that it changes.
CHANGELOG = "CHANGELOG.md"
CHANGES = "changes"


@dataclass(frozen=True)
class Layout:
    """The paths of the files in one release folder.

    Every file is written to a path from here, and every path is checked to lie inside `root`: a config's name from a
    manifest or a symbolic link that leads elsewhere raises `BuildError`.
    """

    root: Path

    def inside(self, path: str) -> Path:
        """Return the path of a file of the release, given relative to the folder as the manifest has it."""
        return inside(self.root, path)

    @property
    def state(self) -> Path:
        """The folder of the state by which a build resumes; never published."""
        return self.inside(STATE)

    @property
    def lock(self) -> Path:
        """The lock file that a build holds while it writes into the folder."""
        return self.state / "lock"

    @contextlib.contextmanager
    def locked(self, busy: str) -> Iterator[None]:
        """Hold the lock file as `file_lock` does, and remove what killed runs left half-written."""
        with file_lock(self.lock, busy):
            remove_temporary(self.root, (*FOLDERS, STATE))
            yield
            remove_temporary(self.root, (*FOLDERS, STATE))  # Ray workers that outlive a killed driver leave some

    def shard(self, folder: str, key: str, number: int, shards: int) -> Path:
        """Return the path of a shard (`data`), of its sealed residuals (`sealed`), or of its record (`RECORDS`)."""
        return self.inside(shard_path(folder, key, number, shards))

    def index(self, key: str) -> Path:
        """Return the path of the index of a split (`config/split`): its rows without images."""
        return self.inside(f"index/{key}.parquet")

    def excluded(self, config: str) -> Path:
        """Return the path of the table of a config's exclusions, with rule and evidence."""
        return self.inside(f"excluded/{config}.csv")

    @property
    def duplicates(self) -> Path:
        """The path of the table of duplicates (`builders.release.duplicates`)."""
        return self.inside("duplicates/pairs.parquet")

    def pixels(self, key: str, number: int, of: int) -> Path:
        """Return the path of a shard's images as they are compared (`builders.duplicates.pixels`), for later runs."""
        return self.shard(PIXELS, key, number, of).with_suffix(".rgb")

    def plan(self, key: str) -> Path:
        """Return the path of the plan of a split (`config/split`), the first file that a build writes of it."""
        return self.inside(f".state/plan/{key}.arrow")

    def relative(self, path: Path) -> str:
        """Return a path relative to the folder, as the manifest and the card have it."""
        return path.relative_to(self.root).as_posix()


def samples_path(key: str) -> str:
    """Return the path, relative to the release folder, of the sample picture of a split (`config/split`)."""
    return f"samples/{key}.png"


_PICTURES_OF_IMAGES = re.compile(r"audit/[^/]+/(sheet|pairs_[^/]+)\.png")


def shows_images(path: str) -> bool:
    """Whether a file of a release, given by its relative path, is a picture of its images.

    A manifest cannot list such a file, so it is never published, whatever the licences of the sources allow.
    """
    return _PICTURES_OF_IMAGES.fullmatch(path) is not None


def shard_path(folder: str, key: str, number: int, shards: int) -> str:
    """Return the path of a shard relative to the release folder, named as is customary on the Hub."""
    return f"{folder}/{key}-{number:05d}-of-{shards:05d}.parquet"
