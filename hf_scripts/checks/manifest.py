"""Are the files of a release those that its manifest lists, and no others?"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from builders.release.digests import file_sha256
from builders.release.entries import FileEntry, Manifest
from builders.release.layout import CHANGES, FOLDERS, Layout
from builders.release.manifest import ManifestError, read_manifest
from builders.storage.atomic import TEMPORARY
from hf_scripts.checks.problems import Problems


def load(root: Path, problems: Problems, name: str = "") -> Manifest | None:
    """Read the manifest, and add to `problems` what keeps it from being one.

    Args:
        root: the release folder.
        problems: where to add what is wrong.
        name: what to call the release where the folder is only a place for downloads.

    Returns:
        The manifest, or None where it is none.

    Raises:
        BuildError: there is no release, or it is of a format that this version does not know.
    """
    try:
        return read_manifest(root, name)
    except ManifestError as error:
        problems.add("manifest", f"{Layout(root).manifest.name}: {error.reason}")
        return None


def check_file(root: Path, listed: FileEntry) -> Problems:
    """Check that a listed file is there with the right bytes and digest."""
    problems = Problems()
    path = root / listed.path
    try:
        size = path.stat().st_size if path.is_file() else -1
        if size < 0:
            problems.add("file missing", f"{listed.path}: expected a file, found none")
        elif size != listed.size:
            problems.add("file size", f"{listed.path}: expected {listed.size:,} bytes, found {size:,}")
        elif (digest := file_sha256(path)) != listed.sha256:
            problems.add("file digest", f"{listed.path}: expected SHA-256 {listed.sha256}, found {digest}")
    except OSError as error:
        problems.add("file unreadable", f"{listed.path}: expected a readable file, found {error.strerror}")
    return problems


def check_strays(root: Path, files: Iterable[FileEntry]) -> Problems:
    """Check that nothing lies in the release that would be published and that the manifest does not list."""
    problems = Problems()
    known: set[str] = set()
    for file in files:
        if file.path in known:
            problems.add(
                "manifest", f"manifest.json: expected one size and digest of {file.path}, found two that differ"
            )
        known.add(file.path)
    for path in _published(root):
        name = path.relative_to(root).as_posix()
        if path.name.startswith(".") and path.name.endswith(TEMPORARY):
            problems.add("temporary file", f"{name}: expected no temporary file, found what a killed run left")
        elif path.parent != root and name not in known:
            problems.add("file not listed", f"{name}: expected only files that manifest.json lists, found this one")
    return problems


def check_tree(tree: Mapping[str, tuple[int, str]], manifest: Manifest) -> Problems:
    """Check that a repository holds what its manifest lists, and nothing else.

    Args:
        tree: size and SHA-256 of every file of a commit, without what the Hub puts there itself. The digest is empty
            for small files, of which the Hub does not say it.
        manifest: the commit's manifest.
    """
    problems = Problems()
    files = {file.path: file for file in manifest.files_and_card()}
    for _, file in sorted(files.items()):
        problems.merge(check_stored(file, tree))
    problems.merge(check_unlisted(tree, manifest))
    return problems


def check_stored(file: FileEntry, tree: Mapping[str, tuple[int, str]]) -> Problems:
    """Check that a repository has a listed file with the right size and, where the Hub says it, the right digest."""
    problems = Problems()
    size, digest = tree.get(file.path, (-1, ""))
    if size < 0:
        problems.add("file missing", f"{file.path}: expected a file, found none")
    elif size != file.size:
        problems.add("file size", f"{file.path}: expected {file.size:,} bytes, found {size:,}")
    elif digest and digest != file.sha256:
        problems.add("file digest", f"{file.path}: expected SHA-256 {file.sha256}, found {digest}")
    return problems


def check_unlisted(paths: Iterable[str], manifest: Manifest) -> Problems:
    """Check that a repository, of which `paths` are all files, holds nothing that its manifest does not list."""
    problems = Problems()
    known = {"manifest.json", *(file.path for file in manifest.files_and_card())}
    for path in sorted(set(paths) - known):
        problems.add("file not listed", f"{path}: expected only files that manifest.json lists, found this one")
    return problems


def _published(root: Path) -> Iterator[Path]:
    yield from sorted(path for path in root.iterdir() if path.is_file())
    for folder in (*FOLDERS, CHANGES):
        for path in sorted((root / folder).rglob("*")):
            if not stat.S_ISDIR(path.lstat().st_mode):
                yield path
