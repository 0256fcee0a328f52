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
Say = Callable[[str], object]
"""Takes one line for the person who waits."""

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds before each further try: a minute in all, which outlasts a restart behind a load balancer."""

LONGEST_WAIT = 300
"""Seconds. The Hub counts requests in windows of five minutes, so nothing it asks for in good faith is longer."""

PASSING = (408, 429, 500, 502, 503, 504)
"""Answers after which huggingface_hub tries again where it does (`utils.http_backoff`)."""

_LONGEST_WORDS = 200
"""Characters of the Hub's own explanation that a sentence repeats."""

_ADVICE = {
    401: "give a token that is valid with `hf auth login` or HF_TOKEN",
    403: "use a token with write access there, or another --repo",
    404: "check the name, and that the token may see it",
    412: "run the same command again, which merges with what was published meanwhile",
    413: "publish fewer configs at a time with --configs",
}
_AGAIN = "run the same command again, which goes on where this run stopped"


class DamagedError(Exception):
    """What came over the network is not what the Hub lists; the message says which file."""


def patiently(doing: str, call: Callable[[], T], say: Say) -> T:
    """Call until it succeeds, fails for good, or has failed too often.

    Args:
        doing: what is attempted, to stand after "expected to".
        call: asks the Hub once; repeating it must do no harm.
        say: told of every wait.

    Raises:
        BuildError: it failed for good or too often; anything else that `call` raises is an error of ours.
    """
    for wait in (*WAITS, None):
        try:
            return call()
        except (HfHubHTTPError, httpx.HTTPError, OSError, RuntimeError, ValueError, DamagedError) as error:
            pause = None if wait is None else _pause(error, wait)
            if pause is None:
                raise BuildError(_sentence(doing, error)) from error
            say(f"{_found(error)}; trying again in {pause:g} s to {doing}")
            sleep(pause)
    raise AssertionError("the last try returns or raises")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes: the client wraps what failed in a RuntimeError or a file not found."""
    while error is not None:
        yield error
        error = error.__cause__


def _pause(error: BaseException, wait: float) -> float | None:
    """Seconds until the next try; None where another would fail as well."""
    for link in _chain(error):
        if isinstance(link, OfflineModeIsEnabled | LocalTokenNotFoundError):
            return None
        if isinstance(link, HfHubHTTPError):
            if link.response.status_code not in PASSING:
                return None
            asked = _asked_for(link)
            return None if asked > LONGEST_WAIT else max(wait, asked)
        # A load balancer's HTML where the client expects JSON; an upload over Xet reports Python's own errors.
        passing = (httpx.TransportError, json.JSONDecodeError, ConnectionError, TimeoutError, DamagedError)
        if isinstance(link, passing):
            return wait
    return None


def _asked_for(error: HfHubHTTPError) -> int:
    """Seconds that an answer asks to wait."""
    limit = parse_ratelimit_headers(error.response.headers)
    if error.response.status_code == HTTPStatus.TOO_MANY_REQUESTS and limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    asked = error.response.headers.get("Retry-After", "").strip()
    return int(asked) if asked.isdecimal() else 0


def _sentence(doing: str, error: BaseException) -> str:
    status = next((link.response.status_code for link in _chain(error) if isinstance(link, HfHubHTTPError)), None)
    offline = any(isinstance(link, OfflineModeIsEnabled) for link in _chain(error))
    advice = "unset HF_HUB_OFFLINE" if offline else _ADVICE.get(status or 0, _AGAIN)
    return f"expected to {doing}, found {_found(error)}; {advice}."


def _found(error: BaseException) -> str:
    """What failed, in words that hold no address with a signature, no token and no path."""
    for link in _chain(error):
        if isinstance(link, HfHubHTTPError):
            return _answer(link)
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


def _answer(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    known = {entry.value: entry.phrase for entry in HTTPStatus}
    said = " ".join((error.server_message or "").split())[:_LONGEST_WORDS]
    # A page of a load balancer or an XML answer of the storage, which repeats what was signed, helps nobody.
    said = "" if said.startswith("<") else said
    words = f"the answer {status} {known.get(status, '')}".rstrip()
    asked = _asked_for(error)
    wait = f", wait {asked:,} s" if status in PASSING and asked > LONGEST_WAIT else ""
    return f"{words}{wait}" + (f" ({said.rstrip('.')})" if said else "")
