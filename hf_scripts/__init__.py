"""A release folder and the Hub."""

from terminal import interrupts

interrupts.watch_imports(__name__)
