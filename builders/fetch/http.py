"""Downloads one file over HTTP so that a cut download goes on where it was cut, also in a later run.

pooch, which many projects use for this, begins again after each cut (1.9, `HTTPDownloader` and `stream_download`): too
often for 39 GB over an academic line. So this asks for the missing range and writes behind what there is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import requests

from builders.errors import BuildError, one_line

PART = ".part"
"""Suffix of a file that is not whole yet."""

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try that brings nothing. A try that brings bytes starts the count again."""

CONNECT_TIMEOUT = 30.0
"""Seconds."""

READ_TIMEOUT = 60.0
"""Seconds without a byte."""

_BLOCK = 1 << 16
"""Bytes written at a time. Of a block that is cut in the middle nothing is kept."""

_MOST_DIGITS = 18
"""Of a size that a server says, which is less than 2**63 bytes."""

_RANGE = re.compile(rf"bytes (\d{{1,{_MOST_DIGITS}}})-(\d{{1,{_MOST_DIGITS}}})/(\d{{1,{_MOST_DIGITS}}})", re.ASCII)
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)

Log = Callable[[str], object]
Advance = Callable[[int], object]


class _CutError(Exception):
    """The transfer ended early; the message says how."""


def part_of(path: Path) -> Path:
    """The file that holds what has come of a download."""
    return path.with_name(path.name + PART)


def download(url: str, path: Path, size: int, log: Log, advance: Advance) -> Path:
    """Download a file to `part_of(path)`, which then is as long as the server says, and return it.

    Whether its bytes are the right ones is for the caller to check.

    Args:
        url: the address.
        path: where the file will be. Its folder exists.
        size: bytes that it must have; 0 if that is not known.
        log: prints a line for each wait.
        advance: gets the number of bytes that came; negative where what there was is thrown away.

    Raises:
        BuildError: the server has no such file or one of another size, or the transfer keeps failing.
        OSError: the file cannot be written.
    """
    part = part_of(path)
    waits = iter(WAITS)
    while True:
        before = _length(part)
        if size and before == size:
            return part
        try:
            _continue(url, part, size, advance)
            return part
        except _CutError as error:
            if _length(part) > before:
                waits = iter(WAITS)
            wait = next(waits, None)
            if wait is None:
                raise BuildError(
                    f"Cannot download {url}: {error}. {_length(part):,} bytes are kept in {part}. Run the same "
                    "command again; it resumes."
                ) from error
            log(f"{path.name}: {error}; going on in {wait:g} s")
            time.sleep(wait)


def _continue(url: str, part: Path, size: int, advance: Advance) -> None:
    """Ask once for what is missing, and write it.

    Raises:
        _CutError: the transfer ended early.
        BuildError: the server has no such file.
    """
    start = _length(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT)) as answer:
            if start and answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                _forget(part, advance)
                raise _CutError("the server has no byte behind those that there are, so they are thrown away")
            _refuse_status(url, answer)
            total = _total(url, answer, start)
            if size and total not in (0, size):
                raise BuildError(
                    f"{url} has {total:,} bytes, and the published file {size:,}. The address serves something else; "
                    "look at the owner's page."
                )
            if start and answer.status_code != HTTPStatus.PARTIAL_CONTENT:
                _forget(part, advance)  # the server sends all of it again
            with part.open("ab") as file:
                for block in answer.iter_content(_BLOCK):
                    file.write(block)
                    advance(len(block))
    except requests.RequestException as error:
        raise _CutError(_reason(error)) from error
    wanted = size or total
    if wanted and _length(part) != wanted:
        raise _CutError(f"the transfer ended after {_length(part):,} of {wanted:,} bytes")


def _total(url: str, answer: requests.Response, start: int) -> int:
    """The size of the whole file as the server says it; 0 if it does not.

    Raises:
        _CutError: the server sent another range than was asked for.
        BuildError: no file has the size that it says.
    """
    if answer.status_code == HTTPStatus.PARTIAL_CONTENT:
        found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != start:
            raise _CutError("the server sent another range than the one that was asked for")
        return int(found[3])
    length = answer.headers.get("Content-Length", "")
    if len(length) > _MOST_DIGITS:
        raise BuildError(
            f"{url} says a size of {len(length):,} digits. The address serves something else; look at the owner's "
            "page."
        )
    return int(length) if length.isdecimal() else 0


def _refuse_status(url: str, answer: requests.Response) -> None:
    status = answer.status_code
    if status in _TRANSIENT:
        raise _CutError(f"the server answered {status}")
    if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        known = {entry.value: entry.phrase for entry in HTTPStatus}
        raise BuildError(
            f"{url} cannot be downloaded: {urlsplit(answer.url).netloc} answered {status} {known.get(status, '')}. "
            "Look at the owner's page whether it has moved."
        )


def _forget(part: Path, advance: Advance) -> None:
    advance(-_length(part))
    part.unlink()


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
        return "the connection was cut or refused"
    return one_line(error, 120)
