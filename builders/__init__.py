"""Rebuilds published unknown-detection benchmarks from a person's own copies of the source datasets."""

import unknown_detection.starting  # noqa: F401  from here on, Ctrl-C is no traceback
