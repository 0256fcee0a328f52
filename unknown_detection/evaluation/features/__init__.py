"""Features of a release's images: extracting them once, and keeping them on disk."""
