"""A proxy on 127.0.0.1 that passes requests on, keeps a list of them, and answers some with faults instead."""

import contextlib
import http.client
import http.server
import socket
import threading
import urllib.parse
from dataclasses import dataclass, field

BUSY = (
    b"<?xml version='1.0'?><Error><Code>ServiceUnavailable</Code><Message>Please reduce your rate.</Message></Error>"
)
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"

CUT = -1
"""A fault that closes the connection in the middle of the answer's body, or before an answer without one."""

NO_ANSWER = -2
"""A fault that passes the request on, and closes the connection without an answer."""


@dataclass
class Request:
    method: str
    path: str
    query: str
    headers: dict
    sent: int
    received: int = 0
    status: int = 0

    @property
    def kind(self):
        """The operation as S3 names it."""
        query = urllib.parse.parse_qs(self.query, keep_blank_values=True)
        if "list-type" in query:
            return "ListObjectsV2"
        if "uploads" in query:
            return "CreateMultipartUpload"
        if "uploadId" in query:
            names = {"PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload"}
            return names[self.method]
        bucket = "/" not in self.path.strip("/")
        return {"GET": "Get", "HEAD": "Head", "PUT": "Put", "DELETE": "Delete", "POST": "Post"}[self.method] + (
            "Bucket" if bucket else "Object"
        )


@dataclass
class Proxy:
    """`fault` is asked for every request: a status to answer, `CUT`, `NO_ANSWER`, or None to pass it on."""

    port: int
    upstream: int
    requests: list = field(default_factory=list)
    fault: object = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def kinds(self):
        counts = {}
        for request in self.requests:
            counts[request.kind] = counts.get(request.kind, 0) + 1
        return counts


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the delayed acknowledgement of its headers
    proxy: Proxy

    def log_message(self, *_):
        pass

    def _serve(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = dict(self.headers.items())
        request = Request(self.command, urllib.parse.unquote(path), query, headers, len(body))
        self.proxy.requests.append(request)
        fault = self.proxy.fault(request) if self.proxy.fault else None
        if fault is not None and fault > 0:
            data = BUSY if fault == 503 else DENIED
            request.status = fault
            self._answer(fault, {"Content-Type": "application/xml"}, data)
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=60)
        with contextlib.closing(upstream):
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            data = answer.read()
        request.status, request.received = answer.status, len(data)
        if fault == NO_ANSWER or (fault == CUT and len(data) < 2):
            self._hang_up()
            return
        forwarded = {name: value for name, value in answer.getheaders() if name.lower() not in _OWN}
        if self.command == "HEAD":
            forwarded["Content-Length"] = answer.getheader("Content-Length", "0")
        if fault == CUT:
            self._answer(answer.status, forwarded, data[: len(data) // 2], length=len(data))
            self._hang_up()
            return
        self._answer(answer.status, forwarded, data)

    def _answer(self, status, headers, data, length=None):
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _hang_up(self):
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815


_OWN = {"connection", "content-length", "transfer-encoding", "keep-alive"}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a client that went away, such as one that was killed


@contextlib.contextmanager
def proxied(upstream):
    """A proxy before a server on a port of this machine."""
    handler = type("Handler", (_Handler,), {})
    with _Server(("127.0.0.1", 0), handler) as server:
        handler.proxy = Proxy(server.server_address[1], upstream)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield handler.proxy
        finally:
            server.shutdown()
            thread.join()
