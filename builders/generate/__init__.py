"""Generates images that do not exist upstream: resized images, arrays stored as PNG, noise."""
