"""Detectors: each computes a score per row; higher scores mean more unknown."""
