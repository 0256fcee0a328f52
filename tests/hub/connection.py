"""HTTP/1.1 as the stand-in speaks it: persistent connections, bodies by length, ranges, hanging up."""

import contextlib
import io
import json
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from tests.hub.answers import Answer, HangUpError

BLOCK = 1 << 20


@dataclass
class Request:
    """One line of the log."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    """By lower-case name; a token is shown as `Bearer ...`."""
    route: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    status: int | None = None
    """None: the connection was closed without an answer."""


class Body:
    """A request's body, read once and never held whole unless asked for."""

    def __init__(self, stream: BinaryIO, headers: Message, request: Request):
        self._left = int(headers.get("Content-Length", 0))
        self._stream = stream
        self._request = request

    def blocks(self) -> Iterator[bytes]:
        """What is left of the body, in blocks of at most a mebibyte.

        Raises:
            HangUpError: the client went away in the middle.
        """
        while self._left:
            block = self._stream.read1(min(self._left, BLOCK))
            if not block:
                raise HangUpError
            self._left -= len(block)
            self._request.bytes_in += len(block)
            yield block

    def read(self) -> bytes:
        return b"".join(self.blocks())

    def json(self) -> dict[str, Any]:
        return json.loads(self.read())

    def form(self) -> dict[str, list[str]]:
        return parse_qs(self.read().decode())

    def skip(self, most: int | None = None) -> None:
        """Take in and forget the body, or at least `most` bytes of it where it has so many."""
        for _ in self.blocks():
            if most is not None and self._request.bytes_in >= most:
                return


@dataclass
class Call:
    """A request as a route sees it."""

    request: Request
    body: Body
    authorization: str

    def flag(self, name: str) -> bool:
        return self.request.query.get(name, ["false"])[0].lower() in ("true", "1")


class Listener(socketserver.ThreadingTCPServer):
    """Answers on a free port of 127.0.0.1, every connection in a thread."""

    allow_reuse_address = True
    request_queue_size = 64
    block_on_close = True

    def __init__(self, answer: Callable[[Call], Answer]):
        self.answer = answer
        self.crashes: list[BaseException] = []
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def origin(self) -> str:
        return "http://{}:{}".format(*self.server_address)

    def process_request(self, request, client_address):
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        error = sys.exception()
        # A client may go away at any time, for one when a test ends it; anything else is an error of the stand-in.
        if not isinstance(error, ConnectionError):
            self.crashes.append(error)

    def close(self) -> None:
        self.shutdown()
        for connection in list(self._open):
            # The clients keep idle connections open, each with a thread here that waits for the next request. One that
            # has just ended by itself is no socket any more.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # head and body leave together
    server: Listener

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        authorization = self.headers.get("Authorization", "")
        headers = {name.lower(): value for name, value in self.headers.items()}
        if authorization:
            headers["authorization"] = "Bearer ..."
        request = Request(self.command, url.path, parse_qs(url.query, keep_blank_values=True), headers)
        body = Body(self.rfile, self.headers, request)
        try:
            answer = self.server.answer(Call(request, body, authorization))
            body.skip()
            self._send(answer, request)
        except HangUpError:
            self.close_connection = True

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _send(self, answer: Answer, request: Request) -> None:
        request.status = answer.status
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(answer.length), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        for block in _blocks(answer):
            request.bytes_out += self.wfile.write(block)
        if answer.cut is not None:
            self.wfile.flush()
            raise HangUpError

    def log_message(self, *_: object) -> None:
        """Nothing on stderr: the log is `Hub.requests`."""


def _blocks(answer: Answer) -> Iterator[bytes]:
    """The body as it is sent, with what a fault does to it."""
    left = answer.length if answer.cut is None else min(answer.cut, answer.length)
    damaged = not answer.flip
    with answer.file.open("rb") if answer.file else io.BytesIO(answer.body) as source:
        source.seek(answer.start)
        while left:
            block = source.read(min(left, BLOCK))
            left -= len(block)
            if not damaged:
                block = bytes([block[0] ^ 0xFF]) + block[1:]
                damaged = True
            yield block
