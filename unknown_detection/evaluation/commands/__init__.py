"""The commands of `python -m unknown_detection evaluate`, one per file: options, and calls of the library."""
