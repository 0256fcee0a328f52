"""Turns exceptions of the clients of stores into messages for users."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any

from builders.errors import BuildError, one_line

_CLIENTS = {
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "aiohttp.client_exceptions": ("ClientError",),
    "google.auth.exceptions": ("GoogleAuthError",),
    "gcsfs.retry": ("HttpError",),
}
"""Exceptions of clients that are no OSError, by the modules that define them."""

_NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
    "SSOTokenLoadError",
    "TokenRetrievalError",
    "UnauthorizedSSOTokenError",
    "DefaultCredentialsError",
    "RefreshError",
}
_REFUSED = {
    "AccessDenied",
    "AllAccessDisabled",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "401",
    "403",
}
EMPTY = {"InvalidRange", "416"}
"""Codes of the answer to a request for the first byte of an empty file."""

NO_BUCKET = "there is no such bucket, or none that these credentials can see. Create it, or correct the address."

_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412"}


class ChangedMeanwhileError(BuildError):
    """Another process changed a file after it was read."""

    def __init__(self, address: object) -> None:
        super().__init__(
            f"Another run changed {address} at the same time. Run the same command again; it resumes, and keeps what "
            "both have written."
        )


@contextlib.contextmanager
def store_errors(doing: str, address: object) -> Iterator[None]:
    """Turn exceptions of a store's client into `BuildError`, except for a file that does not exist."""
    try:
        yield
    except client_errors() as error:
        absent = isinstance(error, FileNotFoundError | NotADirectoryError) and code_of(error) != "NoSuchBucket"
        if absent and doing != "write":  # a write fails so only where there is no bucket
            raise os_error(errno.ENOENT, address) from error
        raise BuildError(f"Cannot {doing} {address}: {_reason(error)}") from error


def os_error(number: int, address: object) -> OSError:
    """Return the error that a file system would raise for a path, of the subclass for this error number."""
    return OSError(number, os.strerror(number), str(address))


def client_errors() -> tuple[type[BaseException], ...]:
    """Return the exception types of all imported clients, and those of the operating system."""
    errors: list[type[BaseException]] = [OSError]
    for module, names in _CLIENTS.items():
        if module in sys.modules:
            errors += [getattr(sys.modules[module], name) for name in names]
    if "gcsfs.retry" in sys.modules:
        errors.append(ValueError)  # gcsfs's for some answers with 400
    return tuple(errors)


def is_change(error: BaseException) -> bool:
    """Whether a store refused a conditional write because the file was changed, made or removed since it was read."""
    return code_of(error) in _CHANGED or isinstance(error, FileExistsError | FileNotFoundError)


def _reason(error: BaseException) -> str:
    """Return why a request failed and what to do, without a capital: `the store refused ... Check that ... .`."""
    code, names = code_of(error), {kind.__name__ for cause in _chain(error) for kind in type(cause).__mro__}
    if names & _NO_CREDENTIALS:
        return (
            f"no credentials were found ({one_line(error)}). Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or for gs:// GOOGLE_APPLICATION_CREDENTIALS, and run the same command again."
        )
    if code == "NoSuchBucket" or isinstance(error, FileNotFoundError):
        return NO_BUCKET
    if code in _REFUSED or isinstance(error, PermissionError) or str(error).startswith("Forbidden: "):  # gcsfs's
        detail = f" ({code})" if code else ""
        return f"the store refused these credentials{detail}. Check them, and what they may do in this bucket."
    if code in _CHANGED or "FileExpired" in names:
        return "it changed while it was read. Run the same command again; it resumes."
    text = one_line(error).strip(", .")
    text = f"the store answered {code}" if text == code else text  # gcsfs's, where an answer has no text
    return (
        f"{text}. Check the network and the settings of the store (AWS_REGION, for one that is not Amazon's "
        "AWS_ENDPOINT_URL), and run the same command again; it resumes."
    )


def code_of(error: BaseException) -> str:
    """Return the code in a store's answer, such as NoSuchBucket or 403; empty if there is none."""
    for cause in _chain(error):
        answer: Any = getattr(cause, "response", None)
        if isinstance(answer, dict):
            return str(answer.get("Error", {}).get("Code", ""))
        if type(cause).__name__ == "HttpError":
            return str(getattr(cause, "code", ""))
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
