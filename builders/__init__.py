"""Rebuilds published unknown-detection benchmarks from a person's own copies of the source datasets."""
