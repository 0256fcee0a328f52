"""Metrics of a detector's scores. Higher scores mean more unknown, everywhere."""
