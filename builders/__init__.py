"""Rebuilds published unknown-detection benchmarks from a person's own copies of the source datasets."""

from terminal import interrupts

interrupts.watch_imports(__name__)
