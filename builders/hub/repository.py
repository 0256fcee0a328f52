"""A dataset repository on the Hub, for publishing, verifying and downloading.

Every request goes through `retry.with_retries`. Outcomes that a caller handles (no such repository, a tag that
exists) are return values; all others raise `BuildError`.

Tested by `tests/hf_scripts/test_push.py`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import huggingface_hub
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi, RepoFile
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from builders.errors import BuildError
from builders.hub.client import in_background
from builders.hub.place import Granted
from builders.hub.retry import ChecksumError, Log, with_retries
from builders.release.digests import file_sha256
from builders.storage.paths import inside

T = TypeVar("T")

GITATTRIBUTES = ".gitattributes"
"""The file that the Hub adds to every repository, with the patterns of LFS files."""

_TOKEN = re.compile(r"[!-~]+")
"""Visible ASCII, the only characters that an HTTP header can hold in one word (RFC 9110, 5.5)."""

Access = Literal["public", "gated", "private"]
"""Who may read a repository: anybody, users whose access request was granted, or members."""

LOOKUP_TIMEOUT = 60.0
"""Seconds for the answer to what a repository is (ours)."""

_BATCH = 8
"""Files that are uploaded between two progress updates. The client uploads five of them at a time."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a commit: its path, size in bytes, git blob id, and SHA-256 (empty for files outside LFS)."""

    path: str
    size: int
    oid: str
    sha256: str

    def has_content_of(self, path: Path, sha256: str = "") -> bool:
        """Whether a local file has the same content; a known `sha256` of that file saves reading it."""
        if path.stat().st_size != self.size:
            return False
        if self.sha256:
            return (sha256 or file_sha256(path)) == self.sha256
        return git_oid(path) == self.oid


@dataclass(frozen=True)
class Info:
    """The newest commit of a repository, who may read the repository, and its name.

    `gated` says how requests for access are granted, empty where nobody has to ask. The Hub answers to a repository's
    former names, too.
    """

    head: str
    private: bool
    gated: str
    name: str = ""

    @property
    def access(self) -> Access:
        """Who may read it."""
        return "private" if self.private else "gated" if self.gated else "public"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of text")
    return value


