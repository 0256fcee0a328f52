"""What the tests of the stand-in publish, and how."""

import hashlib

from huggingface_hub import CommitOperationAdd

REPO = "org/name"
TEXT = b"plain words\n"
CARD = b"---\nlicense: mit\n---\n# Card\n"
BINARY = bytes(range(256)) * 20
SHA256 = hashlib.sha256(BINARY).hexdigest()
LARGE = bytes(range(256)) * 20_000
LARGE_SHA256 = hashlib.sha256(LARGE).hexdigest()

# What http_backoff of huggingface_hub waits, in seconds, where no header says otherwise; it tries once more than that.
BACKOFF = [1, 2, 4, 8, 8]


def publish(api, files, *, message="publish", **kwargs):
    """One commit to REPO of contents, or paths of files, by their path in it."""
    operations = [CommitOperationAdd(path, data) for path, data in files.items()]
    return api.create_commit(REPO, operations, commit_message=message, repo_type="dataset", **kwargs)
