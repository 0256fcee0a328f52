"""Reads and writes files, on this machine or in a store; also deciphers the cipher whose key is a file."""
