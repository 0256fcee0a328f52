"""What the stand-in sends back."""

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Answer:
    """One response. The body is `body`, or the bytes `start` to `stop` of `file`, which never lie in memory whole."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    file: Path | None = None
    start: int = 0
    stop: int = 0
    cut: int | None = None
    """Hang up after so many bytes of the body."""
    flip: bool = False
    """Damage the first byte of the body."""

    @property
    def length(self) -> int:
        return self.stop - self.start if self.file else len(self.body)


class RefusedError(Exception):
    """A request is answered with an error."""

    def __init__(self, status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None):
        super().__init__(message)
        # The Hub says why in headers as well as in the body, so that answers to HEAD say it too.
        line = " ".join(message.split()).encode("ascii", "replace").decode()
        headers = {"X-Error-Message": line, **(headers or {})}
        if code:
            headers["X-Error-Code"] = code
        self.answer = json_answer({"error": message}, status, headers)


class HangUpError(Exception):
    """The connection is closed without an answer."""


def json_answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    body = json.dumps(value).encode()
    return Answer(status, body, {"Content-Type": "application/json; charset=utf-8", **(headers or {})})


def repo_not_found(*, anonymous: bool) -> RefusedError:
    # To strangers a private repository does not exist. Without a token the status is 401. The clients turn that into
    # RepositoryNotFoundError by the URL where it starts with https:// and by the code elsewhere, as here.
    if anonymous:
        return RefusedError(401, "Invalid username or password.", "RepoNotFound")
    return RefusedError(404, "Repository not found", "RepoNotFound")


def revision_not_found(revision: str) -> RefusedError:
    return RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")


def entry_not_found(message: str = "Entry not found", headers: dict[str, str] | None = None) -> RefusedError:
    return RefusedError(404, message, "EntryNotFound", headers)


def check_card_size(hub, card: bytes) -> None:
    """Refuse a card that is too large, as the Hub does where a card is checked and where it is committed."""
    if len(card) > hub.most_card:
        # The status as reported in huggingface/datasets#7392. No report quotes the body, so these words are ours.
        raise RefusedError(413, "Payload Too Large")
