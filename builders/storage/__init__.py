"""Reads byte ranges of files, writes files atomically, and deciphers what a file is the key of."""
