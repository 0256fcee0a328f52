"""Downloads one file over HTTP, and resumes a download where it was cut, also in a later run.

pooch, which many projects use for this, begins again after each cut (1.9, `HTTPDownloader` and `stream_download`): too
often for 39 GB over an academic line. So this requests the missing range and appends it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import requests

from builders.errors import BuildError
from builders.fetch.transfer import FLOOR, CutError, Floor, received
from builders.sources.obtain import OwnerFile
from builders.storage.files import refuse_irregular

PART = ".part"
"""Suffix of a file that is not whole yet."""

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try. After a try that brought the file on by what the floor asks for, the count starts
again."""

_MOST_DIGITS = 18
"""Digits of a size that a server states, which is less than 2**63 bytes."""

_RANGE = re.compile(rf"bytes (\d{{1,{_MOST_DIGITS}}})-(\d{{1,{_MOST_DIGITS}}})/(\d{{1,{_MOST_DIGITS}}})", re.ASCII)
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)

Log = Callable[[str], object]
Advance = Callable[[int], object]


def part_of(path: Path) -> Path:
    """Return the path of a file's partial download."""
    return path.with_name(path.name + PART)


def part_bytes(part: Path) -> int:
    """Return the number of bytes of a part file; 0 if there is none.

    Raises:
        BuildError: it is a link, which could lead to any file, or something else that is no regular file.
    """
    try:
        status = part.lstat()
    except FileNotFoundError:
        return 0
    refuse_irregular(part, status.st_mode)
    return status.st_size


def download_file(file: OwnerFile, path: Path, log: Log, advance: Advance, floor: Floor = FLOOR) -> Path:
    """Download a file to `part_of(path)`, which then is as long as the server says, and return it.

    Whether its bytes are the right ones is for the caller to check.

    Args:
        file: the file, which has an address.
        path: where the file will be. Its folder exists.
        log: prints a line for each wait.
        advance: called with the number of bytes that came; negative where a partial download is discarded.
        floor: the least speed at which a transfer goes on.

    Raises:
        BuildError: the server has no such file or one of another size, the transfer keeps failing, or there is no
            regular file at `part_of(path)`.
        OSError: the file cannot be written.
    """
    part = part_of(path)
    waits = iter(WAITS)
    longest = part_bytes(part)
    while True:
        if file.exact_size and part_bytes(part) == file.exact_size:
            return part
        try:
            _continue(file, part, advance, floor)
            return part
        except CutError as error:
            size = part_bytes(part)
            # Further than ever: a server may take back again and again what it has sent, or send a byte each time.
            if size >= longest + floor.size:
                waits, longest = iter(WAITS), size
            wait = next(waits, None)
            if wait is None:
                raise BuildError(
                    f"Cannot download {file.url}: {error}. {size:,} bytes are kept in {part}. Run the same command "
                    "again; it resumes."
                ) from error
            log(f"{path.name}: {error}; going on in {wait:g} s")
            time.sleep(wait)


def _continue(file: OwnerFile, part: Path, advance: Advance, floor: Floor) -> None:
    """Request the missing bytes once, and append them.

    Raises:
        CutError: the transfer ended early, or was too slow.
        BuildError: the server has no such file.
    """
    start = part_bytes(part)
    with received(file.url, {"Range": f"bytes={start}-"} if start else {}, floor) as (answer, blocks):
        if start and answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _discard(part, advance)
            raise CutError("the server has no byte behind those that there are, so they are thrown away")
        _refuse_status(file.url, answer)
        total = _total(file.url, answer, start)
        most = _most(file, total)
        if start and answer.status_code != HTTPStatus.PARTIAL_CONTENT:
            _discard(part, advance)  # the server sends all of it again
            start = 0
        with open(part, "ab", opener=_not_followed) as opened:
            for block in blocks:
                start += len(block)
                if start > most:
                    break
                opened.write(block)
                advance(len(block))
    if start > most:
        _discard(part, advance)
        raise BuildError(
            f"{file.url} sends more than {most:,} bytes, which the file has at most. What came was removed. Look at "
            "the owner's page whether the file has changed."
        )
    expected = file.exact_size or total
    if expected and start != expected:
        raise CutError(f"the transfer ended after {start:,} of {expected:,} bytes")


def _not_followed(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _total(url: str, answer: requests.Response, start: int) -> int:
    """Return the size of the whole file as the server states it; 0 if it does not.

    Raises:
        CutError: the server sent another range than was asked for.
        BuildError: no file has the size that it says.
    """
    if answer.status_code == HTTPStatus.PARTIAL_CONTENT:
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != start:
            raise CutError("the server sent another range than the one that was asked for")
        return int(match[3])
    length = answer.headers.get("Content-Length", "")
    if len(length) > _MOST_DIGITS:
        raise BuildError(
            f"{url} says a size of {len(length):,} digits. The address serves something else; look at the owner's "
            "page."
        )
    return int(length) if length.isdecimal() else 0


def _most(file: OwnerFile, total: int) -> int:
    """Return the greatest number of bytes that is written.

    Raises:
        BuildError: the server says that there are more, or nobody says how many there are.
    """
    most = file.max_size or total
    if not most:
        raise BuildError(
            f"{file.url} does not say how many bytes it has, and its owner publishes no size, so that a download "
            "might never end. Download it by hand."
        )
    if total > most or (file.exact_size and total not in (0, most)):
        published = f"{most:,}" if file.exact_size else f"at most {most:,}"
        raise BuildError(
            f"{file.url} has {total:,} bytes, and the published file {published}. The address serves something else; "
            "look at the owner's page."
        )
    return most


def _refuse_status(url: str, answer: requests.Response) -> None:
    status = answer.status_code
    if status in _TRANSIENT:
        raise CutError(f"the server answered {status}")
    if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        phrases = {entry.value: entry.phrase for entry in HTTPStatus}
        raise BuildError(
            f"{url} cannot be downloaded: {urlsplit(answer.url).netloc} answered {status} {phrases.get(status, '')}. "
            "Look at the owner's page whether it has moved."
        )


def _discard(part: Path, advance: Advance) -> None:
    advance(-part_bytes(part))
    part.unlink()
