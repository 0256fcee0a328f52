"""Detectors: each gives a row a score, and a higher score means more unknown."""
