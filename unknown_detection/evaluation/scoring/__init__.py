"""Fitting detectors, scoring rows, and scores files."""
