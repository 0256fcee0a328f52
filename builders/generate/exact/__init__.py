"""Generators whose images are the same on every machine: resized and corrupted images, deciphered ones, noise."""
