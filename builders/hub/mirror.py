"""Downloads the partitions of a source that a build needs from a Parquet mirror on the Hub.

Files are kept below a cache folder of ours as the Hub's client names its own,
`datasets--ORG--NAME/snapshots/<commit>/<path>`. They get there only once their digest has been checked, so a file that
is there is whole. The client resumes a cut download with a range request; after a killed process it begins the
file in flight again (huggingface_hub 2 keeps no part of it), and files that are there are not downloaded again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from builders.errors import BuildError, os_errors_as_build_errors
from builders.hub.client import hub_settings
from builders.hub.place import HubPlace, parse_place
from builders.hub.repository import RemoteFile, Repository
from builders.hub.retry import Log
from builders.sources.base import Source
from builders.sources.opening import DEPTH
from builders.sources.readers.parquet_files import split_names
from builders.storage.files import require_space
from builders.storage.locks import file_lock
from builders.storage.paths import inside
from unknown_detection.durable import finish, make_folder
from unknown_detection.terminal.progress import bar
from unknown_detection.words import first_few


@dataclass(frozen=True)
class MirrorFiles:
    """The files of a mirror that a build needs, and which of them the cache lacks.

    `commit` is what the place named when it was looked up, and `home` the repository's folder in the cache.
    """

    place: HubPlace
    commit: str
    home: Path
    files: tuple[RemoteFile, ...]
    missing: tuple[RemoteFile, ...]

    @property
    def root(self) -> Path:
        """The folder in the cache that the source's reader is given."""
        return self.home / "snapshots" / self.commit / self.place.folder

    @property
    def size(self) -> int:
        """The number of bytes still to download."""
        return sum(file.size for file in self.missing)

    def describe(self) -> str:
        """Describe which files are downloaded, and to where."""
        return f"{len(self.missing):,} of {len(self.files):,} files, {self.size:,} bytes, into {self.home}"


def mirror_files(source: Source, place: HubPlace, partitions: Sequence[str], cache: Path, log: Log) -> MirrorFiles:
    """Return the files of a mirror that hold the given partitions of a source."""
    mirror = source.obtain.mirror if source.obtain else None
    if mirror is None:
        page = f" Get it from {source.obtain.page}, and" if source.obtain else ""
        raise BuildError(
            f"{source.title} cannot be read from Parquet files alone, so {place} is no copy of it.{page} give its "
            f"folder with --{source.key}."
        )
    if mirror.at and not place.folder and (known := parse_place(mirror.at)).repo == place.repo:
        place = HubPlace(place.repo, place.revision, known.folder)
    repository = Repository(place.repo, log)
    commit = repository.commit_at(place.revision)
    tree = repository.tree(commit)
    paths = {path for name in partitions for path in _partition(source, place, tree, mirror.splits[name], name)}
    files = tuple(tree[path] for path in sorted(paths))
    home = cache / f"datasets--{place.repo.replace('/', '--')}"
    local = {file: inside(home / "snapshots" / commit, file.path) for file in files}
    missing = (file for file, path in local.items() if not path.is_file() or path.stat().st_size != file.size)
    return MirrorFiles(place, commit, home, files, tuple(missing))


def _partition(
    source: Source,
    place: HubPlace,
    tree: Mapping[str, RemoteFile],
    alternatives: Sequence[Sequence[str]],
    partition: str,
) -> list[str]:
    """Return the paths of a partition's files in a repository, from the highest folder that has them."""
    prefix = f"{place.folder}/" if place.folder else ""
    names = [path.removeprefix(prefix) for path in tree if path.startswith(prefix) and path.endswith(".parquet")]
    folders = sorted({parent for name in names for parent in PurePosixPath(name).parents})
    files_of = {folder: files for folder in folders if (files := _files(folder, names, alternatives))}
    depth = min((len(folder.parts) for folder in files_of), default=0)
    highest = [str(folder) for folder in files_of if len(folder.parts) == depth <= DEPTH]
    if len(highest) > 1:
        raise BuildError(
            f"{source.title}: {place} has the partition {partition} in several folders, "
            f"{first_few(highest)}. Name one of them, for instance {place}/{highest[0]}."
        )
    if highest:
        return [f"{prefix}{file}" for file in files_of[PurePosixPath(highest[0])]]
    expected = " or ".join(f"{' and '.join(splits)}" for splits in alternatives)
    raise BuildError(
        f"{source.title}: {place} has no Parquet files of the partition {partition}, which mirrors name {expected}. "
        f"Give another mirror or a folder with --{source.key}."
    )


def _files(folder: PurePosixPath, names: Sequence[str], alternatives: Sequence[Sequence[str]]) -> list[str]:
    """Return the files in a folder of the first alternative that has any."""
    start = f"{folder}/" if folder.parts else ""
    inner = [name.removeprefix(start) for name in names if name.startswith(start)]
    files = ([f"{start}{name}" for split in splits for name in split_names(inner, split)] for splits in alternatives)
    return next(filter(None, files), [])


def download_mirror(source: Source, files: MirrorFiles, log: Log, *, quiet: bool = False) -> Path:
    """Download the files that the cache lacks, one after the other; returns the folder for the source's reader."""
    if not files.missing:
        return files.root
    log(f"{source.title}: downloading {files.describe()}")
    with os_errors_as_build_errors("write the files from the Hub"):
        make_folder(files.home)
        advice = "Choose a folder on a larger disk with --cache."
        require_space(files.home, files.size, f"{files.place} needs", advice)
        busy = f"Another run is downloading into {files.home}. Wait for it, or choose another --cache."
        with file_lock(files.home / ".lock", busy), hub_settings():
            _download(files, log, quiet=quiet)
    return files.root


def _download(files: MirrorFiles, log: Log, *, quiet: bool) -> None:
    staging = files.home / "staging"
    shutil.rmtree(staging, ignore_errors=True)  # of a killed run
    repository = Repository(files.place.repo, log)
    try:
        with bar(files.size, "downloading", quiet=quiet, unit="B") as shown:
            for file in files.missing:
                shown.set_description(file.path.rpartition("/")[2])
                local = repository.fetch(file, files.commit, staging)
                finish(local, inside(files.home / "snapshots" / files.commit, file.path))
                shown.update(file.size)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
