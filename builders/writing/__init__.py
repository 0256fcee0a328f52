"""Writes the shards of a plan: locates the images' bytes, and copies them into Parquet files."""
