"""Where things lie in a release folder.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

INDEX_SUFFIX = "-index"
"""A config's rows without pixels are the config of the same name with this suffix."""


FOLDERS = ("data", "index", "excluded", "audit", "duplicates")
"""Folders of a release, beside its state."""

CARD = "README.md"

# What publishing adds: the list of versions, and what each of them changed.
CHANGELOG = "CHANGELOG.md"
CHANGES = "changes"


@dataclass(frozen=True)
class Layout:
    """Places in a release folder."""

    root: Path

    @property
    def manifest(self) -> Path:
        """The record of what the release is."""
        return self.root / "manifest.json"

    @property
    def card(self) -> Path:
        """The dataset card, whose YAML `load_dataset` reads."""
        return self.root / CARD

    @property
    def state(self) -> Path:
        """What a resumed build needs; never pushed."""
        return self.root / ".state"

    def data(self, config: str, split: str, shard: int, of: int) -> Path:
        """One shard with pixels."""
        return self.root / "data" / config / shard_name(split, shard, of)

    def index(self, config: str, split: str) -> Path:
        """One split without pixels."""
        return self.root / "index" / config / f"{split}.parquet"

    def excluded(self, config: str) -> Path:
        """What a config's splits leave out, with the rule and the evidence."""
        return self.root / "excluded" / f"{config}.csv"

    @property
    def duplicates(self) -> Path:
        """The table of pairs of rows that show one picture (`builders.release.duplicates`)."""
        return self.root / "duplicates" / "pairs.parquet"

    def pixels(self, digest: str) -> Path:
        """Pixels of a split that has none in its shards, by its digest, for comparing them in later runs."""
        return self.state / "pixels" / f"{digest}.npy"

    def audit(self, config: str) -> Path:
        """The near-duplicate pairs behind a config's column `near_duplicate_of`, in releases that have it."""
        return self.root / "audit" / config / "near_duplicates.csv"

    def part(self, config: str, split: str, shard: int, of: int) -> Path:
        """The record that a shard is finished."""
        return self.state / "parts" / config / shard_name(split, shard, of)

    def plan(self, config: str, split: str) -> Path:
        """The plan of one split with the places to read from."""
        return self.state / "plan" / config / f"{split}.arrow"

    def relative(self, path: Path) -> str:
        """A path as the manifest and the card write it."""
        return path.relative_to(self.root).as_posix()


def shard_name(split: str, shard: int, of: int) -> str:
    """File name of a shard, in the Hub's custom."""
    return f"{split}-{shard:05d}-of-{of:05d}.parquet"
