"""Rebuilds published unknown-detection benchmarks from a person's own copies of the source datasets."""

from unknown_detection.terminal import interrupts

interrupts.watch_imports(__name__)
