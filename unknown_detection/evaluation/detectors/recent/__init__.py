"""Detectors of 2023 and later, a file each; the folder above lists them."""
