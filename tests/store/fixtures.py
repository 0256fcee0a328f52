"""Fixtures of tests that use object storage; they skip where its packages are not installed."""

import logging

import pytest


@pytest.fixture(scope="session")
def store_server():
    """moto's S3, one a worker of pytest."""
    pytest.importorskip("moto", reason="takes moto, s3fs and universal-pathlib, of the extra `test`")
    pytest.importorskip("s3fs")
    pytest.importorskip("upath")
    from tests.store.server import running

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # which prints a line for each request
    with running() as store:
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
    """A proxy before the store, which the environment names: it counts requests, and makes faults."""
    from tests.store.proxy import proxied

    with proxied(store.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


def forget_clients():
    """Drop the clients that fsspec keeps in this process, which took their endpoint and credentials from before."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
