"""How huggingface_hub behaves within a command of ours.

Tested by `tests/hf_scripts/test_push_faults.py`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from huggingface_hub.utils import (  # type: ignore[attr-defined]
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
    httpx,
    set_client_factory,
)
from huggingface_hub.utils import logging as hub_logging

# Private to the client, and the only way to keep what its own factory sets up besides the limit that it lacks.
from huggingface_hub.utils._http import default_client_factory

CONNECT_TIMEOUT = 30.0

READ_TIMEOUT = 300.0
"""Without a byte either way. An upload may take hours, and a commit of thousands of files a minute or two before it is
answered; a server that says nothing for longer has forgotten us."""


@contextlib.contextmanager
def hub_settings() -> Iterator[None]:
    """Set a limit to every wait for an answer, and leave bars and log lines to us.

    Without this the client waits for ever, and logs the addresses that it sends to again, which hold signatures.
    """
    verbosity, bars = hub_logging.get_verbosity(), not are_progress_bars_disabled()
    hub_logging.set_verbosity(logging.ERROR)
    if bars:
        disable_progress_bars()
    set_client_factory(_client_with_timeouts)
    try:
        yield
    finally:
        set_client_factory(default_client_factory)
        hub_logging.set_verbosity(verbosity)
        if bars:
            enable_progress_bars()


def _client_with_timeouts() -> Any:
    client = default_client_factory()
    client.timeout = httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT, pool=None)
    return client
