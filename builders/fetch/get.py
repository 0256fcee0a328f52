"""Gets the files of sources: downloads those that have a plain address, and checks those that a person puts there.

A file has its own name only once it is whole and has the published size and digest. Before that it is `<name>.part`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.errors import BuildError
from builders.fetch.http import Log, download_file, part_bytes, part_of
from builders.fetch.unzip import unzip
from builders.sources.base import Source
from builders.sources.obtain import OwnerFile
from builders.sources.opening import scan
from builders.storage.files import open_regular, require_space
from builders.storage.locks import file_lock
from builders.storage.paths import inside
from unknown_detection.durable import finish, make_folder
from unknown_detection.terminal.progress import bar


@dataclass(frozen=True)
class FileState:
    """One of the owner's files, and how much of it the source's folder has.

    `path` is where it is or will be, and `have` are the bytes of it in the folder. `done` says whether all of it is
    there, under its own name or unpacked, though it may still have to be checked.
    """

    source: Source
    file: OwnerFile
    path: Path
    have: int
    done: bool

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it comes from, in the order of trying; nowhere if a person has to download it."""
        return (self.file.url, *self.file.mirrors) if self.file.url else ()

    @property
    def description(self) -> str:
        """How much of the file is there, in words."""
        if self.done:
            return "there"
        if not self.file.url:
            return "to be downloaded by hand"
        return f"{self.have:,} bytes there" if self.have else "to be downloaded"


def only_for(source: Source, partition: str) -> Source:
    """Return a source of one partition alone, with the files that this needs."""
    obtain, size = source.obtain, source.expected()[partition]
    files = [file for file in obtain.files if file.serves((partition,))] if obtain else []
    limited = dataclasses.replace(obtain, files=tuple(files)) if obtain else None
    return dataclasses.replace(source, obtain=limited, expected=lambda: {partition: size})


def states(source: Source, into: Path) -> list[FileState]:
    """Return for each of a source's files how much of it is in the source's folder below `into`."""
    found = []
    for file in source.obtain.files if source.obtain else ():
        path = inside(into / source.key, file.name)
        done = path.is_file() or (file.unpacked and (path.parent / file.unpacked).exists())
        found.append(FileState(source, file, path, file.size if done else part_bytes(part_of(path)), bool(done)))
    return found


def toml_line(source: Source, into: Path) -> str:
    """Return the line of a sources file that names the folder of a source."""
    return f"{source.key} = {json.dumps(str((into / source.key).absolute()), ensure_ascii=False)}"


def needed_bytes(files: Sequence[FileState]) -> int:
    """Return the disk space in bytes that the downloads need, including what is unpacked beside its zip."""
    downloads = [state for state in files if not state.done and state.file.url]
    return sum(
        max(0, state.file.size - state.have) + (state.file.size if state.file.unpacked else 0) for state in downloads
    )


def cautions(files: Sequence[FileState]) -> list[str]:
    """Return what to know before downloads: owners' terms, and files without a published digest, a line each."""
    downloads = [state for state in files if state.file.url and not state.done]
    lines = [
        f"note: {source.key}: the owner's page {obtain.terms}. Read {obtain.page} before you use what comes."
        for source in {state.source.key: state.source for state in downloads}.values()
        if (obtain := source.obtain) is not None and obtain.terms
    ]
    for state in downloads:
        if not state.file.has_digest:
            origin = "over plain http" if state.file.url.startswith("http:") else "from its owner"
            lines.append(
                f"note: {state.source.key}: {state.file.name} comes {origin}, and no digest of it is published. "
                "Whoever can change what reaches this machine can give it other images: only the number of images and "
                "the checksums inside the file are checked."
            )
    return lines


def get(sources: Sequence[Source], into: Path, log: Log, *, quiet: bool = False) -> list[str]:
    """Download and check the files of some sources, each into a folder of its own below `into`.

    Returns instructions for each source that is incomplete since some of its files have no plain address.
    """
    files = [states(source, into) for source in sources]
    every = [state for of_source in files for state in of_source]
    needed = needed_bytes(every)
    advice = "Choose a folder on a larger disk with --into, or get fewer sources at a time."
    require_space(into, needed, "The files need", advice)
    instructions = []
    busy = f"Another run is getting files into {into}. Wait for it, or choose another --into."
    present = sum(state.have for state in every)
    total = present + sum(max(0, state.file.size - state.have) for state in every if state.addresses)
    with (
        file_lock(into / ".get.lock", busy),
        bar(total, "getting files", quiet=quiet, unit="B", done=present) as shown,
    ):
        for source, of_source in zip(sources, files, strict=True):
            for state in of_source:
                _complete(state, log, shown)
            missing = [state for state in states(source, into) if not state.done]
            if missing or not of_source:
                instructions.append(_by_hand(source, into, missing))
            elif not all(state.file.has_digest for state in of_source):
                _refuse_other_number(source, into / source.key)
    return instructions


