"""Downloads one HTTP response, and gives up on a server that sends it too slowly.

A thread reads the response and the caller times it: a socket's timeout starts again with each byte, so a reading
thread alone would never end a transfer that trickles.

Tested by `tests/builders/fetch/test_http.py`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import requests
import urllib3

from builders.errors import one_line

CONNECT_TIMEOUT = 30.0
"""Seconds."""

READ_TIMEOUT = 60.0
"""Seconds without a byte."""

_BLOCK = 1 << 16
"""Bytes handed on at a time, at most."""

_REDIRECTS = 10
"""Redirects that are followed at most; the owners' addresses have one or two. Ours."""

_WAITING = 16
"""Blocks that wait to be written: a megabyte."""

_LOOK_SECONDS = 0.2
"""How often a thread looks whether it still has something to do, and the main thread for a Ctrl-C that did not wake it
(see `builders.hub.client`); ours."""


@dataclass(frozen=True)
class Floor:
    """The lowest accepted speed of a transfer: `size` bytes in every `seconds`."""

    size: int
    seconds: float


FLOOR = Floor(60_000, 60.0)
"""A kilobyte a second; ours. At that speed the largest file, of 39 GB, would take more than a year."""


class CutError(Exception):
    """The transfer ended early; the message says how."""


class _Session(requests.Session):
    """Does not follow redirects: requests would read the whole body of each before it went to the next address."""

    def resolve_redirects(self, *_: Any, **__: Any) -> Iterator[requests.Response]:
        """No redirects; `_answer` follows them."""
        return iter(())


@contextmanager
def received(
    url: str, headers: Mapping[str, str], floor: Floor
) -> Iterator[tuple[requests.Response, Iterator[bytes]]]:
    """Open a download: the response, and its body in blocks as they were sent, without undoing any `Content-Encoding`.

    Args:
        url: the address.
        headers: headers of the request.
        floor: the speed below which the download is given up.

    Raises:
        CutError: the transfer ended early or was slower than the floor; also while the bytes are taken.
    """
    messages: queue.Queue[requests.Response | bytes | Exception] = queue.Queue(_WAITING)
    abandoned = threading.Event()

    def put(item: requests.Response | bytes | Exception) -> bool:
        while not abandoned.is_set():
            try:
                messages.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            with _Session() as session, _answer(session, url, headers) as answer:
                put(answer)
                while (block := answer.raw.read1(_BLOCK, decode_content=False)) and put(block):
                    pass
            put(b"")
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            put(error)

    threading.Thread(target=read, daemon=True).start()
    items = _paced(messages, floor)
    try:
        yield next(items), items  # type: ignore[misc]
    finally:
        abandoned.set()


def _answer(session: requests.Session, url: str, headers: Mapping[str, str]) -> requests.Response:
    """Request an address and follow its redirects to the last response."""
    session.auth = lambda request: request  # or requests would send a password from `.netrc`, which no owner asks for
    headers = {"Accept-Encoding": "identity", **headers}
    for _ in range(_REDIRECTS):
        answer = session.get(
            url, headers=headers, stream=True, allow_redirects=False, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT)
        )
        target = session.get_redirect_target(answer)
        if target is None:
            return answer
        answer.close()
        url = urljoin(url, target)
    raise requests.TooManyRedirects(f"more than {_REDIRECTS} redirects")


def _paced(
    messages: queue.Queue[requests.Response | bytes | Exception], floor: Floor
) -> Iterator[requests.Response | bytes]:
    """Yield the response and its blocks; raises `CutError` if the thread fails or the transfer is too slow."""
    since, size = time.monotonic(), 0
    while True:
        try:
            item = messages.get(timeout=min(_LOOK_SECONDS, floor.seconds))
        except queue.Empty:
            pass
        else:
            if isinstance(item, Exception):
                raise CutError(_reason(item)) from item
            if item == b"":
                return
            yield item
            size += len(item) if isinstance(item, bytes) else 0
        if time.monotonic() - since >= floor.seconds:
            if size < floor.size:
                raise CutError(f"only {size:,} bytes came in {floor.seconds:g} s")
            since, size = time.monotonic(), 0


def _reason(error: Exception) -> str:
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError | urllib3.exceptions.ProtocolError | ConnectionError):
        return "the connection was cut or refused"
    return one_line(error, 120)
