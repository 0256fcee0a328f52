"""Parsers of container formats, which believe nothing that a file says of itself."""
