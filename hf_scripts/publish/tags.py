"""Finds tags that do not name the commit that published their version."""

from __future__ import annotations

from collections.abc import Mapping

from builders.errors import BuildError
from builders.hub.repository import Repository
from builders.hub.retry import Log
from hf_scripts.publish.versions import parse_version


def publish_title(tag: str) -> str:
    """The title of the commit that publishes a version."""
    return f"Publish {tag}"


def moved_tags(repository: Repository, tags: Mapping[str, str]) -> dict[str, str]:
    """Find version tags that were moved to another commit.

    Args:
        repository: the repository.
        tags: the commits that its tags name.

    Returns:
        The commit that published each such version. A version whose commit is not in the history of the branch main
        (it may have been squashed) is left out.
    """
    versions = {tag: commit for tag, commit in tags.items() if parse_version(tag) is not None}
    if not versions:
        return {}
    published: dict[str, list[str]] = {}
    for commit, title in repository.history():
        published.setdefault(title, []).append(commit)
    known = {tag: published.get(publish_title(tag), []) for tag in versions}
    return {tag: known[tag][0] for tag, commit in sorted(versions.items()) if known[tag] and commit not in known[tag]}


def check_moved_tags(repository: Repository, tags: Mapping[str, str], *, allowed: bool, log: Log) -> None:
    """Refuse to publish next to tags that were moved, unless it is allowed; then they are logged.

    Raises:
        BuildError: a tag was moved, and `allowed` is False.
    """
    moved = moved_tags(repository, tags)
    sentences = [
        f"the tag {tag} of {repository.name} names commit {tags[tag][:12]}, but {tag} was published as commit "
        f"{commit[:12]}"
        for tag, commit in moved.items()
    ]
    if sentences and not allowed:
        more = f" (and {len(sentences) - 1:,} more such tags)" if len(sentences) > 1 else ""
        raise BuildError(
            f"{sentences[0][0].upper()}{sentences[0][1:]}{more}, so results on it can no longer be compared. Move the "
            "tag back on the Hub, or accept it with --allow-moved-tags."
        )
    for sentence in sentences:
        log(f"note: {sentence} (--allow-moved-tags)")
