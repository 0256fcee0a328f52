"""Parsers of container formats, which trust nothing that a file says of itself."""
