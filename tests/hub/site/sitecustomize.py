"""Loaded by every Python that finds this folder on its path as it starts: keeps its connections on this machine."""

from tests.hub.loopback import install_in_subprocess

install_in_subprocess()
