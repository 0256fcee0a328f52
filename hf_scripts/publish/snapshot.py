"""A published release at one commit; its files are downloaded and checked on first use.

Tested by `tests/hf_scripts/test_push.py` and `test_materialize.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from builders.errors import BuildError
from builders.hub.repository import RemoteFile, Repository
from builders.release.entries import EMPTY, Manifest
from builders.release.layout import CARD, MANIFEST
from builders.release.manifest import read_manifest
from hf_scripts.checks.manifest import check_file
from hf_scripts.checks.problems import Problems


@dataclass(frozen=True)
class Snapshot:
    """A published release at one commit; `root` is the folder for downloaded files."""

    repository: Repository
    commit: str
    manifest: Manifest
    tree: Mapping[str, RemoteFile]
    root: Path

    def fetch(self, path: str) -> Path:
        """Return the local path of a file, which is downloaded at the first call."""
        if path not in self.tree:
            raise BuildError(
                f"{self.repository.name} at {self.commit[:12]} lacks {path}, which its manifest.json lists. Restore "
                "it there, or give another repository."
            )
        local = self.root / path
        if not local.exists():
            self.repository.fetch(self.tree[path], self.commit, self.root)
            # The client checks the file against the commit, which need not match the manifest.
            for listed in (file for file in self.manifest.files() if file.path == path):
                problems = check_file(self.root, listed)
                if problems.total():
                    raise damaged_repository(self, problems)
        return local


def snapshot(repository: Repository, commit: str, root: Path) -> Snapshot:
    """Read the manifest of a published release; an empty repository is a release without splits."""
    tree = repository.tree(commit)
    if set(tree) <= {CARD}:
        return Snapshot(repository, commit, EMPTY, tree, root)
    where = f"{repository.name} at {commit[:12]}"
    if MANIFEST not in tree:
        raise BuildError(
            f"{where} is neither empty nor a release: it has {min(set(tree) - {CARD})} and no manifest.json. Give "
            "another repository."
        )
    repository.fetch(tree[MANIFEST], commit, root)
    return Snapshot(repository, commit, read_manifest(root, where), tree, root)


def damaged_repository(base: Snapshot, problems: Problems) -> BuildError:
    """Return the error for a damaged release in a repository, with its first problem."""
    return BuildError(
        f"The release in {base.repository.name} at {base.commit[:12]} is damaged: {problems.first()}. Repair the "
        "repository, or give another."
    )
