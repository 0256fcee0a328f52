"""Writes small made-up copies of every source: `python -m builders.commands.demo`."""
