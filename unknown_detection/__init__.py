"""The command `unknown-detection`: what it is made of, by name, and how all commands show their help."""

from unknown_detection.terminal import interrupts

interrupts.watch_imports(__name__)
