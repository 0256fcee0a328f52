"""Compares the files of a release, or of a repository, with those that its manifest lists.

`datasets` looks into more files than the card names (`.huggingface.yaml`, `dataset_infos.json`, `FOLDER.py`; 5.2,
`load.py`) and takes a file's format and place from its name. So a release has no other file, and each its one name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from builders.release.digests import file_sha256
from builders.release.entries import FileEntry, Manifest
from builders.release.layout import MANIFEST, Layout, shows_images
from builders.release.manifest import ManifestError, read_manifest
from builders.storage.folders import entries_below
from hf_scripts.checks.problems import Problems
from unknown_detection.durable import TEMPORARY
from unknown_detection.words import first_few, quantity

if TYPE_CHECKING:  # the Hub's client, which a folder needs not
    from builders.hub.repository import RemoteFile

_NOT_RELEASED = (".cache", ".git", ".gitattributes", ".state")
"""Entries of a release's root that are no part of it: a build's state, and what git and the Hub's client keep.
`datasets` looks into a hidden folder only where a pattern names it, and no pattern of a card does."""

_OF_SPLIT = re.compile(
    r"(?:data|sealed|index|samples)/([\w-]+/\w+)(?:-\d{5}-of-\d{5})?\.(?:parquet|png)|excluded/([\w-]+)\.csv", re.ASCII
)
"""A file of a split or of a config (`builders.release.layout`), and the key of the split or the config's name."""


def load_manifest(root: Path, problems: Problems, name: str = "") -> Manifest | None:
    """Read the manifest of a release; an invalid one is added to `problems`."""
    try:
        return read_manifest(root, name)
    except ManifestError as error:
        problems.add("manifest", f"{MANIFEST}: {error.reason}")
        return None


def files_in(manifest: Manifest, splits: Collection[str]) -> list[FileEntry]:
    """Return the files of a release that some splits need: all but other splits' images and residuals."""
    images: dict[str, bool] = {}
    for key, _, split in manifest.splits():
        for file in (*split.data, *split.sealed):
            images[file.path] = images.get(file.path, False) or key in splits
    return [file for file in manifest.files() if images.get(file.path, True)]


def check_file(root: Path, listed: FileEntry) -> Problems:
    """Check that a listed file exists and has the listed size and digest."""
    problems, path = Problems(), root / listed.path
    try:
        if path.is_file():
            _compare(listed, path.stat().st_size, lambda: file_sha256(path), problems)
        else:
            wrong = "is not a regular file" if path.exists() else "the file is missing"
            problems.add("file missing", f"{listed.path}: {wrong}")
    except OSError as error:
        problems.add("file unreadable", f"{listed.path}: cannot be read: {error.strerror}")
    return problems


def _compare(listed: FileEntry, size: int, sha256: Callable[[], str], problems: Problems) -> None:
    if size != listed.size:
        wrong = f"has {size:,} bytes, not {listed.size:,} as manifest.json lists"
        problems.add("file size", f"{listed.path}: {wrong}")
    elif (digest := sha256()) != listed.sha256:
        wrong = f"has the SHA-256 {digest}, not {listed.sha256} as manifest.json lists"
        problems.add("file digest", f"{listed.path}: {wrong}")


def is_unfinished(root: Path, manifest: Manifest, key: str) -> bool:
    """Whether a build of this split (`config/split`), or of its config's first splits, began here and did not end.

    What it wrote may be hours of work, with which the same command goes on, and is no part of the release.
    """
    plan = Layout(root).plan(key)
    listed = key in manifest.configs or key in manifest.by_key()
    return not listed and (plan.is_file() or plan.with_suffix("").is_dir())


def check_strays(root: Path, manifest: Manifest, problems: Problems) -> list[str]:
    """Check that the manifest lists all files of the release, once each; returns notes on unfinished splits.

    Pictures of images (`shows_images`) may be there: a manifest never lists them, and a repository may not have them.
    """
    known = Counter([MANIFEST, *(file.path for file in manifest.files_and_card())])
    for file in (file for file, times in known.items() if times > 1):
        problems.add("manifest", f"manifest.json: lists {file} twice, with different sizes or digests")
    unfinished = Counter[str]()
    for path in entries_below(root, _NOT_RELEASED):
        name = path.relative_to(root).as_posix()
        if path.name.startswith(".") and path.name.endswith(TEMPORARY):
            problems.add("temporary file", f"{name}: a temporary file, left by a killed run")
        elif name not in known and not shows_images(name):
            of_split = _OF_SPLIT.fullmatch(name)
            key = (of_split[1] or of_split[2]) if of_split else ""
            if key and is_unfinished(root, manifest, key):
                unfinished[key] += 1
            else:
                problems.add("file not listed", f"{name}: manifest.json does not list this file")
    if not unfinished:
        return []
    files, named = quantity(unfinished.total(), "file"), first_few(sorted(unfinished))
    return [f"no part of the release: {files} of {named}, whose build did not end; go on with it, or remove the files"]


def check_stored(
    file: FileEntry, tree: Mapping[str, RemoteFile], sha256: Callable[[str], str], problems: Problems
) -> None:
    """Check that a repository has a listed file with the listed size and digest; `sha256` gives that of its path."""
    stored = tree.get(file.path)
    if stored is None:
        problems.add("file missing", f"{file.path}: the file is missing")
    else:
        _compare(file, stored.size, lambda: sha256(file.path), problems)


def check_unlisted(paths: Iterable[str], manifest: Manifest) -> Problems:
    """Check that the manifest lists every file of a repository; `paths` are all of its files."""
    problems = Problems()
    known = {MANIFEST, *(file.path for file in manifest.files_and_card())}
    for path in sorted(set(paths) - known):
        problems.add("file not listed", f"{path}: manifest.json does not list this file")
    return problems
