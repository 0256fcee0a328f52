"""The format of a release folder, as builders, publishing and verifying share it."""
