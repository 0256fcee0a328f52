"""The stand-in of the Hub, for copies and releases that lie there."""

from tests.hub.fixtures import api, hub, naps, waits
from tests.hub.guard import only_loopback

__all__ = ["api", "hub", "naps", "only_loopback", "waits"]
