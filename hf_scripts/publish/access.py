"""Checks who may read a repository against the licences of the images that it has, or will have.

Versions that are published already are checked, too: a repository may have been made public, or a licence may have
changed, since they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from builders.errors import BuildError
from builders.hub.repository import Access, Info, Repository
from builders.hub.retry import Log
from builders.release.entries import Manifest
from builders.release.manifest import read_manifest
from builders.storage.scratch import scratch_folder
from hf_scripts.checks.problems import Problems
from hf_scripts.publish.licences import check_demo, check_licences, forbidden_images

_MANIFEST = "manifest.json"


def log_access(repository: Repository, info: Info | None, *, private: bool, log: Log) -> None:
    """Print who may read the repository; `private` is for one that does not exist yet."""
    if info is None:
        kind = "private" if private else "public, unless its owner's default is private"
        log(f"{repository.name} does not exist on {repository.host} yet; it will be {kind}")
        return
    log(f"{repository.name} is on {repository.host}, {info.access}")


def check_access(
    repository: Repository, info: Info | None, manifest: Manifest, *, private: bool, allow_demo: bool
) -> None:
    """Check that a release may be published in a repository as it is.

    Args:
        repository: the repository.
        info: who may read it; None if it does not exist yet.
        manifest: the manifest of the repository after publishing.
        private: whether the user asks for a private repository.
        allow_demo: whether a release of demo sources may be public.

    Raises:
        BuildError: the repository is not private as requested, or a licence or `demo` forbids publishing.
    """
    access: Access = info.access if info else "private" if private else "public"
    check_demo(manifest, access, repository.name, allowed=allow_demo)
    check_licences(manifest, access, repository.name)
    if private and access != "private":
        raise BuildError(
            f"{repository.name} is {access} on {repository.host}, and --private does not change an existing "
            "repository. Make it private in its settings there, or give another --repo."
        )


def check_published_images(
    repository: Repository, info: Info | None, tags: Mapping[str, str], tag: str, log: Log
) -> None:
    """Check that licences allow the images of a published version, and print other versions with such images.

    Args:
        repository: the repository.
        info: who may read it; None if it does not exist yet.
        tags: the commits of its tags.
        tag: the version to check.
        log: prints a note for each other version.

    Raises:
        BuildError: `tag` is published, and has images that the licences do not allow.
    """
    exposed = exposed_images(repository, info, tags)
    for other, sentence in exposed.items():
        if other != tag:
            log(f"note: {sentence}")
    if tag in exposed:
        raise BuildError(exposed[tag])


def exposure_problems(repository: Repository, revision: str, commit: str) -> Problems:
    """Return the images that licences do not allow in the repository as problems, of a revision and of all tags."""
    problems = Problems()
    revisions = {revision: commit, **repository.tags()}
    for sentence in exposed_images(repository, repository.info(), revisions).values():
        problems.add("licence", sentence)
    return problems


def exposed_images(repository: Repository, info: Info | None, revisions: Mapping[str, str]) -> dict[str, str]:
    """Find revisions that serve images although their licences do not allow it.

    Args:
        repository: the repository.
        info: who may read it; None if it does not exist.
        revisions: commits by tag or other revision.

    Returns:
        A sentence with images and licences for each such revision. Those that this version reads no release from are
        skipped.
    """
    if info is None or info.access == "private":
        return {}  # no licence forbids it
    with scratch_folder("access") as scratch:
        commits = sorted(set(revisions.values()))
        images = {commit: _forbidden(repository, commit, info.access, scratch / commit) for commit in commits}
    return {
        revision: f"{repository.name} is {info.access}, and {revision} serves images that a licence does not allow "
        f"there: {images[commit]}. Make the repository private in its settings, or delete it and publish with "
        "--index-only: its history keeps the images of deleted tags."
        for revision, commit in sorted(revisions.items())
        if images[commit]
    }


def _forbidden(repository: Repository, commit: str, access: Access, folder: Path) -> str:
    """Describe the images of a commit that licences do not allow with this access; empty if it has none."""
    tree = repository.tree(commit, recursive=False)
    if _MANIFEST not in tree:
        return ""
    repository.fetch(tree[_MANIFEST], commit, folder)
    try:
        return forbidden_images(read_manifest(folder, commit[:12]), access)
    except BuildError:
        return ""
