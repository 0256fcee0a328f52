"""A pull request by which many files are published: parts on its branch, and one merge that makes all of them visible.

The Hub checks each file of a commit, gives the request a minute, and advises fewer than a hundred files (hub-docs,
`storage-limits.md`). A merge is one commit on the branch main, named after the pull request. What the branch has is
asked of the Hub before each part, so a killed run is gone on with, and an answer that was lost is not needed.

Tested by `tests/hf_scripts/test_push_parts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from huggingface_hub import Discussion

from builders.hub.repository import Addition, RemoteFile, Repository

PART = 100
"""Most files that one commit adds or deletes."""

_DESCRIPTION = "Files of one version, in parts. The command that uploads them merges them when all are here."


@dataclass(frozen=True)
class Change:
    """A change of the branch main from the commit `parent`, whose files are `before`: files to add and to delete.

    `tags` are the repository's, by which the change was made.
    """

    title: str
    parent: str
    tags: Mapping[str, str]
    before: Mapping[str, RemoteFile]
    additions: Sequence[Addition]
    deletions: Sequence[str]

    @property
    def in_parts(self) -> bool:
        """Whether it is too large for one commit."""
        return len(self.additions) + len(self.deletions) > PART

    @property
    def paths(self) -> set[str]:
        """The files before, and those to add."""
        return {*self.before, *(added.path_in_repo for added in self.additions)}

    def missing(self, tree: Mapping[str, RemoteFile]) -> tuple[list[Addition], list[str]]:
        """Return what a tree of files lacks of it: files to add, and paths to delete."""
        # As new values: the client refuses one that was committed before, which somebody may have replaced since.
        additions = [
            Addition(added.path_in_repo, added.path_or_fileobj, added.listed)
            for added in self.additions
            if not _has(tree, added)
        ]
        return additions, [path for path in self.deletions if path in tree]

    def makes(self, tree: Mapping[str, RemoteFile]) -> bool:
        """Whether a tree of files is what it makes of those before: all of it, and nothing else."""
        changed = {added.path_in_repo for added in self.additions} | set(self.deletions)
        stays = {path: file for path, file in self.before.items() if path not in changed}
        others = {path: file for path, file in tree.items() if path not in changed}
        return stays == others and not any(self.missing(tree))


def merge_in_parts(repository: Repository, account: str, change: Change, sent: Callable[[int], object]) -> str | None:
    """Upload a change in parts, and merge them; returns the commit, or None if somebody else changed anything.

    `account` is the publisher's name, and `sent` is called with the bytes of each batch of uploaded files.
    """
    request = _opened(repository, account, change)
    branch = f"refs/pr/{request.num}"
    # Twice as many tries as parts: each makes one, unless somebody else commits to the branch.
    tries = 2 * -(-(len(change.additions) + len(change.deletions)) // PART)
    for _ in range(tries + 1):
        head, tree = repository.commit_at(branch), repository.tree(branch)
        additions, deletions = change.missing(tree)
        if not additions and not deletions:
            break
        part = additions[:PART]
        for size in repository.upload(part):
            sent(size)
        removed = deletions[: PART - len(part)]
        repository.commit(part, removed, title=f"{change.title}, a part", parent=head, branch=branch)
    moved = repository.commit_at("main") != change.parent or repository.tags() != change.tags
    if moved or not change.makes(tree):
        _close(repository, request.num)
        return None
    _merge(repository, request.num)
    merged = repository.commit_at("main")
    # The Hub merges whatever came between the look at main and the merge.
    return merged if repository.tree(merged) == tree else None


def _has(tree: Mapping[str, RemoteFile], added: Addition) -> bool:
    file = tree.get(added.path_in_repo)
    return file is not None and file.has_content_of(added.local, added.listed)


def _opened(repository: Repository, account: str, change: Change) -> Discussion:
    """Return the pull request that a killed run of the same change has left, or a new one."""

    def ask() -> Discussion:
        listed = _listed(repository, account)
        for request in listed:
            if request.title == change.title and request.status in ("draft", "open"):
                branch = f"refs/pr/{request.num}"
                begun = change.parent in (commit for commit, _ in repository.history(branch))
                if begun and repository.tree(branch).keys() <= change.paths:
                    return request
                _close(repository, request.num)  # main has moved, or the release was built anew
        return repository.api.create_pull_request(
            repository.name, change.title, description=_DESCRIPTION, repo_type="dataset"
        )

    return repository.ask(f"open a pull request of {repository.name}", ask)


def _listed(repository: Repository, account: str) -> list[Discussion]:
    return list(
        repository.api.get_repo_discussions(
            repository.name, author=account, discussion_type="pull_request", repo_type="dataset"
        )
    )


def _close(repository: Repository, number: int) -> None:
    """Close a pull request, unless it is: what was uploaded for it stays on the Hub, and need not be sent again."""

    def ask() -> None:
        if _status(repository, number) in ("draft", "open"):  # another run of the same account may have merged it
            repository.api.change_discussion_status(repository.name, number, "closed", repo_type="dataset")

    repository.ask(f"close the pull request {number} of {repository.name}", ask)


def _merge(repository: Repository, number: int) -> None:
    def ask() -> None:
        name, status = repository.name, _status(repository, number)
        if status == "draft":  # which cannot be merged
            repository.api.change_discussion_status(name, number, "open", repo_type="dataset")
        if status != "merged":  # by an attempt whose answer was lost
            repository.api.merge_pull_request(name, number, repo_type="dataset")

    repository.ask(f"merge the pull request {number} of {repository.name}", ask)


def _status(repository: Repository, number: int) -> str:
    listed = repository.api.get_repo_discussions(repository.name, repo_type="dataset")
    return next(request.status for request in listed if request.num == number)
