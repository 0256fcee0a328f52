"""What detectors, metrics and training cost."""
