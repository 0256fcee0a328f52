"""Describes a release to readers: the dataset card, Croissant metadata, and sample images."""
