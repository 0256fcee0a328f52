"""The commands of `python -m evaluation`, one per file: options, and calls of the library."""
