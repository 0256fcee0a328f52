"""Writing shards: where the images of a plan lie, and the files that they go into."""
