"""Settings of the filesystems of stores: attempts, timeouts, and no cache of listings.

Tested by `tests/builders/storage/stores/test_errors.py`.
"""

from __future__ import annotations

from typing import Any

ATTEMPTS = 5
"""How often botocore sends a request that a store answers with 500 or 503 or cuts: about 8 seconds of waiting between
(ours; botocore's mode `standard` waits a random part of 1, 2, 4, ... seconds)."""

PROBE_ATTEMPTS = 2
"""How often it sends the first request, whose failure is reported at once."""

CUTS = 3
"""How often s3fs asks where an answer is cut in the middle (ours; its default of 5 multiplies `ATTEMPTS`)."""

CONNECT_SECONDS, READ_SECONDS = 5, 60
"""Timeouts of a connection and of an answer's next bytes (ours)."""

READ_AHEAD = 1 << 20
"""Bytes that are read beyond what is asked for (ours): the small columns behind the images of a row group."""

READ_WHOLE = 8 << 20
"""Bytes that are read at a time of a file that is read from its start to its end (ours)."""

TOGETHER = 32
"""Connections of a process: 32 requests in 35 ms are 900 images a second, more than a core decodes (ours)."""

UPLOAD_PART = 16 << 20
"""Bytes of a part of a multipart upload (ours); files up to twice of it are one request. S3 takes 10,000 parts."""

UPLOADED_TOGETHER = 4
"""Parts that are sent at the same time, all of which are in memory."""


def options(protocol: str, attempts: int | None = None) -> dict[str, Any]:
    """Return keyword arguments of a protocol's filesystem; its client takes credentials from the environment.

    Listings are not cached: other processes write to the same folder.
    """
    keywords: dict[str, Any] = {"use_listings_cache": False}
    if protocol in ("s3", "s3a"):
        keywords["max_concurrency"] = UPLOADED_TOGETHER
        keywords["config_kwargs"] = {
            "max_pool_connections": TOGETHER,
            "retries": {"mode": "standard", "total_max_attempts": attempts or ATTEMPTS},
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
        }
    return keywords
