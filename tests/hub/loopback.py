"""Keeps connections on this machine: whoever looks up or connects to another host gets an error and is noted.

Without pytest, because subprocesses load it too (`site/sitecustomize.py`). What it sees are Python's own sockets; a
library that opens connections outside Python, as hf_xet does, must be switched off by its own means.
"""

import contextlib
import functools
import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

# Names a file that gets a line with each host that was refused, for processes of a test to share.
LOG = "HUB_FOREIGN_HOSTS"

_logs: list[Path] = []
_lock = threading.Lock()


class ForeignHostError(AssertionError):
    """Another host was to be reached. No OSError: the clients take those for a fault of the network, and retry."""


def watch(log: Path) -> None:
    """Refuse other hosts from now on, in this process and those that it forks."""
    _install()
    _logs.append(log)


@contextlib.contextmanager
def watching(log: Path) -> Iterator[None]:
    """Refuse other hosts within a block."""
    watch(log)
    try:
        yield
    finally:
        # The hook stays, as hooks do, and lets everything pass while no log is given.
        _logs.remove(log)


def refused(log: Path) -> list[str]:
    """The hosts that were refused, each once."""
    return sorted(set(log.read_text().splitlines())) if log.exists() else []


@contextlib.contextmanager
def viewer_at_home() -> Iterator[None]:
    """Resolve datasets-server.127.0.0.1 to 127.0.0.1.

    `datasets` puts `datasets-server.` before the endpoint's host to ask for a dataset's Parquet export, which makes no
    name where the host is a number.
    """
    original = socket.getaddrinfo
    socket.getaddrinfo = _resolver(original)
    try:
        yield
    finally:
        socket.getaddrinfo = original


def install_in_subprocess() -> None:
    """What a subprocess needs, to its end."""
    watch(Path(os.environ[LOG]))
    socket.getaddrinfo = _resolver(socket.getaddrinfo)


@functools.cache
def _install() -> None:
    # Once for all: an audit hook cannot be taken away.
    sys.addaudithook(_audit)


def _resolver(original):
    def getaddrinfo(host, *args, **kwargs):
        name = host.decode() if isinstance(host, bytes) else host
        return original("127.0.0.1" if name == "datasets-server.127.0.0.1" else host, *args, **kwargs)

    return getaddrinfo


# Events of the module socket whose host comes first, and those that have a socket and then an address
# (docs.python.org, "Audit events table").
_LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
_CONTACTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}


def _audit(event: str, arguments: tuple) -> None:
    if not _logs or event not in _LOOKUPS | _CONTACTS:
        return
    if event in _LOOKUPS:
        host = arguments[0]
    elif arguments[0].family in (socket.AF_INET, socket.AF_INET6) and arguments[1]:
        host = arguments[1][0]
    else:
        return  # a Unix socket, or one that is connected already
    host = host.decode() if isinstance(host, bytes) else host
    if _is_here(host):
        return
    with _lock, _logs[-1].open("a") as log:
        log.write(f"{host}\n")
    raise ForeignHostError(f"a connection to {host} was attempted; only 127.0.0.1 may be reached")


def _is_here(host: str | None) -> bool:
    if not host or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
