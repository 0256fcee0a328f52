"""Object storage (s3://, gs:// and other filesystems of fsspec): paths, byte ranges, conditional writes, errors."""
