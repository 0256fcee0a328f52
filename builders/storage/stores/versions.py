"""Replaces a file in a store only if it has not changed since it was read, so that no change is lost without a lock.

S3 and stores like it check this themselves (`If-Match`, `If-None-Match`). gcsfs can refuse to replace a file.
Otherwise the version is requested again just before the file is written, which leaves the moment between.
"""

from __future__ import annotations

from builders.storage.stores.errors import ChangedMeanwhileError, client_errors, is_change, store_errors
from builders.storage.stores.listings import change_error, version_in
from builders.storage.stores.path import StorePath, filesystem_of

ABSENT = ""
"""The version of a file that does not exist."""


def current_version(path: StorePath) -> str:
    """Return the version of a file as `version_in` does; `ABSENT` if there is none."""
    info = path.info()
    return ABSENT if info is None or info["type"] != "file" else version_in(info)


def refuse_changed(address: str, listed: str) -> None:
    """Check that a file still has the version that was listed.

    Raises:
        BuildError: it has another one, or the store refuses or fails.
        FileNotFoundError: it is no longer there.
    """
    fs = filesystem_of(address)
    with store_errors("look at", address):
        info = fs.info(fs._strip_protocol(address))
    if version_in(info) != listed:
        raise change_error(address)


def replace(path: StorePath, data: bytes, before: str) -> None:
    """Write a file if it still has the version that was read.

    Raises:
        ChangedMeanwhileError: it has another.
        BuildError: the store refuses or fails.
    """
    try:
        if path.protocol in ("s3", "s3a"):
            condition = {"IfNoneMatch": "*"} if before == ABSENT else {"IfMatch": before}
            path.write(data, **condition)
        else:
            if current_version(path) != before:
                raise ChangedMeanwhileError(path)
            if before == ABSENT and path.protocol in ("gs", "gcs"):
                path.write(data, mode="create")
            else:
                path.write(data)
    except client_errors() as error:
        if not is_change(error):
            with store_errors("write", path):
                raise
        # A request that came through is sent again where its answer was cut, and then finds what it wrote itself.
        if path.info() is None or path.read_bytes() != data:
            raise ChangedMeanwhileError(path) from error
