"""One dataset repository on the Hub, as publishing and verifying use it.

Every request goes through `retry.with_retries`. Outcomes that a caller handles (no such repository, a tag that
exists) are return values; all others raise `BuildError`.

Tested by `tests/hf_scripts/test_push.py`.
"""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import huggingface_hub
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationCopy,
    CommitOperationDelete,
    HfApi,
    HfFileSystem,
    RepoFile,
)
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from builders.errors import BuildError
from builders.release.digests import file_sha256
from hf_scripts.hub.retry import ChecksumError, Log, with_retries

GITATTRIBUTES = ".gitattributes"
"""The file that the Hub puts into every repository by itself, to say what goes to LFS."""

_BATCH = 8
"""Files whose contents are sent between two reports of progress. The client takes five of them at a time."""


@dataclass(frozen=True)
class RemoteFile:
    """One file of a commit: `oid` is git's name of it; `sha256` is of its content, and empty outside LFS."""

    path: str
    size: int
    oid: str
    sha256: str

    def has_content_of(self, path: Path, sha256: str = "") -> bool:
        """Whether a file on this machine has the same content; `sha256` saves reading it where that is known."""
        if path.stat().st_size != self.size:
            return False
        if self.sha256:
            return (sha256 or file_sha256(path)) == self.sha256
        return git_oid(path) == self.oid


@dataclass(frozen=True)
class Info:
    """What a repository is: its newest commit, and who may read it."""

    head: str
    private: bool
    gated: bool


