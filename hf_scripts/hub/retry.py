"""Asks the Hub again where asking again helps, and ends in one sentence where it does not.

huggingface_hub repeats uploads and listings by itself, and gives up at the first error of nearly everything else: who
am I, create a repository, describe one, list and set tags, check a card, commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http import HTTPStatus
from time import sleep
from typing import TypeVar

from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled
from huggingface_hub.utils import httpx, parse_ratelimit_headers  # type: ignore[attr-defined]

from builders.errors import BuildError

T = TypeVar("T")
Log = Callable[[str], object]
"""Takes one line for the person who waits."""

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds before each further try: a minute in all, which outlasts a restart behind a load balancer."""

MAX_WAIT = 300
"""Seconds. The Hub counts requests in windows of five minutes, so nothing it asks for in good faith is longer."""

TRANSIENT_STATUSES = (408, 429, 500, 502, 503, 504)
"""Answers after which huggingface_hub tries again where it does (`utils.http_backoff`)."""

_MAX_EXPLANATION = 200
"""Characters of the Hub's own explanation that a sentence repeats."""

_ADVICE = {
    401: "give a token that is valid with `hf auth login` or HF_TOKEN",
    403: "use a token with write access there, or another --repo",
    404: "check the name, and that the token may see it",
    412: "run the same command again, which merges with what was published meanwhile",
    413: "publish fewer configs at a time with --configs",
}
_RESUME = "run the same command again, which goes on where this run stopped"


class ChecksumError(Exception):
    """What came over the network is not what the Hub lists; the message says which file."""


def with_retries(doing: str, call: Callable[[], T], log: Log) -> T:
    """Call until it succeeds, fails for good, or has failed too often.

    Args:
        doing: what is attempted, to stand after "expected to".
        call: asks the Hub once; repeating it must do no harm.
        log: told of every wait.

    Raises:
        BuildError: it failed for good or too often; anything else that `call` raises is an error of ours.
    """
    for wait in (*WAITS, None):
        try:
            return call()
        except (HfHubHTTPError, httpx.HTTPError, OSError, RuntimeError, ValueError, ChecksumError) as error:
            pause = None if wait is None else _delay(error, wait)
            if pause is None:
                raise BuildError(_message(doing, error)) from error
            log(f"{_reason(error)}; trying again in {pause:g} s to {doing}")
            sleep(pause)
    raise AssertionError("the last try returns or raises")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes: the client wraps what failed in a RuntimeError or a file not found."""
    while error is not None:
        yield error
        error = error.__cause__


def _delay(error: BaseException, wait: float) -> float | None:
    """Seconds until the next try; None where another would fail as well."""
    for link in _chain(error):
        if isinstance(link, OfflineModeIsEnabled | LocalTokenNotFoundError):
            return None
        if isinstance(link, HfHubHTTPError):
            if link.response.status_code not in TRANSIENT_STATUSES:
                return None
            asked = _requested_delay(link)
            return None if asked > MAX_WAIT else max(wait, asked)
        # A load balancer's HTML where the client expects JSON; an upload over Xet reports Python's own errors.
        passing = (httpx.TransportError, json.JSONDecodeError, ConnectionError, TimeoutError, ChecksumError)
        if isinstance(link, passing):
            return wait
    return None


def _requested_delay(error: HfHubHTTPError) -> int:
    """Seconds that an answer asks to wait."""
    limit = parse_ratelimit_headers(error.response.headers)
    if error.response.status_code == HTTPStatus.TOO_MANY_REQUESTS and limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    asked = error.response.headers.get("Retry-After", "").strip()
    return int(asked) if asked.isdecimal() else 0


def _message(doing: str, error: BaseException) -> str:
    status = next((link.response.status_code for link in _chain(error) if isinstance(link, HfHubHTTPError)), None)
    offline = any(isinstance(link, OfflineModeIsEnabled) for link in _chain(error))
    advice = "unset HF_HUB_OFFLINE" if offline else _ADVICE.get(status or 0, _RESUME)
    return f"expected to {doing}, found {_reason(error)}; {advice}."


def _reason(error: BaseException) -> str:
    """What failed, in words that hold no address with a signature, no token and no path."""
    for link in _chain(error):
        if isinstance(link, HfHubHTTPError):
            return _response_reason(link)
        if isinstance(link, OfflineModeIsEnabled):
            return "the client told to stay offline"
        if isinstance(link, LocalTokenNotFoundError):
            return "no token"
        if isinstance(link, httpx.TimeoutException):
            return "no answer in time"
        if isinstance(link, httpx.TransportError | ConnectionError | TimeoutError):
            return f"no connection to the Hub ({type(link).__name__})"
        if isinstance(link, json.JSONDecodeError):
            return "an answer that is not JSON"
        if isinstance(link, OSError) and link.strerror:
            return link.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _response_reason(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    known = {entry.value: entry.phrase for entry in HTTPStatus}
    said = " ".join((error.server_message or "").split())[:_MAX_EXPLANATION]
    # A page of a load balancer or an XML answer of the storage, which repeats what was signed, helps nobody.
    said = "" if said.startswith("<") else said
    words = f"the answer {status} {known.get(status, '')}".rstrip()
    asked = _requested_delay(error)
    wait = f", wait {asked:,} s" if status in TRANSIENT_STATUSES and asked > MAX_WAIT else ""
    return f"{words}{wait}" + (f" ({said.rstrip('.')})" if said else "")
