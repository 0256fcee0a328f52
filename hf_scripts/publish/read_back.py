"""Checks that a tag names the published release, by reading everything from the Hub again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from builders.errors import BuildError
from builders.hub.repository import RemoteFile, Repository
from builders.release.digests import file_sha256
from builders.release.entries import Manifest
from builders.release.manifest import parse
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks.problems import Problems
from hf_scripts.publish.merged_release import first_problem


def read_back(
    repository: Repository, tag: str, commit: str, manifest_file: Path, local: Callable[[str], Path | None], root: Path
) -> int:
    """Compare a tag on the Hub with a manifest.

    Compares the tag's commit, and the names, sizes and digests of all files; what these hold was checked before they
    were published. For small files the Hub has no SHA-256: they are compared with the local file by git blob id, or
    downloaded.

    Args:
        repository: the repository.
        tag: the tag.
        commit: the commit that the tag should name.
        manifest_file: the manifest that was published.
        local: returns the local path of a file, or None.
        root: an empty folder for downloads.

    Returns:
        The number of files.

    Raises:
        BuildError: something differs.
    """
    named = repository.tags().get(tag)
    if named != commit:
        raise BuildError(
            f"The tag {tag} of {repository.name} names {(named or 'no commit')[:12]}, not commit {commit[:12]}. Run "
            "the same command again."
        )
    manifest = parse(manifest_file.read_bytes(), str(manifest_file))
    tree = repository.tree(tag)
    problems = check_manifest.check_tree(tree, manifest)
    if "manifest.json" not in tree or not tree["manifest.json"].has_content_of(manifest_file):
        problems.add("manifest", "manifest.json is missing, or is not the published one")
    if not problems.total():
        _check_small(repository, commit, tree, manifest, local, root, problems)
    if problems.total():
        raise BuildError(
            f"{repository.name} at {tag} does not match its manifest.json: {first_problem(problems)}. Look at the "
            f"commit on {repository.host}, and publish the release again under the next version."
        )
    return len(tree)


def _check_small(
    repository: Repository,
    commit: str,
    tree: Mapping[str, RemoteFile],
    manifest: Manifest,
    local: Callable[[str], Path | None],
    root: Path,
    problems: Problems,
) -> None:
    for file in manifest.files_and_card():
        remote = tree[file.path]
        if remote.sha256:
            continue  # compared already, in the tree
        path = local(file.path)
        if path is None or not remote.has_content_of(path):
            path = repository.fetch(remote, commit, root)
        if (digest := file_sha256(path)) != file.sha256:
            problems.add("file digest", f"{file.path}: has the SHA-256 {digest}, not {file.sha256}")
