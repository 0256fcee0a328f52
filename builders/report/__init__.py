"""Writes one HTML page about a release: `python -m builders.commands.report`."""
