"""The fixture that fails a test which reaches for another host. A conftest.py or test module imports it by name."""

import pytest

from tests.hub import loopback


@pytest.fixture
def only_loopback(tmp_path, monkeypatch):
    """No connection leaves the machine, from this process or from subprocesses that get `Hub.environment`.

    An attempt is refused on the spot. It also fails the test when that ends, with the host's name, because the clients
    swallow errors of some requests. Yields the function that lists the hosts so far.
    """
    log = tmp_path / "foreign-hosts"
    monkeypatch.setenv(loopback.LOG, str(log))
    with loopback.watching(log):
        yield lambda: loopback.refused(log)
    hosts = loopback.refused(log)
    if hosts:
        pytest.fail(f"connections were attempted to {', '.join(hosts)}", pytrace=False)
