"""Evaluate detectors of unknowns on releases, as a stranger would: metrics, detectors, protocols, reports."""
