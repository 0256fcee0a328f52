"""Reads byte ranges of files, and writes files atomically."""
