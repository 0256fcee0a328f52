"""The formats of `export`, and the files that it writes."""
