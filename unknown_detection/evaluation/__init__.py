"""Evaluate detectors of unknowns on releases: features, detectors, metrics, protocols, reports."""
