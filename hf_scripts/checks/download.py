"""Downloads a release from the Hub into a folder, where `verify` checks it like any other.

Tested by `tests/hf_scripts/test_verify_hub.py`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from builders.cli.split_choice import chosen_splits
from builders.errors import BuildError, os_errors_as_build_errors
from builders.hub.client import hub_settings
from builders.hub.repository import RemoteFile, Repository
from builders.hub.retry import Log
from builders.release.layout import MANIFEST
from builders.release.loading import refuse_misread
from builders.storage.files import require_space
from builders.storage.scratch import scratch_folder
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks.problems import Problems
from unknown_detection.terminal.interrupts import Stopped
from unknown_detection.terminal.progress import bar

# Enough to keep the connection busy while files are hashed, and few enough to stay below the rate limit.
_PARALLEL_DOWNLOADS = 4


@dataclass(frozen=True)
class Downloaded:
    """A downloaded release: its folder, its name for messages, its unlisted files as problems, and its origin."""

    root: Path
    name: str
    problems: Problems
    repository: Repository
    commit: str


@contextlib.contextmanager
def downloaded(name: str, revision: str, keep: Path | None, splits: Sequence[str], log: Log) -> Iterator[Downloaded]:
    """Download a release into a new folder, without using the local cache.

    `revision`: a branch, tag or commit. It is resolved once, and all files are of that commit.
    `keep`: a new or empty folder for the files, or one with a download of this commit that was interrupted; without
    it they are deleted when the block ends.
    `splits`: values of `--splits`: the splits whose images are downloaded.
    """
    begun = _begun(keep) if keep is not None else ""
    if keep is not None and keep.exists() and (not keep.is_dir() or (any(keep.iterdir()) and not begun)):
        raise BuildError(f"The folder {keep} is not empty. Give a new or empty one with --keep.")
    if keep is not None:
        refuse_misread(keep, "--keep")
    with contextlib.ExitStack() as stack:
        stack.enter_context(hub_settings())
        into = keep or stack.enter_context(scratch_folder("verify"))
        with os_errors_as_build_errors("write what is downloaded"):
            into.mkdir(parents=True, exist_ok=True)
            repository = Repository(name, log)
            commit = repository.commit_at(revision)
            if begun not in ("", commit):
                raise BuildError(
                    f"The folder {keep} has part of another version. Give a new or empty one with --keep."
                )
            label = f"{name} at {revision} (commit {commit[:12]})"
            files, problems = _listed_files(repository, commit, into, splits)
            size = sum(file.size for file in files)
            destination = f"into {keep}" if keep else "into a temporary folder"
            log(f"downloading {label} from {repository.host}: {len(files):,} files, {size:,} bytes {destination}")
            require_space(into, size, "The download needs", "Give a folder on a larger disk with --keep.")
            _download(repository, commit, files, into)
        yield Downloaded(into, label, problems, repository, commit)


def _begun(keep: Path) -> str:
    """Return the commit of which a killed run has left files in a folder; empty if none has."""
    # The client's own record of the first file, beside which a whole download has none (huggingface_hub 2.4).
    record = keep / ".cache" / "huggingface" / "download" / f"{MANIFEST}.metadata"
    return record.read_text(encoding="utf-8").partition("\n")[0] if record.is_file() else ""


def _listed_files(
    repository: Repository, commit: str, into: Path, splits: Sequence[str]
) -> tuple[list[RemoteFile], Problems]:
    """Return the files of a commit that its manifest lists for the chosen splits; its unlisted files are problems."""
    tree = repository.tree(commit)
    where = f"{repository.name} at commit {commit[:12]}"
    if MANIFEST not in tree:
        raise BuildError(
            f"{where} is not a release: it has no manifest.json. Give another --revision, or another repository."
        )
    repository.fetch(tree[MANIFEST], commit, into)
    manifest = check_manifest.load_manifest(into, Problems(), where)
    if manifest is None:
        return [], Problems()  # checking the folder reports why
    images = {file.path for _, _, split in manifest.splits() for file in (*split.data, *split.sealed)}
    chosen = chosen_splits(splits, list(manifest.by_key()), where)
    selected = {file.path for file in check_manifest.files_in(manifest, chosen)}
    listed = {file.path for file in manifest.files_and_card()} - (images - selected)
    return [tree[path] for path in sorted(listed & tree.keys())], check_manifest.check_unlisted(tree, manifest)


def _download(repository: Repository, commit: str, files: list[RemoteFile], into: Path) -> None:
    size = sum(file.size for file in files)
    pool, wait = ThreadPoolExecutor(_PARALLEL_DOWNLOADS), True
    try:
        with bar(size, "downloading", unit="B") as shown:
            for file, _ in zip(files, pool.map(lambda file: repository.fetch(file, commit, into), files), strict=True):
                shown.update(file.size)
    except Stopped:
        wait = False  # leaves the downloads under way to end with the process
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)
    # The client's own records of its downloads are not part of the release.
    shutil.rmtree(into / ".cache", ignore_errors=True)
