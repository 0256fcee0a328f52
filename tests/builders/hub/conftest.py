"""The stand-in of the Hub, and nobody who waits."""

from tests.hub.fixtures import api, hub, naps, waits
from tests.hub.guard import only_loopback

__all__ = ["api", "hub", "naps", "only_loopback", "waits"]
