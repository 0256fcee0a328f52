"""Answers of a Hub to the questions that publishing and verifying ask, through the real client."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from huggingface_hub import constants

from builders.hub import retry
from builders.hub.repository import Repository
from tests.fuzz.target import Target

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "org/name"

INFO = {"id": NAME, "sha": COMMIT, "private": False, "gated": False, "tags": [], "siblings": [{"rfilename": "a"}]}
REFS = {
    "branches": [{"name": "main", "ref": "refs/heads/main", "targetCommit": COMMIT}],
    "converts": [],
    "tags": [{"name": "v1.0.0", "ref": "refs/tags/v1.0.0", "targetCommit": COMMIT}],
}
COMMITS = [
    {"id": COMMIT, "title": "Publish v1.0.0", "message": "", "authors": [], "date": "2026-11-22T04:31:26.000Z"},
]
TREE = [
    {"type": "directory", "oid": COMMIT, "size": 0, "path": "data"},
    {"type": "file", "oid": COMMIT, "size": 12, "path": "README.md"},
    {
        "type": "file",
        "oid": COMMIT,
        "size": 1234,
        "path": "data/x.parquet",
        "lfs": {"oid": "ab" * 32, "size": 1234, "pointerSize": 130},
    },
]


class _Answers(http.server.ThreadingHTTPServer):
    """A server on the loopback address that gives one answer to everything."""

    daemon_threads = True
    body = b""


class _Handler(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # else the body waits 40 ms for the delayed acknowledgement of its headers
    server: _Answers

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Say nothing."""


@functools.cache
def server() -> _Answers:
    """The server, started once in a process."""
    started = _Answers(("127.0.0.1", 0), _Handler)
    threading.Thread(target=started.serve_forever, daemon=True).start()
    return started


def asked(question: Callable[[Repository], object]) -> Callable[[Path], object]:
    """A reader that asks one question and is given the damaged answer."""

    def read(folder: Path) -> object:
        answers = server()
        answers.body = (folder / "x.json").read_bytes()
        with (
            mock.patch.object(constants, "ENDPOINT", f"http://127.0.0.1:{answers.server_address[1]}"),
            mock.patch.object(retry, "WAITS", ()),  # an answer that stays damaged is asked for once
        ):
            return question(Repository(NAME, lambda line: None))

    return read


def of_hub(name: str, answer: object, question: Callable[[Repository], object], **cases: object) -> Target:
    """The target of one question; the named cases are other answers to it."""
    encoded = {case.replace("_", " "): json.dumps(other).encode() for case, other in cases.items()}
    return Target(name, "x.json", lambda: [json.dumps(answer).encode()], asked(question), cases=lambda: encoded)


TARGETS = (
    of_hub("hub-info", INFO, lambda repository: (repository.info(), repository.commit_at("main"))),
    of_hub("hub-tags", REFS, lambda repository: repository.tags()),
    of_hub(
        "hub-history",
        COMMITS,
        lambda repository: repository.history(),
        date_with_a_control_character=[{**COMMITS[0], "date": "2026-11-22T04:3\x7f:26.000Z"}],
    ),
    of_hub("hub-tree", TREE, lambda repository: repository.tree(COMMIT)),
)
