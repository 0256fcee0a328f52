"""Detectors of 2023 and later that share no part with a family of the folder above, a file each."""