def git_oid(path: Path) -> str:
    """Return the git blob id of a file: the SHA-1 of `blob`, its length, a zero byte and its content."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: digest).hexdigest()


@dataclass
class Addition(CommitOperationAdd):
    """A file as `upload` and `commit` of `Repository` take it, and its SHA-256 if the manifest lists one.

    The client is not told that: Xet would take whatever it reads under this name.
    """

    listed: str = ""

    @property
    def local(self) -> Path:
        """The local path."""
        return Path(str(self.path_or_fileobj))


class Repository:
    """A dataset repository."""

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.log = log
        self.api = HfApi()
        self.host = urlsplit(self.api.endpoint).netloc.rpartition("@")[2]  # without a mirror's password
        token = huggingface_hub.get_token()
        if token is not None and _TOKEN.fullmatch(token) is None:
            # The client would fail to send it, and quote it.
            raise BuildError(
                f"The token for {self.host} has characters that no token has. Copy it again, and log in with "
                "`hf auth login` or set HF_TOKEN."
            )

    def ask(self, doing: str, call: Callable[[], T], *, unreached: str = "") -> T:
        """Make requests, and try again after errors that pass."""
        return with_retries(doing, call, self.log, unreached=unreached)

    def _ask_if_there(self, doing: str, call: Callable[[], T], *, unreached: str = "") -> T | None:
        """Return what a call returns; None if there is no such repository or revision, or the token may not see it."""

        def ask() -> T | None:
            try:
                return call()
            except GatedRepoError:
                raise  # a subclass of the next
            except (RepositoryNotFoundError, RevisionNotFoundError):
                return None

        return self.ask(doing, ask, unreached=unreached)

    # Account and repository

    def has_token(self) -> bool:
        """Whether the Hub's client finds a token."""
        return huggingface_hub.get_token() is not None

    def check_account(self) -> str:
        """Check that there is a valid token with write access of a member of ORG; returns the account's name.

        The permissions of a fine-grained token are unknown until it is used.
        """
        if not self.has_token():
            raise BuildError(
                f"There is no token for {self.host}. Log in with `hf auth login`, or set HF_TOKEN to a token with "
                "write access."
            )
        me = self.ask("check the token", self.api.whoami)
        owner = self.name.split("/")[0]
        if me.get("auth", {}).get("accessToken", {}).get("role") == "read":
            raise BuildError(
                f"The token of {me['name']} can only read on {self.host}. Create one with write access in the "
                "account's settings there."
            )
        accounts = [me["name"], *(org["name"] for org in me.get("orgs", []))]
        if owner not in accounts:
            raise BuildError(
                f"The token is of {me['name']}, who cannot write to {owner} on {self.host}, only to "
                f"{', '.join(accounts)}. Use a token of {owner} or of one of its members, or another --repo."
            )
        return str(me["name"])

    def check_write(self) -> None:
        """Check that the token may write to this repository, which must exist."""
        check = functools.partial(self.api.auth_check, self.name, repo_type="dataset", write=True)
        self.ask(f"check the write access to {self.name}", check)

    def info(self, revision: str | None = None, *, unreached: str = "") -> Info | None:
        """Return the state of the repository at a revision; None if it does not exist or the token may not see it."""

        def ask() -> Info:
            # Without a limit the client waits for ever outside `hub_settings`, where the evaluation asks.
            info = self.api.dataset_info(self.name, revision=revision, timeout=LOOKUP_TIMEOUT)
            return Info(str(info.sha), bool(info.private), str(info.gated or ""), _text(info.id))

        return self._ask_if_there(f"read {self.name} on {self.host}", ask, unreached=unreached)

    def create(self, *, private: bool) -> None:
        """Create the repository, unless it exists; an existing one keeps who may read it."""
        # None lets the organisation's default decide, which may be private.
        visibility = private or None

        def ask() -> None:
            # Of one that was made in this moment the answer may lack what the client reads (huggingface_hub #3279).
            with contextlib.suppress(KeyError):
                self.api.create_repo(self.name, repo_type="dataset", private=visibility, exist_ok=True)

        self.ask(f"create {self.name}", ask)

    def gate(self, granted: Granted) -> None:
        """Let people read the repository only after they asked, which is granted at once (`auto`) or by its owner."""
        set_gated = functools.partial(self.api.update_repo_settings, self.name, gated=granted, repo_type="dataset")
        self.ask(f"have people ask for access to {self.name}", set_gated)

    # Reading

    def commit_at(self, revision: str) -> str:
        """Return the commit that a branch, tag or commit id names."""
        unreached = f"Check the connection; if a folder is meant, there is no {self.name} here."
        info = self.info(revision, unreached=unreached)
        if info is not None:
            return info.head
        if self.info() is None:
            raise BuildError(
                f"There is no dataset {self.name} on {self.host}, or your token may not see it. Check the name, and "
                "log in with `hf auth login` or set HF_TOKEN."
            )
        tags = ", ".join(sorted(self.tags())) or "none"
        raise BuildError(f"{self.name} has no revision {revision} on {self.host}. Give one of its tags: {tags}.")

    def tags(self) -> dict[str, str]:
        """Return the commit of every tag; empty if there is no repository."""

        def ask() -> dict[str, str]:
            refs = self.api.list_repo_refs(self.name, repo_type="dataset")
            return {_text(tag.name): _text(tag.target_commit) for tag in refs.tags}

        return self._ask_if_there(f"list the tags of {self.name}", ask) or {}

    def history(self, branch: str = "main") -> list[tuple[str, str]]:
        """Return the commits of a branch with their titles, newest first; empty if there is no repository."""

        def ask() -> list[tuple[str, str]]:
            commits = self.api.list_repo_commits(self.name, repo_type="dataset", revision=branch)
            return [(_text(commit.commit_id), _text(commit.title)) for commit in commits]

        return self._ask_if_there(f"list the commits of {self.name}", ask) or []

    def tree(self, commit: str, *, recursive: bool = True) -> dict[str, RemoteFile]:
        """Return the files of a commit by path, without the one that the Hub adds; `recursive` enters folders."""

        def ask() -> dict[str, RemoteFile]:
            entries = self.api.list_repo_tree(self.name, recursive=recursive, revision=commit, repo_type="dataset")
            files = [entry for entry in entries if isinstance(entry, RepoFile) and entry.path != GITATTRIBUTES]
            return {
                _text(file.path): RemoteFile(
                    file.path, int(file.size), _text(file.blob_id), _text(file.lfs.sha256 if file.lfs else "")
                )
                for file in files
            }

        return self.ask(f"list the files of {self.name}", ask)

    def fetch(self, file: RemoteFile, commit: str, into: Path) -> Path:
        """Download a file of a commit to its path below `into`, bypassing the local cache, and check its digest."""
        inside(into, file.path)  # the client would follow `..` in a path of the commit

        def ask() -> Path:
            local = Path(
                self.api.hf_hub_download(
                    self.name,
                    file.path,
                    repo_type="dataset",
                    revision=commit,
                    local_dir=into,
                    # Else the client would copy a file of the shared cache, which need not match the Hub's.
                    cache_dir=into / ".cache" / "none",
                )
            )
            # The client only compares sizes.
            if not file.has_content_of(local):
                local.unlink()
                raise ChecksumError(f"the downloaded {file.path} has other bytes than the Hub lists")
            return local

        return self.ask(f"download {file.path} of {self.name}", ask)

    # Writing

    def upload(self, additions: Sequence[Addition]) -> Iterator[int]:
        """Upload files ahead of their commit, a few at a time; yields the bytes of each batch.

        Contents that the Hub has already are not sent. Nothing is visible before the commit, and there is none of a
        file that is not as it is listed.
        """
        for start in range(0, len(additions), _BATCH):
            batch = additions[start : start + _BATCH]
            send = functools.partial(
                self.api.preupload_lfs_files,
                self.name,
                batch,
                repo_type="dataset",
                free_memory=False,
                # Else the rules of a .gitignore in the repository would silently drop files.
                gitignore_content="",
            )
            more = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
            self.ask(f"upload {batch[0].path_in_repo}{more}", functools.partial(in_background, send))
            for added in batch:
                if added.listed and added.upload_info.sha256.hex() != added.listed:
                    raise BuildError(
                        f"{added.local} was changed while the release was published, and nothing was committed. Run "
                        "the same command again when nobody writes there."
                    )
            yield sum(added.upload_info.size for added in batch)

    def commit(
        self,
        additions: Sequence[Addition],
        deletions: Sequence[str],
        *,
        title: str,
        parent: str,
        branch: str = "main",
    ) -> str | None:
        """Commit to a branch; returns the new commit, or None if `parent` is no longer the newest.

        If the answer to a commit was lost, the next attempt is also refused: the caller must check whether the newest
        commit is its own.
        """
        operations: list[CommitOperationAdd | CommitOperationCopy | CommitOperationDelete] = list(additions)
        operations += [CommitOperationDelete(path, is_folder=False) for path in deletions]

        def ask() -> str | None:
            # The client raises the Hub's warnings about a card as Python warnings.
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                try:
                    commit = self.api.create_commit(
                        self.name,
                        operations,
                        commit_message=title,
                        repo_type="dataset",
                        revision=branch,
                        parent_commit=parent,
                    )
                except HfHubHTTPError as error:
                    if error.response.status_code == HTTPStatus.PRECONDITION_FAILED:
                        return None
                    raise
            for warning in caught:
                self.log(f"note: {' '.join(str(warning.message).split())}")
            return str(commit.oid)

        return self.ask(f"commit to {self.name}", ask)

    def tag(self, tag: str, commit: str) -> str:
        """Tag a commit, unless the tag exists; returns the commit that the tag names."""

        def ask() -> None:
            try:
                self.api.create_tag(self.name, tag=tag, revision=commit, repo_type="dataset")
            except HfHubHTTPError as error:
                # It exists: set by an attempt whose answer was lost, or by another publisher; else the Hub is busy.
                if error.response.status_code != HTTPStatus.CONFLICT or tag not in self.tags():
                    raise

        self.ask(f"set the tag {tag} of {self.name}", ask)
        return self.tags().get(tag, "")
