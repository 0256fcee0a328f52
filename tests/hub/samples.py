"""What the tests of the stand-in publish, and how."""

import contextlib
import hashlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import HfHubHTTPError

REPO = "org/name"
TEXT = b"plain words\n"
CARD = b"---\nlicense: mit\n---\n# Card\n"
BINARY = bytes(range(256)) * 20
SHA256 = hashlib.sha256(BINARY).hexdigest()

SPLITS = {"alpha": ("train", "test"), "beta": ("test",)}


def publish(api, files, **kwargs):
    """One commit to REPO of contents by their path in it."""
    operations = [CommitOperationAdd(path, data) for path, data in files.items()]
    return api.create_commit(REPO, operations, repo_type="dataset", **{"commit_message": "publish", **kwargs})


@contextlib.contextmanager
def refusal(status, kind=HfHubHTTPError):
    """The error of a client that has a status as its answer."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.response.status_code == status


def rows(config, split):
    return [{"id": f"{config}-{split}-{number}", "label": number % 3} for number in range(10)]


def parquet(rows):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def release():
    """A card with two configs and a Parquet file for each split, as `hf_scripts` lays a release out."""
    card, data = ["---", "configs:"], {}
    for config, names in SPLITS.items():
        card += [f"- config_name: {config}", "  data_files:"]
        card += [f"  - {{split: {name}, path: data/{config}/{name}-*.parquet}}" for name in names]
        data |= {f"data/{config}/{name}-00000-of-00001.parquet": parquet(rows(config, name)) for name in names}
    return {"README.md": "\n".join([*card, "---", "# Card", ""]).encode(), "manifest.json": b"{}\n", **data}
