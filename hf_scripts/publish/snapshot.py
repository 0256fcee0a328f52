"""A published release at one commit; its files are downloaded and checked on first use.

Tested by `tests/hf_scripts/test_push.py` and `test_materialize.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builders.errors import BuildError
from builders.hub.repository import RemoteFile, Repository
from builders.release.digests import file_sha256
from builders.release.entries import EMPTY, FileEntry, Manifest
from builders.release.layout import CARD, MANIFEST
from builders.release.manifest import read_manifest
from hf_scripts.checks.manifest import check_file, check_stored
from hf_scripts.checks.problems import Problems


@dataclass(frozen=True)
class Snapshot:
    """A published release at one commit; `root` is the folder for downloaded files."""

    repository: Repository
    commit: str
    manifest: Manifest
    tree: Mapping[str, RemoteFile]
    root: Path
    _checked: set[str] = field(default_factory=set)

    def fetch(self, path: str) -> Path:
        """Return the local path of a file, which is downloaded and compared with the manifest at the first call."""
        if path not in self.tree:
            raise BuildError(
                f"{self.repository.name} at {self.commit[:12]} lacks {path}, which its manifest.json lists. Restore "
                "it there, or give another repository."
            )
        local = self._local(path)
        if path not in self._checked:
            # The client checks the file against the commit, which need not match the manifest.
            for listed in (file for file in self.manifest.files() if file.path == path):
                problems = check_file(self.root, listed)
                if problems.total():
                    raise damaged_repository(self, problems)
            self._checked.add(path)
        return local

    def check(self, files: Iterable[FileEntry]) -> Problems:
        """Check that the repository has files as listed. Those of which the Hub has no SHA-256 are downloaded."""
        problems = Problems()
        for file in files:
            check_stored(file, self.tree, self._sha256, problems)
        return problems

    def edited(self) -> list[str]:
        """Return the files that the repository has otherwise than the manifest lists them."""
        listed = (file for file in self.manifest.files_and_card() if file.path in self.tree)
        return sorted({file.path for file in listed if self.check([file]).total()})

    def _sha256(self, path: str) -> str:
        return self.tree[path].sha256 or file_sha256(self._local(path))

    def _local(self, path: str) -> Path:
        local = self.root / path
        return local if local.exists() else self.repository.fetch(self.tree[path], self.commit, self.root)


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
