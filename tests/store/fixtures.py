"""Fixtures of tests that use object storage; they skip where its packages are not installed."""

import functools
import logging
import sys

import pytest


@pytest.fixture(scope="session")
def store_server():
    """moto's S3, one a worker of pytest."""
    pytest.importorskip("moto", reason="takes moto, s3fs and universal-pathlib, of the extra `test`")
    pytest.importorskip("s3fs")
    pytest.importorskip("upath")
    from botocore.loaders import create_loader

    from tests.store.server import running

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # which prints a line for each request
    with running() as store, pytest.MonkeyPatch.context() as patch:
        # A new client takes 0.1 s to read botocore's description of S3, and there are hundreds.
        patch.setattr("botocore.session.create_loader", functools.cache(create_loader))
        yield store


@pytest.fixture
def store(store_server, monkeypatch):
    """A store, and the environment in which this process and those that it starts find it."""
    for name, value in store_server.environment().items():
        monkeypatch.setenv(name, value)
    forget_clients()
    yield store_server
    forget_clients()


@pytest.fixture
def proxy(store, monkeypatch):
    """A proxy before the store, which the environment names: it counts requests, and makes faults; nobody waits."""
    from tests.store.proxy import proxied

    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda self, context: 0)

    with proxied(store.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture(scope="session")
def google_server():
    """An emulator of Google's storage, one a worker of pytest."""
    pytest.importorskip("gcp_storage_emulator", reason="takes gcp-storage-emulator, of the extra `test`")
    pytest.importorskip("gcsfs")
    pytest.importorskip("upath")
    from tests.store.google import running

    with running() as store:
        yield store


@pytest.fixture
def google(google_server, monkeypatch):
    """Google's storage, and the environment in which this process and those that it starts find it."""
    for name, value in google_server.environment().items():
        monkeypatch.setenv(name, value)
    forget_clients()
    yield google_server
    forget_clients()


def forget_clients():
    """Drop the clients that fsspec keeps in this process, which took their endpoint and credentials from before."""
    for module, name in (("s3fs", "S3FileSystem"), ("gcsfs", "GCSFileSystem")):
        if module in sys.modules:
            getattr(sys.modules[module], name).clear_instance_cache()
