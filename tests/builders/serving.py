"""A plain web server on the loopback address that serves files, with ranges, and fails as a test asks it to."""

import contextlib
import re
from collections import deque

from tests.hub.answers import Answer, HangUpError
from tests.hub.connection import Listener


class Site:
    """Serves `files` by path. What stands in `faults` is used up, a request each, before answers are right again.

    A fault is a number of bytes after which the connection is cut, `no answer`, a status, or a path to redirect to.
    `headers` are those that every answer has, right or wrong.
    """

    def __init__(self):
        self.files = {}
        self.faults = deque()
        self.ranges = True
        self.refuses_ranges = False
        self.shifted = 0
        self.headers = {}
        self.requests = []

    def url(self, path):
        return f"{self.origin}/{path}"

    def asked(self):
        """The header Range of every request, None where there was none."""
        return [request.headers.get("range") for request in self.requests]

    @contextlib.contextmanager
    def running(self):
        listener = Listener(self._answer)
        self.origin = listener.origin
        try:
            yield self
        finally:
            listener.close()
        assert not listener.crashes, listener.crashes

    def _answer(self, call):
        self.requests.append(call.request)
        fault = self.faults.popleft() if self.faults else None
        if fault == "no answer":
            raise HangUpError
        if fault in (404, 429, 503):
            return Answer(fault, b"no")
        if isinstance(fault, str):
            return Answer(302, b"", {"Location": fault})
        answer = self._serve(call)
        answer.cut = fault
        return answer

    def _serve(self, call):
        data = self.files.get(call.request.path.lstrip("/"))
        if data is None:
            return Answer(404, b"no such file")
        asked = re.fullmatch(r"bytes=(\d+)-", call.request.headers.get("range", ""))
        if asked is None or not self.ranges:
            return Answer(200, data, dict(self.headers))
        start = int(asked[1])
        if start >= len(data) or self.refuses_ranges:
            return Answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        start += self.shifted
        place = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        return Answer(206, data[start:], place | self.headers)