def git_oid(path: Path) -> str:
    """Git's name of a file's content: SHA-1 of `blob`, its length, a zero byte and the content."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def addition(path: str, local: Path, sha256: str = "") -> CommitOperationAdd:
    """A file for `Repository.upload` and `Repository.commit`; `sha256`, where known, saves reading it once more."""
    made = CommitOperationAdd(path, local)
    if sha256:
        made.upload_info.sha256 = bytes.fromhex(sha256)
    return made


class Repository:
    """A dataset repository.

    Args:
        name: ORG/NAME.
        log: told of every wait and of the Hub's warnings.
    """

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.log = log
        self.api = HfApi()
        self.host = urlsplit(self.api.endpoint).netloc

    # Who and what

    def has_token(self) -> bool:
        """Whether the client has a token to send."""
        return huggingface_hub.get_token() is not None

    def check_account(self) -> None:
        """Refuse a token that is missing, wrong, only reads, or belongs to nobody in ORG.

        Raises:
            BuildError: with what to do about it. A fine-grained token does not say what it may do; that comes out
                when it is used.
        """
        if not self.has_token():
            raise BuildError(
                f"expected a token for {self.host}, found none; log in with `hf auth login` or set HF_TOKEN to a "
                "token with write access."
            )
        me = with_retries("ask whose token this is", self.api.whoami, self.log)
        owner = self.name.split("/")[0]
        if me.get("auth", {}).get("accessToken", {}).get("role") == "read":
            raise BuildError(
                f"expected a token with write access, found one of {me['name']} that only reads on {self.host}; make "
                "another in the account's settings there."
            )
        mine = [me["name"], *(org["name"] for org in me.get("orgs", []))]
        if owner not in mine:
            raise BuildError(
                f"expected a token of {owner} or of one of its members, found one of {me['name']}, who may write to "
                f"{', '.join(mine)}; use another token, or another --repo."
            )

    def check_write(self) -> None:
        """Refuse a token that may not change this repository, which exists."""
        with_retries(
            f"be allowed to write to {self.name}",
            lambda: self.api.auth_check(self.name, repo_type="dataset", write=True),
            self.log,
        )

    def info(self) -> Info | None:
        """What the repository is now; None where there is none, or none that this token may see."""

        def ask() -> Info | None:
            try:
                found = self.api.dataset_info(self.name)
            except RepositoryNotFoundError:
                return None
            return Info(str(found.sha), bool(found.private), bool(found.gated))

        return with_retries(f"look at {self.name} on {self.host}", ask, self.log)

    def create(self, *, private: bool) -> None:
        """Create the repository. Nothing happens where it exists: neither to it nor to who may read it."""
        with_retries(
            f"create {self.name}",
            # Without a wish the organisation's default decides, which may be private.
            lambda: self.api.create_repo(self.name, repo_type="dataset", private=private or None, exist_ok=True),
            self.log,
        )

    # What it holds

    def resolve(self, revision: str) -> str | None:
        """The commit that a branch, tag or commit names; None where there is no such repository or revision."""

        def ask() -> str | None:
            try:
                return str(self.api.dataset_info(self.name, revision=revision).sha)
            except (RepositoryNotFoundError, RevisionNotFoundError):
                return None

        return with_retries(f"find {self.name} at {revision} on {self.host}", ask, self.log)

    def tags(self) -> dict[str, str]:
        """The commit of every tag; none where there is no repository."""

        def ask() -> dict[str, str]:
            try:
                refs = self.api.list_repo_refs(self.name, repo_type="dataset")
            except RepositoryNotFoundError:
                return {}
            return {tag.name: tag.target_commit for tag in refs.tags}

        return with_retries(f"list the tags of {self.name}", ask, self.log)

    def tree(self, commit: str) -> dict[str, RemoteFile]:
        """Every file of a commit by its path, without the one that the Hub puts there."""
        entries = with_retries(
            f"list the files of {self.name}",
            lambda: list(self.api.list_repo_tree(self.name, recursive=True, revision=commit, repo_type="dataset")),
            self.log,
        )
        return {
            entry.path: RemoteFile(entry.path, entry.size, entry.blob_id, entry.lfs.sha256 if entry.lfs else "")
            for entry in entries
            if isinstance(entry, RepoFile) and entry.path != GITATTRIBUTES
        }

    def fetch(self, stored: RemoteFile, commit: str, into: Path) -> Path:
        """Download a file of a commit to its path in `into`, whatever a cache of this machine holds, and check it."""

        def ask() -> Path:
            local = Path(
                self.api.hf_hub_download(
                    self.name,
                    stored.path,
                    repo_type="dataset",
                    revision=commit,
                    local_dir=into,
                    # A file of the shared cache would be copied, and its bytes are nobody's word for the Hub's.
                    cache_dir=into / ".cache" / "none",
                )
            )
            # The client compares sizes only.
            if not stored.has_content_of(local):
                local.unlink()
                raise ChecksumError(f"other bytes of {stored.path} than the Hub lists")
            return local

        return with_retries(f"download {stored.path} of {self.name}", ask, self.log)

    def open(self, path: str, commit: str) -> Any:
        """Open a file of a commit for reading parts of it."""
        # Instances are shared by default, with listings of before.
        files = HfFileSystem(endpoint=self.api.endpoint, skip_instance_cache=True)
        return files.open(f"datasets/{self.name}@{commit}/{path}", "rb", block_size=1 << 16)

    # What changes it

    def upload(self, additions: Sequence[CommitOperationAdd]) -> Iterator[int]:
        """Send contents ahead of their commit, a few files at a time; yields the bytes after each.

        The Hub says which contents it has, and those are not sent. Nothing is visible before the commit.
        """
        for start in range(0, len(additions), _BATCH):
            batch = additions[start : start + _BATCH]
            send = functools.partial(
                self.api.preupload_lfs_files,
                self.name,
                batch,
                repo_type="dataset",
                free_memory=False,
                # Else the rules of a .gitignore in the repository would drop files without a word.
                gitignore_content="",
            )
            more = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
            with_retries(f"send {batch[0].path_in_repo}{more}", send, self.log)
            yield sum(addition.upload_info.size for addition in batch)

    def commit(
        self, additions: Sequence[CommitOperationAdd], deletions: Sequence[str], *, title: str, parent: str
    ) -> str | None:
        """Make one commit on the branch main; returns its id, or None where `parent` is not the newest any more.

        Where the answer to a commit was lost, the next try finds `parent` outdated too: the caller looks whether the
        newest commit is the one it wanted.
        """
        operations: list[CommitOperationAdd | CommitOperationCopy | CommitOperationDelete] = list(additions)
        operations += [CommitOperationDelete(path, is_folder=False) for path in deletions]

        def ask() -> str | None:
            # The Hub's warnings of a card come as Python's, with the path of the client's file.
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                try:
                    made = self.api.create_commit(
                        self.name, operations, commit_message=title, repo_type="dataset", parent_commit=parent
                    )
                except HfHubHTTPError as error:
                    if error.response.status_code == 412:
                        return None
                    raise
            for warning in caught:
                self.log(f"note: {' '.join(str(warning.message).split())}")
            return str(made.oid)

        return with_retries(f"commit to {self.name}", ask, self.log)

    def tag(self, tag: str, commit: str) -> str:
        """Tag a commit, unless the tag exists; returns the commit that it names."""

        def ask() -> None:
            try:
                self.api.create_tag(self.name, tag=tag, revision=commit, repo_type="dataset")
            except HfHubHTTPError as error:
                # It exists: ours, where an answer was lost, or another's.
                if error.response.status_code != 409:
                    raise

        with_retries(f"set the tag {tag} of {self.name}", ask, self.log)
        return self.tags().get(tag, "")
