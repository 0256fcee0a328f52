"""One command a file: flags, and a call of what does the work."""
