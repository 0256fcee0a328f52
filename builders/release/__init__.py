"""The format of a release folder, shared by building, publishing and verifying."""
