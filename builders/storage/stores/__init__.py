"""Object storage (s3://, gs:// and other filesystems of fsspec): paths, ranges, conditional writes, errors."""
