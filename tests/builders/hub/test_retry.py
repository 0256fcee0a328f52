"""What is tried again, how long is waited, and what a person reads at the end, error by error."""

import json
from http import HTTPStatus

import pytest
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled
from huggingface_hub.utils import httpx

from builders.errors import BuildError
from builders.hub.retry import MAX_WAIT, WAITS, ChecksumError, with_retries
from tests.sentences import stops

SECRET = "https://storage.example.org/object?signature=hf_secret"


def answered(status, *, headers=None, message=None):
    response = httpx.Response(status, headers=headers, request=httpx.Request("PUT", SECRET))
    return HfHubHTTPError(f"{status} Error for url: {SECRET}", response=response, server_message=message)


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.fixture
def naps(monkeypatch):
    seconds = []
    monkeypatch.setattr("builders.hub.retry.sleep", seconds.append)
    return seconds


def failing(*errors, result="done"):
    """A call that raises these one after the other, and then returns."""
    remaining = list(errors)

    def call():
        if remaining:
            raise remaining.pop(0)
        return result

    return call


def sentence(error, times=1):
    with pytest.raises(BuildError) as caught:
        with_retries("do it", failing(*[error] * times), lambda line: None)
    assert "secret" not in str(caught.value)
    return str(caught.value)


TRANSIENT = {
    **{str(status): answered(status) for status in (408, 429, 500, 502, 503, 504)},
    "no connection": httpx.ConnectError("refused"),
    "hung up": httpx.RemoteProtocolError("gone"),
    "silent": httpx.ReadTimeout("late"),
    "no JSON": json.JSONDecodeError("x", "<html>", 0),
    "an upload": caused(RuntimeError("Error while uploading 'a' to the Hub."), answered(503)),
    "no metadata": caused(FileNotFoundError("cannot find the file"), httpx.ConnectError("refused")),
    "damage": ChecksumError("other bytes of a than the Hub lists"),
    "Xet": ConnectionError("reset"),
    "an answer to Xet": ConnectionError("Server error: HTTP status server error (503 Service Unavailable), domain: x"),
    "another commit": answered(409, message="Another commit operation is in progress for this repository."),
}
FINAL = {
    **{str(status): answered(status) for status in (400, 401, 403, 404, 409, 412, 413)},
    "an upload": caused(RuntimeError("Error while uploading 'a' to the Hub."), answered(403)),
    "a refusal of Xet": ConnectionError("Network error: HTTP status client error (403 Forbidden), domain: x"),
    "offline": OfflineModeIsEnabled("offline"),
    "no token": LocalTokenNotFoundError("no token"),
    "disk": OSError(28, "No space left on device"),
    "an answer of another form": ValueError("preupload_info is improperly formatted"),
}


@pytest.mark.parametrize("name", TRANSIENT)
def test_errors_that_pass_are_tried_again_but_not_for_ever(naps, name):
    lines = []
    assert with_retries("do it", failing(TRANSIENT[name], TRANSIENT[name]), lines.append) == "done"
    assert naps == list(WAITS[:2])
    notes = [line.partition("; ")[2] for line in lines]
    assert notes == [f"trying again in {wait:g} s to do it" for wait in WAITS[:2]]
    assert "secret" not in "".join(lines)
    naps.clear()
    text = sentence(TRANSIENT[name], len(WAITS) + 1)
    assert text.startswith("Cannot do it: ") and text.endswith(". Run the same command again; it resumes.")
    assert naps == list(WAITS)


@pytest.mark.parametrize("name", FINAL)
def test_errors_that_stay_are_not(naps, name):
    assert sentence(FINAL[name]).startswith("Cannot do it: ")
    assert naps == []


def test_what_is_no_error_of_the_hub_is_ours():
    with pytest.raises(ZeroDivisionError):
        with_retries("do it", failing(ZeroDivisionError()), lambda line: None)
    with stops(BuildError):
        with_retries("do it", failing(BuildError("as it is")), lambda line: None)


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        (429, {"Retry-After": "20"}, 20),
        (503, {"Retry-After": "20"}, 20),
        (429, {"Retry-After": "0"}, 1),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 1),
        (429, {"RateLimit": '"api";r=0;t=55'}, 55),
        (429, {"RateLimit": '"api";r=3;t=55'}, 1),
        (503, {"RateLimit": '"api";r=0;t=55'}, 1),
        (429, {"Retry-After": str(MAX_WAIT)}, MAX_WAIT),
    ],
)
def test_waits_that_the_hub_asks_for(naps, status, headers, wait):
    with_retries("do it", failing(answered(status, headers=headers)), lambda line: None)
    assert naps == [wait]


@pytest.mark.parametrize(
    ("requested", "shown"),
    [(str(MAX_WAIT + 1), "301"), ("9" * 5_000, "999,999,999")],
    ids=["a second more", "5,000 digits"],
)
def test_a_wait_that_is_too_long_is_said(requested, shown, naps):
    text = sentence(answered(429, headers={"Retry-After": requested}))
    assert text.startswith(f"Cannot do it: the Hub answered 429 Too Many Requests and asks to wait {shown} s. Run")
    assert naps == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (answered(413, message="Too large."), f": the Hub answered 413 {HTTPStatus(413).phrase} (Too large). Publish"),
        (answered(403, message="no write  access"), ": the Hub answered 403 Forbidden (no write access). Use a token"),
        (answered(401), ": the Hub answered 401 Unauthorized. Give a valid token"),
        (answered(400, message="<Error><StringToSign>secret"), ": the Hub answered 400 Bad Request. Run the same"),
        (answered(499), ": the Hub answered 499. Run"),
        (OfflineModeIsEnabled("x"), ": the client is set to stay offline. Unset HF_HUB_OFFLINE."),
        (UnicodeEncodeError("ascii", "Bearer hf_sécret", 11, 12, "not in range"), ": text that cannot be encoded or"),
        (OSError(28, "No space left on device", "/private/path"), ": No space left on device. Run"),
        (ValueError("Invalid metadata in README.md.\n- no such licence"), ": Invalid metadata in README.md. - no"),
    ],
)
def test_what_a_person_reads(naps, error, words):
    text = sentence(error)
    assert words in text
    assert "/private" not in text
    assert "\n" not in text


def test_control_characters_of_an_answer_do_not_reach_the_terminal():
    for error in (ValueError("Cannot parse '\x1b[2J'"), answered(400, message="\x1b[2Jall is well")):
        assert sentence(error).isprintable()
        assert "\\x1b[2J" in sentence(error)
