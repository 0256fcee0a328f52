"""Object storage: moto's S3, which the tests use, with a bucket and a proxy for each trial."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_numbers = itertools.count()


@dataclass
class StorePlace:
    """A bucket of a running store, behind a proxy of its own.

    Attributes:
        server: the store (`tests.store.server.Store`).
        proxy: the proxy that commands talk to (`tests.store.proxy.Proxy`).
        bucket: the bucket whose objects are compared.
    """

    server: Any
    proxy: Any
    bucket: str = field(default_factory=lambda: f"soak-{next(_numbers)}")

    @property
    def address(self) -> str:
        """The address of the release."""
        return f"s3://{self.bucket}/some/release"

    def environment(self) -> dict[str, str]:
        """Return the environment variables by which a command finds it."""
        variables: dict[str, str] = self.server.environment(self.proxy.url)
        return variables

    def put(self, release: Path) -> None:
        """Upload a release."""
        client = self.server.client
        for path in sorted(path for path in release.rglob("*") if path.is_file()):
            client.pipe_file(f"{self.bucket}/some/release/{path.relative_to(release).as_posix()}", path.read_bytes())

    def outcome(self) -> dict[str, str]:
        """Return the digest of every object, and the uploads that are neither complete nor aborted."""
        digests = {
            f"s3/{name}": hashlib.sha256(data).hexdigest() for name, data in self.server.files(self.bucket).items()
        }
        return digests | {f"s3 upload of {name}": "" for name in self.server.uploads(self.bucket)}

    def requests(self) -> tuple[str, ...]:
        """Return the kinds of its requests, in order."""
        return tuple(request.kind for request in self.proxy.requests)


def has_stores() -> bool:
    """Whether the packages that a store and its clients need are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("moto", "s3fs", "upath"))


@contextlib.contextmanager
def running_store() -> Iterator[Any]:
    """Yield a store on a free port; None where its packages are missing."""
    if not has_stores():
        yield None
        return
    from tests.store.server import running

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it names every request
    with running() as store:
        yield store


@contextlib.contextmanager
def new_store_place(server: Any) -> Iterator[StorePlace]:
    """Yield a new bucket behind a proxy."""
    from tests.store.proxy import proxied

    with proxied(server.port) as proxy:
        place = StorePlace(server, proxy)
        server.client.mkdir(place.bucket)
        try:
            yield place
        finally:
            server.client.rm(place.bucket, recursive=True)
