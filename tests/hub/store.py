"""What the stand-in keeps: repositories as chains of whole snapshots; files have the names that git gives them."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from tests.hub.answers import revision_not_found

# Commits are a minute apart from here on, so that the same publications have the same identifiers in every run.
EPOCH = 1_767_225_600  # 2026-01-01T00:00:00Z


def git_id(kind: str, content: bytes) -> str:
    """An object's name in git: SHA-1 of its type, its length and its content."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def pointer(sha256: str, size: int) -> bytes:
    """What git holds in place of a file whose content is in LFS (git-lfs, docs/spec.md)."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


@dataclass(frozen=True)
class File:
    """One file of a commit; `oid` is git's name of the content, or of the pointer where the content is in LFS."""

    size: int
    sha256: str
    oid: str
    lfs: bool


@dataclass(frozen=True)
class Commit:
    """One snapshot. `seconds` is its time since 1970."""

    parent: "Commit | None" = field(repr=False)
    title: str
    message: str
    author: str
    seconds: int
    files: Mapping[str, File] = field(repr=False)

    @cached_property
    def trees(self) -> dict[str, str]:
        """A name of every folder by its path, the root as ''; not git's, which no client looks at."""
        oids: dict[str, list[str]] = {"": []}
        for path, file in self.files.items():
            folders = [str(folder) for folder in PurePosixPath(path).parents if folder.parts]
            for folder in ("", *folders):
                oids.setdefault(folder, []).append(f"{path} {file.oid}")
        return {folder: git_id("tree", "\n".join(lines).encode()) for folder, lines in oids.items()}

    @cached_property
    def id(self) -> str:
        parent = self.parent.id if self.parent else ""
        words = (self.trees[""], parent, self.author, str(self.seconds), self.title, self.message)
        return git_id("commit", "\n".join(words).encode())

    @property
    def date(self) -> str:
        return datetime.fromtimestamp(self.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def history(self) -> Iterator["Commit"]:
        """This commit and all before it, newest first."""
        commit: Commit | None = self
        while commit:
            yield commit
            commit = commit.parent


class Repo:
    """A dataset repository. Contents lie in `folder` under their SHA-256, so that reading them costs no memory."""

    def __init__(self, name: str, folder: Path, *, private: bool):
        self.name = name
        self.folder = folder
        self.private = private
        self.gated: bool | str = False
        """As the Hub says it: `auto` or `manual` where people must ask."""
        self.accepted: set[str] = set()
        """Names of the accounts that have accepted the terms of a gated one."""
        self.commits: dict[str, Commit] = {}
        self.branches: dict[str, str] = {}
        """The newest commit by name; the branch of a pull request is `refs/pr/N`."""
        self.tags: dict[str, str] = {}
        self.pulls: list[Any] = []
        """Pull requests, in the order of their numbers (`discussions.PullRequest`)."""
        self.objects: dict[str, int] = {}
        """Size of every object that LFS holds by SHA-256, committed or not."""
        folder.mkdir(parents=True)

    def at(self, revision: str) -> Commit:
        """The commit that a branch, a tag or (the start of) a commit's id names."""
        revision = re.sub("^refs/(heads|tags)/", "", revision)
        commit = self.branches.get(revision) or self.tags.get(revision)
        if commit is None and re.fullmatch("[0-9a-f]{5,40}", revision):
            matches = [known for known in self.commits if known.startswith(revision)]
            commit = matches[0] if len(matches) == 1 else None
        if commit is None:
            raise revision_not_found(revision)
        return self.commits[commit]

    def content(self, file: File) -> Path:
        return self.folder / file.sha256

    def keep(self, data: bytes, *, lfs: bool) -> File:
        """Store the content of a small file."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / sha256
        if not path.exists():
            # A file of this name is whole: it is written beside and moved, because others read at the same time.
            self.adopt(data_file(path.with_suffix(".small"), [data]), sha256)
        if lfs:
            self.objects[sha256] = len(data)
            return self.object(sha256)
        return File(len(data), sha256, git_id("blob", data), lfs=False)

    def adopt(self, path: Path, sha256: str) -> None:
        """Take a file over whose SHA-256 has been checked."""
        path.replace(self.folder / sha256)

    def object(self, sha256: str) -> File:
        """A file whose content LFS holds."""
        size = self.objects[sha256]
        return File(size, sha256, git_id("blob", pointer(sha256, size)), lfs=True)

    def commit(self, files: Mapping[str, File], *, branch: str, title: str, message: str, author: str) -> Commit:
        parent = self.branches.get(branch)
        commit = Commit(
            parent=self.commits[parent] if parent else None,
            title=title,
            message=message,
            author=author,
            seconds=EPOCH + 60 * len(self.commits),
            files=dict(sorted(files.items())),
        )
        self.commits[commit.id] = commit
        self.branches[branch] = commit.id
        return commit


def data_file(path: Path, chunks: Iterable[bytes]) -> Path:
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
    return path
