"""Retries requests to the Hub after transient errors, and explains permanent ones in one sentence.

huggingface_hub retries uploads and listings by itself, but nearly no other request: whoami, creating or describing a
repository, listing and setting tags, validating a card, committing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
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

_ADVICE = {
    401: "Give a valid token with `hf auth login` or HF_TOKEN.",
    403: "Use a token with write access there, or another --repo.",
    404: "Check the name, and that the token may see it.",
    412: "Run the same command again; it merges with what was published meanwhile.",
    413: "Publish fewer splits at a time with --splits.",
}
_RESUME = "Run the same command again; it resumes."


class ChecksumError(Exception):
    """A downloaded file differs from the one that the Hub lists; the message names it."""


def with_retries(doing: str, call: Callable[[], T], log: Log, *, unreached: str = "") -> T:
    """Call until it succeeds, fails permanently, or has failed too often.

    `doing`: the attempted action, to follow "Cannot".
    `unreached`: advice for a first request, after which nobody waits if no connection can be opened: the name may
    be a mistyped path.

    Raises:
        BuildError: the error is permanent, or there were too many, or the answer is malformed.
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
            lost = unreached and any(isinstance(link, httpx.ConnectError) for link in _chain(error))
            pause = None if wait is None or lost else _delay(error, wait)
            if pause is None:
                raise BuildError(_message(doing, error, unreached if lost else "")) from error
            log(f"{_reason(error)}; trying again in {pause:g} s to {doing}")
            sleep(pause)
    raise AssertionError("the last try returns or raises")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes: the client wraps errors in RuntimeError or FileNotFoundError."""
    while error is not None:
        yield error
        error = error.__cause__


def _delay(error: BaseException, wait: float) -> float | None:
    """Return the seconds until the next attempt; None if it would fail as well."""
    for link in _chain(error):
        if isinstance(link, OfflineModeIsEnabled | LocalTokenNotFoundError):
            return None
        if isinstance(link, HfHubHTTPError):
            if link.response.status_code not in TRANSIENT_STATUSES:
                return None
            requested = _requested_delay(link)
            return None if requested > MAX_WAIT else max(wait, requested)
        # JSON errors: a load balancer answers with HTML. Python's own errors: uploads over Xet raise them.
        transient = (httpx.TransportError, json.JSONDecodeError, ConnectionError, TimeoutError, ChecksumError)
        if isinstance(link, transient):
            return wait
    return None


def _requested_delay(error: HfHubHTTPError) -> int:
    """Return the seconds that the Hub asks to wait."""
    limit = parse_ratelimit_headers(error.response.headers)
    if error.response.status_code == HTTPStatus.TOO_MANY_REQUESTS and limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    requested = error.response.headers.get("Retry-After", "").strip()
    return int(requested[:9]) if requested.isdecimal() else 0  # 9 digits are decades; Python reads no number of 5,000


def _message(doing: str, error: BaseException, advice: str) -> str:
    chain = list(_chain(error))
    status = next((link.response.status_code for link in chain if isinstance(link, HfHubHTTPError)), 0)
    if gated := next((link for link in chain if isinstance(link, GatedRepoError)), None):
        match = re.match("(https?://[^/]+)/(?:api/)?(datasets/[^/]+/[^/]+)/", str(gated.response.url))
        advice = (
            f"Accept its terms at {'/'.join(match.groups()) if match else 'its page on the Hub'} with your account, "
            "log in with `hf auth login` or set HF_TOKEN to a token of that account, and run the same command again."
        )
    offline = any(isinstance(link, OfflineModeIsEnabled) for link in chain)
    advice = advice or ("Unset HF_HUB_OFFLINE." if offline else _ADVICE.get(status, _RESUME))
    return f"Cannot {doing}: {_reason(error).rstrip('.')}. {advice}"


def _reason(error: BaseException) -> str:
    """Return the cause of an error, without signed URLs, tokens and paths."""
    token = get_token()
    reason = _cause(error)
    return one_line(reason.replace(token, "[token]") if token else reason)  # the client's messages quote the answer


def _cause(error: BaseException) -> str:
    for link in _chain(error):
        if isinstance(link, HfHubHTTPError):
            return _response_reason(link)
        if isinstance(link, OfflineModeIsEnabled):
            return "the client is set to stay offline"
        if isinstance(link, LocalTokenNotFoundError):
            return "no token"
        if isinstance(link, httpx.TimeoutException):
            return "no answer in time"
        if isinstance(link, httpx.TransportError | ConnectionError | TimeoutError):
            return f"no connection to the Hub ({type(link).__name__})"
        if isinstance(link, UnicodeError):
            return "text that cannot be encoded or decoded"  # its message quotes the text
        if isinstance(link, json.JSONDecodeError):
            return "the answer is not JSON"
        if isinstance(link, OSError) and link.strerror:
            return link.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _response_reason(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    phrases = {entry.value: entry.phrase for entry in HTTPStatus}
    explanation = " ".join((error.server_message or "").split())[:_MAX_EXPLANATION]
    # HTML of a load balancer, or XML of the storage, which would repeat a signed URL.
    explanation = "" if explanation.startswith("<") else explanation
    answer = f"the Hub answered {status} {phrases.get(status, '')}".rstrip()
    requested = _requested_delay(error)
    wait = f" and asks to wait {requested:,} s" if status in TRANSIENT_STATUSES and requested > MAX_WAIT else ""
    return f"{answer}{wait}" + (f" ({explanation.rstrip('.')})" if explanation else "")
