"""Downloads one file over HTTP; an interrupted download continues where it stopped, also in a later run.

pooch, which many projects use for this, begins again after each cut (1.9, `HTTPDownloader` and `stream_download`): too
often for 39 GB over an academic line. So this requests the missing range and appends it. It runs in an event loop,
where a deadline ends a transfer wherever it hangs: a socket's timeout starts again with each byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import wait
from http import HTTPStatus
from pathlib import Path

from anyio.from_thread import start_blocking_portal
from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

from builders.errors import BuildError
from builders.sources.obtain import OwnerFile
from builders.storage.files import refuse_irregular

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try. After a try that brought the file on by what the floor asks for, the count starts
again."""

_TIMEOUTS = httpx.Timeout(60.0, connect=30.0)
"""Seconds without a byte, and until there is a connection."""

_LOOK_SECONDS = 0.2
"""How often the caller's thread looks for a Ctrl-C that did not wake it; ours."""

_REDIRECTS = 10
"""Redirects that are followed at most; the owners' addresses have one or two. Ours."""

_SIZE = re.compile(r"\d{1,18}", re.ASCII)  # below 2**63
_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", re.ASCII)
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)

Log = Callable[[str], object]
Advance = Callable[[int], object]


FLOOR_BYTES, FLOOR_SECONDS = 60_000, 60.0
"""The least bytes of a transfer in every so many seconds (ours): a kilobyte a second, at which the largest file, of
39 GB, would take more than a year."""


class CutError(Exception):
    """A transfer that ended early; the message says how."""


def part_of(path: Path) -> Path:
    """Return the path at which a file is stored while it downloads."""
    return path.with_name(f"{path.name}.part")


def part_bytes(part: Path) -> int:
    """Return the bytes of a partial download, 0 if there is none; refuses a link, which could lead anywhere."""
    try:
        status = part.lstat()
    except FileNotFoundError:
        return 0
    refuse_irregular(part, status.st_mode)
    return status.st_size


def download_file(file: OwnerFile, path: Path, log: Log, advance: Advance) -> Path:
    """Download a file to `part_of(path)`, as long as the server says it is; returns that path.

    Whether its bytes are the right ones is for the caller to check. `log` prints a line for each wait; `advance` gets
    the number of bytes that came, which is negative where a partial download is discarded. Raises `BuildError` where
    the server has no such file or one of another size, or the transfer keeps failing.
    """
    part = part_of(path)
    waits = iter(WAITS)
    longest = part_bytes(part)
    while not file.exact_size or part_bytes(part) != file.exact_size:
        try:
            _transfer(file, part, advance)
            break
        except CutError as error:
            size = part_bytes(part)
            # Further than ever: a server may take back again and again what it has sent, or send a byte each time.
            if size >= longest + FLOOR_BYTES:
                waits, longest = iter(WAITS), size
            seconds = next(waits, None)
            if seconds is None:
                raise BuildError(
                    f"Cannot download {file.url}: {error}. {size:,} bytes are kept in {part}. Run the same command "
                    "again; it resumes."
                ) from error
            log(f"{path.name}: {error}; going on in {seconds:g} s")
            time.sleep(seconds)
    return part


def _transfer(file: OwnerFile, part: Path, advance: Advance) -> None:
    """Request the missing bytes in another thread's event loop, since one may run in this; Ctrl-C cancels it."""
    with start_blocking_portal() as portal:
        transfer = portal.start_task_soon(_continue, file, part, advance)
        while not wait([transfer], _LOOK_SECONDS).done:
            pass
        transfer.result()


async def _continue(file: OwnerFile, part: Path, advance: Advance) -> None:
    """Request the missing bytes once, and append them as they were sent, whatever their `Content-Encoding`."""
    came = 0
    try:
        async with asyncio.timeout(FLOOR_SECONDS) as pace, httpx.AsyncClient(timeout=_TIMEOUTS) as client:
            start = part_bytes(part)
            answer = await _answer(client, file.url, start)
            async with contextlib.aclosing(answer):
                if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    _discard(part, advance)
                    raise CutError("the server has no byte behind those that there are, so they are thrown away")
                total = _total(answer, start)
                most = _most(file, total)
                if start and answer.status_code != HTTPStatus.PARTIAL_CONTENT:
                    _discard(part, advance)  # the server sends all of it again
                    start = 0
                with open(part, "ab", opener=_not_followed) as opened:
                    async for block in answer.aiter_raw():
                        start += len(block)
                        if start > most:
                            break
                        opened.write(block)
                        advance(len(block))
                        came += len(block)
                        if came >= FLOOR_BYTES:
                            pace.reschedule(asyncio.get_running_loop().time() + FLOOR_SECONDS)
                            came = 0
    except TimeoutError as error:
        raise CutError(f"only {came:,} bytes came in {FLOOR_SECONDS:g} s") from error
    except httpx.TimeoutException as error:
        raise CutError("no answer in time") from error
    except httpx.HTTPError as error:
        raise CutError("the connection was cut or refused") from error
    if start > most:
        _discard(part, advance)
        raise BuildError(
            f"{file.url} sends more than {most:,} bytes, which the file has at most. What came was removed. Look at "
            "the owner's page whether the file has changed."
        )
    expected = file.exact_size or total
    if expected and start != expected:
        raise CutError(f"the transfer ended after {start:,} of {expected:,} bytes")


async def _answer(client: httpx.AsyncClient, url: str, start: int) -> httpx.Response:
    """Request a file from a byte on, and follow redirects without reading their bodies."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    request = client.build_request("GET", url, headers=headers)
    for _ in range(_REDIRECTS):
        answer = await client.send(request, stream=True)
        if answer.next_request is None:
            break
        await answer.aclose()
        request = answer.next_request
    else:
        raise CutError(f"more than {_REDIRECTS} redirects")
    status = answer.status_code
    of_a_range = (HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
    if status == HTTPStatus.OK or (start and status in of_a_range):
        return answer
    await answer.aclose()
    if status in _TRANSIENT:
        raise CutError(f"the server answered {status}")
    raise BuildError(
        f"{url} cannot be downloaded: {answer.url.host} answered {status} {answer.reason_phrase}. Look at the owner's "
        "page whether it has moved."
    )


def _not_followed(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _total(answer: httpx.Response, start: int) -> int:
    """Return the size of the whole file as the server states it; 0 if it does not."""
    if answer.status_code == HTTPStatus.PARTIAL_CONTENT:
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != start:
            raise CutError("the server sent another range than the one that was asked for")
        return int(match[2])
    length = answer.headers.get("Content-Length", "")
    return int(length) if _SIZE.fullmatch(length) else 0


def _most(file: OwnerFile, total: int) -> int:
    """Return the greatest number of bytes that is written; a larger file or one of unknown size is refused."""
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


def _discard(part: Path, advance: Advance) -> None:
    advance(-part_bytes(part))
    part.unlink()
