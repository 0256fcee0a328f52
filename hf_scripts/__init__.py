"""A release folder and the Hub."""

from unknown_detection.terminal import interrupts

interrupts.watch_imports(__name__)
