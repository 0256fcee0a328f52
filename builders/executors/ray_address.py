"""Checks that a Ray cluster answers at its address: `ray.init` waits for a minute where nothing does.

Tested by `tests/builders/executors/test_ray.py`.
"""

from __future__ import annotations

import os
import socket
import threading

from builders.errors import BuildError, one_line

_TIMEOUT = 3.0
"""Seconds for everything: looking up the name, connecting, and the first answer."""

_SILENCE = f"no answer within {_TIMEOUT:g} seconds"

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The beginning of an HTTP/2 connection, on which gRPC stands: a fixed text and a SETTINGS frame that is empty. The
server's first frame has to be SETTINGS, too (RFC 9113, sections 3.4 and 4.1)."""

_HEADER, _TYPE, _SETTINGS = 9, 3, 4
"""A frame's header has nine bytes; the fourth is the type, and 4 is SETTINGS (RFC 9113, sections 4.1 and 6.5)."""


def answering_address(address: str | None) -> str:
    """Return the address of a cluster that answers.

    Args:
        address: `HOST:PORT`; None takes the variable `RAY_ADDRESS`.

    Raises:
        BuildError: there is no address, or it has another form, or no gRPC server answers there in time.
    """
    address = address or os.environ.get("RAY_ADDRESS")
    if not address:
        # Results are unpickled, so whoever listens on the default port before Ray does could run code here.
        raise BuildError(
            "--executor ray needs the address of a cluster. Give the HOST:PORT that `ray start --head` printed with "
            "--ray-address or in the variable RAY_ADDRESS; on this machine it is 127.0.0.1:6379 unless chosen."
        )
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise BuildError(
            f"{one_line(address)} is no address of a Ray cluster. Give the HOST:PORT that `ray start --head` printed "
            "(the port is 6379 unless chosen) with --ray-address, and run this command on a machine of the cluster."
        )
    problem = _problem(host.strip("[]"), int(port))
    if problem:
        raise BuildError(
            f"No Ray cluster answers at {one_line(address)}: {problem}. Start one with `ray start --head`, or give "
            "the address that it printed with --ray-address."
        )
    return address


def answers(host: str, port: int) -> bool:
    """Whether a gRPC server answers at a host's port in time."""
    return not _problem(host, port)


def _problem(host: str, port: int) -> str:
    """Say in a few words why no gRPC server answers; empty if one does."""
    problems = [_SILENCE]
    # In a thread, because looking up a name cannot be given a time limit.
    asking = threading.Thread(target=lambda: problems.append(_ask(host, port)), daemon=True)
    asking.start()
    asking.join(_TIMEOUT)
    return problems[-1]


def _ask(host: str, port: int) -> str:
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT) as connection:
            if os.environ.get("RAY_USE_TLS", "0") in ("1", "true"):
                return ""  # the first bytes would be TLS's; Ray itself finds out the rest
            connection.sendall(_PREFACE)
            frame = connection.recv(_HEADER)
    except TimeoutError:
        return _SILENCE
    except OSError as error:
        return one_line(error.strerror or error)
    return "" if frame[_TYPE : _TYPE + 1] == bytes([_SETTINGS]) else "something else than Ray listens there"
