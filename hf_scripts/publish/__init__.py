"""The steps of `push`: merging releases, versions, licences, the commit, reading it back."""
