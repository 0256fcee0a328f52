"""Compares the files of a release, or of a repository, with those that its manifest lists."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from builders.release.digests import file_sha256
from builders.release.entries import Manifest
from builders.release.layout import CHANGES, FOLDERS, Layout, shows_images
from builders.release.manifest import ManifestError, read_manifest
from builders.release.split_entries import FileEntry
from builders.storage.atomic import TEMPORARY
from builders.storage.paths import files_of, is_remote
from hf_scripts.checks.problems import Problems


def load(root: Path, problems: Problems, name: str = "") -> Manifest | None:
    """Read the manifest of a release; an invalid one is added to `problems`.

    Args:
        root: the release folder.
        problems: collects the reason if the manifest is invalid.
        name: name of the release in messages, for a folder of downloads.

    Returns:
        The manifest, or None if it is invalid.

    Raises:
        BuildError: the folder has no manifest, or one of a format that this version does not know.
    """
    try:
        return read_manifest(root, name)
    except ManifestError as error:
        problems.add("manifest", f"{Layout(root).manifest.name}: {error.reason}")
        return None


def files_in(manifest: Manifest, splits: Collection[str]) -> list[FileEntry]:
    """The files of a release without the images and sealed residuals that belong to other splits alone."""
    images: dict[str, bool] = {}
    for key, _, split in manifest.splits():
        for file in (*split.data, *split.sealed):
            images[file.path] = images.get(file.path, False) or key in splits
    return [file for file in manifest.files() if images.get(file.path, True)]


def check_file(root: Path, listed: FileEntry) -> Problems:
    """Check that a listed file exists and has the listed size and digest."""
    problems = Problems()
    path = root / listed.path
    try:
        size = path.stat().st_size if path.is_file() else -1
        if size < 0:
            wrong = "is not a regular file" if path.exists() else "the file is missing"
            problems.add("file missing", f"{listed.path}: {wrong}")
        elif size != listed.size:
            problems.add("file size", _wrong_size(listed, size))
        elif (digest := file_sha256(path)) != listed.sha256:
            problems.add("file digest", _wrong_digest(listed, digest))
    except OSError as error:
        problems.add("file unreadable", f"{listed.path}: cannot be read: {error.strerror}")
    return problems


def check_strays(root: Path, manifest: Manifest) -> Problems:
    """Check that the release holds no file to publish that the manifest does not list.

    Pictures of images (`shows_images`) may be there: a manifest never lists them, and a repository may not have them.
    """
    problems = Problems()
    known: set[str] = set()
    for file in manifest.files():
        if file.path in known:
            problems.add("manifest", f"manifest.json: lists {file.path} twice, with different sizes or digests")
        known.add(file.path)
    for twice in _listed_twice(manifest):
        problems.add("manifest", f"manifest.json: lists {twice} for two purposes")
    for path in _published(root):
        name = path.relative_to(root).as_posix()
        if path.name.startswith(".") and path.name.endswith(TEMPORARY):
            problems.add("temporary file", f"{name}: a temporary file, left by a killed run")
        elif path.parent != root and name not in known and not shows_images(name):
            problems.add("file not listed", _not_listed(name))
    return problems


def _listed_twice(manifest: Manifest) -> list[str]:
    """Files that two splits list, or a split and another entry: only one of the two would be checked."""
    listed = [file.path for _, _, split in manifest.splits() for file in split.files]
    listed += {config.excluded.path for config in manifest.configs.values()}
    listed += [config.audit.path for config in manifest.configs.values() if config.audit is not None]
    listed += [file.path for file in manifest.changelog or ()]
    listed += [file.path for audit in manifest.audits.values() for file in audit.files()]
    listed += [manifest.duplicates.path] if manifest.duplicates is not None else []
    return sorted(path for path, times in Counter(listed).items() if times > 1)


def check_tree(tree: Mapping[str, tuple[int, str]], manifest: Manifest) -> Problems:
    """Check that a repository holds the files that its manifest lists, and no others.

    Args:
        tree: size and SHA-256 of every file of a commit, without the files that the Hub adds itself. The digest is
            empty for small files, for which the Hub does not give one.
        manifest: the commit's manifest.
    """
    problems = Problems()
    files = {file.path: file for file in manifest.files_and_card()}
    for _, file in sorted(files.items()):
        problems.merge(check_stored(file, tree))
    problems.merge(check_unlisted(tree, manifest))
    return problems


def check_stored(file: FileEntry, tree: Mapping[str, tuple[int, str]]) -> Problems:
    """Check that a repository has a listed file with the listed size and, if the Hub gives one, the listed digest."""
    problems = Problems()
    size, digest = tree.get(file.path, (-1, ""))
    if size < 0:
        problems.add("file missing", f"{file.path}: the file is missing")
    elif size != file.size:
        problems.add("file size", _wrong_size(file, size))
    elif digest and digest != file.sha256:
        problems.add("file digest", _wrong_digest(file, digest))
    return problems


def check_unlisted(paths: Iterable[str], manifest: Manifest) -> Problems:
    """Check that the manifest lists every file of a repository; `paths` are all of its files."""
    problems = Problems()
    known = {"manifest.json", *(file.path for file in manifest.files_and_card())}
    for path in sorted(set(paths) - known):
        problems.add("file not listed", _not_listed(path))
    return problems


def _wrong_size(listed: FileEntry, size: int) -> str:
    return f"{listed.path}: has {size:,} bytes, not {listed.size:,} as manifest.json lists"


def _wrong_digest(listed: FileEntry, digest: str) -> str:
    return f"{listed.path}: has the SHA-256 {digest}, not {listed.sha256} as manifest.json lists"


def _not_listed(path: str) -> str:
    return f"{path}: manifest.json does not list this file"


def release_files(root: Path) -> list[str]:
    """The paths of the files in a release's folders, sorted; hidden ones are left out, as by `datasets`."""
    paths = (path.relative_to(root) for path in _published(root))
    return sorted(path.as_posix() for path in paths if not any(name.startswith(".") for name in path.parts))


def _published(root: Path) -> Iterator[Path]:
    if is_remote(root):  # one listing, where asking for each file would be a request for each
        for path, _ in files_of(root):
            parts = path.relative_to(root).parts
            if len(parts) == 1 or parts[0] in (*FOLDERS, CHANGES):
                yield path
        return
    yield from sorted(path for path in root.iterdir() if path.is_file())
    for folder in (*FOLDERS, CHANGES):
        for path in sorted((root / folder).rglob("*")):
            if not stat.S_ISDIR(path.lstat().st_mode):
                yield path
