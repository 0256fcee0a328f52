"""Finding images that repeat or nearly repeat each other."""
