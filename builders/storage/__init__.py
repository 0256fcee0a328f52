"""Reading byte ranges of files, and writing files atomically."""
