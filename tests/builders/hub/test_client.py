"""Settings of the Hub's client: set within a block, restored after it, and left alone after Ctrl-C."""

import logging

import pytest
from huggingface_hub.utils import are_progress_bars_disabled, get_session
from huggingface_hub.utils import logging as hub_logging

from builders.hub.client import CONNECT_TIMEOUT, READ_TIMEOUT, hub_settings
from unknown_detection.terminal.interrupts import Stopped


@pytest.fixture(autouse=True)
def _restored():
    yield
    hub_logging.set_verbosity_warning()
    with hub_settings():
        pass


def test_the_settings_hold_within_the_block_alone():
    before = hub_logging.get_verbosity(), are_progress_bars_disabled()
    with hub_settings():
        inside = get_session()
        assert (inside.timeout.connect, inside.timeout.read) == (CONNECT_TIMEOUT, READ_TIMEOUT)
        assert hub_logging.get_verbosity() == logging.ERROR
    assert inside.is_closed
    assert (hub_logging.get_verbosity(), are_progress_bars_disabled()) == before


def test_threads_that_ctrl_c_leaves_behind_keep_their_connections_and_stay_silent():
    with pytest.raises(Stopped), hub_settings():
        session = get_session()
        raise Stopped
    assert not session.is_closed
    assert hub_logging.get_verbosity() == logging.ERROR