def _by_hand(source: Source, into: Path, missing: Sequence[FileState]) -> str:
    """Return instructions for a source whose files must be downloaded by hand."""
    if source.obtain is None:
        raise ValueError(f"{source.key} is made, not obtained")
    lines = [f"{source.title}: go to {source.obtain.page} and {source.obtain.steps}"]
    if missing:
        lines[0] += f", into {into / source.key}:"
    for state in missing:
        size = f"{state.file.size:,} bytes" if state.file.exact_size else "size not published"
        published = {"SHA-256": state.file.sha256, "MD5": state.file.md5}
        digests = [f"{name} {digest}" for name, digest in published.items() if digest]
        lines.append(f"  {state.file.name} ({', '.join([size, *digests])})")
    if flag := source.obtain.mirror_flag(source.key):
        lines.append(f"  or build with {flag}")
    return "\n".join(lines)


def _complete(state: FileState, log: Log, shown: Any) -> None:
    """Download, check and unpack one file; one without an address is only checked. `shown` is the bar."""
    file, path = state.file, state.path
    title = f"{state.source.key}: {file.name}"
    if file.unpacked and (path.parent / file.unpacked).exists():
        return
    if path.is_file():
        shown.set_description(f"checking {title}")
        if problem := file_problem(file, path):
            raise BuildError(f"{path} is not the owner's file: {problem}. Remove it and get it again.")
    elif not file.url:
        return
    else:
        make_folder(path.parent)
        finish(_downloaded(state, title, log, shown), path)
    if file.unpacked:
        log(f"{title}: unpacking {file.unpacked}")
        unzip(path, file.unpacked, path.parent)
        path.unlink()


def _downloaded(state: FileState, title: str, log: Log, shown: Any) -> Path:
    """Download a file from the first of its addresses that gives it whole and right; returns its part file."""
    *others, last = state.addresses
    for url in others:
        try:
            return _downloaded_from(url, state, title, log, shown)
        except BuildError as error:
            log(f"{title}: {str(error).partition('. ')[0]}; trying a mirror")
    return _downloaded_from(last, state, title, log, shown)


def _downloaded_from(url: str, state: FileState, title: str, log: Log, shown: Any) -> Path:
    """Download a file from one address, and check it."""
    file = dataclasses.replace(state.file, url=url)
    log(f"{title}: downloading {url}")
    have = part_bytes(part_of(state.path))
    while True:
        shown.set_description(title)
        part = download_file(file, state.path, log, shown.update)
        shown.set_description(f"checking {title}")
        problem = file_problem(file, part)
        if not problem:
            return part
        shown.update(-part_bytes(part))
        part.unlink()
        if not have:
            raise BuildError(
                f"{url} gave another file than the published one: {problem}. It was removed. Run the same "
                "command again; if it says so again, the owner's file has changed."
            )
        log(f"{title}: {problem}; what an earlier run left was damaged, so all of it is downloaded again")
        have = 0


def file_problem(file: OwnerFile, path: Path) -> str:
    """Describe how a file differs from what its owner publishes of it; empty if it does not, or nothing is published.

    Its SHA-256 is compared if there is one, otherwise its MD5.
    """
    size = path.stat().st_size
    if file.exact_size and size != file.exact_size:
        return f"it has {size:,} bytes, and the published file {file.exact_size:,}"
    name, published = ("SHA-256", file.sha256) if file.sha256 else ("MD5", file.md5)
    if not published:
        return ""
    digest = hashlib.sha256() if file.sha256 else hashlib.md5(usedforsecurity=False)
    with open_regular(path) as opened:
        while block := opened.read(1 << 22):
            digest.update(block)
    actual = digest.hexdigest()
    return "" if actual == published else f"its {name} is {actual}, and the published one {published}"


def _refuse_other_number(source: Source, folder: Path) -> None:
    """Refuse a set with another number of images than the owner's, where no digest is published."""
    for partition in scan(source, folder, tuple(source.expected())):
        count, total = partition.table.num_rows, source.expected()[partition.name].total
        if count != total:
            raise BuildError(
                f"{folder} is not the owner's set: its partition {partition.name} has {count:,} images, and the "
                f"published one {total:,}. Remove what is in {folder} and get it again."
            )
