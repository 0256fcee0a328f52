"""Retries requests to the Hub after transient errors, and explains permanent ones in one sentence.

huggingface_hub retries uploads and listings by itself, but nearly no other request: whoami, creating or describing a
repository, listing and setting tags, validating a card, committing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from time import sleep
from typing import TypeVar

from huggingface_hub import get_token
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled
from huggingface_hub.utils import httpx, parse_ratelimit_headers  # type: ignore[attr-defined]

from builders.errors import BuildError, one_line

T = TypeVar("T")
Log = Callable[[str], object]
"""Prints one progress line."""

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds before each retry: a minute in all, which outlasts a restart behind a load balancer."""

MAX_WAIT = 300
"""Seconds. The Hub limits requests per window of five minutes, so it never needs a longer wait."""

TRANSIENT_STATUSES = (408, 429, 500, 502, 503, 504)
"""The status codes that huggingface_hub itself retries (`utils.http_backoff`)."""

MALFORMED = (KeyError, IndexError, TypeError, AttributeError)
"""Exceptions of huggingface_hub 1.x for an answer that is JSON but lacks a field, or has another type there."""

_MAX_EXPLANATION = 200
"""Characters of the Hub's own explanation that a message repeats."""

_BUSY = "in progress"
"""What a 409 says of another operation that the Hub lets end first: it takes one commit of a repository at a time
(`Another commit operation is in progress for this repository`, evaleval/every_eval_ever #263)."""

_ADVICE = {
    401: "Give a valid token with `hf auth login` or HF_TOKEN.",
    402: "Look at the account's plan and storage there.",
    403: "Use a token that may do so, or another repository.",
    404: "Check the name, and that the token may see it.",
    412: "Run the same command again; it merges with what was published meanwhile.",
    413: "Publish fewer splits at a time with --splits.",
}
_RESUME = "Run the same command again; it resumes."


class ChecksumError(Exception):
    """A download that differs from the file that the Hub lists; the message names it."""


def with_retries(doing: str, call: Callable[[], T], log: Log, *, unreached: str = "") -> T:
    """Repeat a call until it succeeds; a permanent or too frequent failure is a `BuildError`.

    `doing`: the attempted action, to follow "Cannot".
    `unreached`: advice for a first request, after which nobody waits if no connection can be opened: the name may
    be a mistyped path.
    """
    for wait in (*WAITS, None):
        try:
            return call()
        except MALFORMED as error:
            raise BuildError(
                f"Cannot {doing}: the Hub's answer lacks what its client reads there ({type(error).__name__}). Update "
                "huggingface_hub, and run the same command again."
            ) from error
        except (HfHubHTTPError, httpx.HTTPError, OSError, RuntimeError, ValueError, ChecksumError) as error:
            chain = list(_chain(error))
            lost = unreached and any(isinstance(link, httpx.ConnectError) for link in chain)
            reason, least = _cause(chain)
            token = get_token()
            reason = one_line(reason.replace(token, "[token]") if token else reason)  # the client quotes answers
            if wait is None or least is None or lost:
                advice = unreached if lost else _advice(chain)
                raise BuildError(f"Cannot {doing}: {reason.rstrip('.')}. {advice}") from error
            pause = max(wait, least)
            log(f"{reason}; trying again in {pause:g} s to {doing}")
            sleep(pause)
    raise AssertionError("the last try returns or raises")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes: the client wraps errors in RuntimeError or FileNotFoundError."""
    while error is not None:
        yield error
        error = error.__cause__


_CAUSES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, float | None], ...] = (
    (OfflineModeIsEnabled, "the client is set to stay offline", None),
    (LocalTokenNotFoundError, "no token", None),
    (httpx.TimeoutException, "no answer in time", 0),
    # Python's own errors: uploads over Xet raise them.
    ((httpx.TransportError, ConnectionError, TimeoutError), "no connection to the Hub ({})", 0),
    (UnicodeError, "text that cannot be encoded or decoded", None),  # its message quotes the text
    (json.JSONDecodeError, "the answer is not JSON", 0),  # a load balancer answers with HTML
)
"""Errors with the words for them, and the least seconds to wait before the next attempt; None where it would fail."""


def _cause(chain: Sequence[BaseException]) -> tuple[str, float | None]:
    """Return the words for an error, without signed URLs and paths, and the least seconds to wait as in `_CAUSES`."""
    for link in chain:
        if (status := _status(link)) is not None:
            return _answer(link, status)
        for kinds, words, least in _CAUSES:
            if isinstance(link, kinds):
                return words.format(type(link).__name__), least
        if isinstance(link, ChecksumError):
            return str(link), 0
        if isinstance(link, OSError) and link.strerror:
            return link.strerror, None
    return " ".join(str(chain[0]).split()) or type(chain[0]).__name__, None


_XET_STATUS = re.compile(r"HTTP status (?:client|server) error \((\d{3})\b")
"""The status of an answer in the message of hf_xet (1.8), which raises Python's own errors, for a refusal, too."""


def _status(error: BaseException) -> int | None:
    """Return the status of the Hub's answer; None for an error that is none."""
    if isinstance(error, HfHubHTTPError):
        return int(error.response.status_code)
    match = _XET_STATUS.search(str(error))
    return int(match[1]) if match else None


def _answer(error: BaseException, status: int) -> tuple[str, float | None]:
    said = (error.server_message or "") if isinstance(error, HfHubHTTPError) else ""
    requested = _requested_delay(error) if isinstance(error, HfHubHTTPError) else 0
    phrases = {entry.value: entry.phrase for entry in HTTPStatus}
    words = f"the Hub answered {status} {phrases.get(status, '')}".rstrip()
    is_busy = status == HTTPStatus.CONFLICT and _BUSY in said
    transient = is_busy or status in TRANSIENT_STATUSES
    if transient and requested > MAX_WAIT:
        words += f" and asks to wait {requested:,} s"
    explanation = " ".join(said.split())[:_MAX_EXPLANATION]
    # Not HTML of a load balancer, or XML of the storage, which would repeat a signed URL.
    if explanation and not explanation.startswith("<"):
        words += f" ({explanation.rstrip('.')})"
    return words, requested if transient and requested <= MAX_WAIT else None


def _requested_delay(error: HfHubHTTPError) -> int:
    """Return the seconds that the Hub asks to wait."""
    limit = parse_ratelimit_headers(error.response.headers)
    if error.response.status_code == HTTPStatus.TOO_MANY_REQUESTS and limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    requested = error.response.headers.get("Retry-After", "").strip()
    return int(requested[:9]) if requested.isdecimal() else 0  # 9 digits are decades; Python reads no number of 5,000


def _advice(chain: Sequence[BaseException]) -> str:
    for link in chain:
        if isinstance(link, GatedRepoError):
            match = re.match("(https?://[^/]+)/(?:api/)?(datasets/[^/]+/[^/]+)/", str(link.response.url))
            return (
                f"Accept its terms at {'/'.join(match.groups()) if match else 'its page on the Hub'} with your "
                "account, log in with `hf auth login` or set HF_TOKEN to a token of that account, and run the same "
                "command again."
            )
        if (status := _status(link)) is not None:
            return _ADVICE.get(status, _RESUME)
        if isinstance(link, OfflineModeIsEnabled):
            return "Unset HF_HUB_OFFLINE."
    return _RESUME
