"""What the real clients do when the Hub falters as they download and load: what they retry, and what they give."""

import io
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfFileSystem
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from tests.hub.samples import BACKOFF, CARD, LARGE, TEXT


@pytest.fixture
def published(hub, repo):
    hub.commit(repo, {"README.md": CARD, "a.parquet": LARGE})
    return repo


def test_a_download_that_breaks_off_goes_on_where_it_was(hub, api, repo, waits):
    """In steps of 10 MiB, which is what the client writes at once: of smaller files it starts again."""
    data = LARGE * 3
    hub.commit(repo, {"a.parquet": LARGE, "b.parquet": data})
    for path, length in (("a.parquet", len(LARGE)), ("b.parquet", len(data))):
        hub.cut("cdn", after=length - 1000)
        local = api.hf_hub_download(repo, path, repo_type="dataset")
        assert Path(local).read_bytes() == hub.read(repo, path)
    assert [request.headers.get("range") for request in hub.asked("cdn")] == [None, None, None, "bytes=10485760-"]
    assert waits == [1, 1]


def test_damage_of_the_same_length_is_not_noticed(hub, api, published):
    """Sizes are compared, digests are not: who wants to be sure has to hash."""
    hub.corrupt("cdn")
    path = api.hf_hub_download(published, "a.parquet", repo_type="dataset")
    assert Path(path).read_bytes() == b"\xff" + LARGE[1:]


def test_an_error_of_a_download_is_not_retried(hub, api, published, waits):
    hub.fail("cdn", status=503)
    with pytest.raises(HfHubHTTPError) as caught:
        api.hf_hub_download(published, "a.parquet", repo_type="dataset")
    assert (caught.value.response.status_code, len(hub.asked("cdn")), waits) == (503, 1, [])


def test_errors_of_metadata_are_retried_where_nothing_is_cached(hub, api, published, waits):
    """Once at once, then with waits. At last it is a file not found, whose cause is the HTTP error."""
    hub.fail("resolve", status=503, times=3)
    api.hf_hub_download(published, "README.md", repo_type="dataset")
    assert waits == BACKOFF[:2]
    hub.fail("resolve", status=503, times=None)
    with pytest.raises(LocalEntryNotFoundError) as caught:
        api.hf_hub_download(published, "a.parquet", repo_type="dataset")
    assert caught.value.__cause__.response.status_code == 503
    assert waits == [*BACKOFF[:2], *BACKOFF]
    with pytest.raises(ValueError, match="Force download failed"):
        api.hf_hub_download(published, "a.parquet", repo_type="dataset", force_download=True)


def test_an_error_of_metadata_brings_back_what_is_cached(hub, api, published, waits):
    """Without a word: a branch or tag that moved since is read as it was."""
    api.hf_hub_download(published, "README.md", repo_type="dataset")
    hub.commit(published, {"README.md": CARD + TEXT})
    hub.fail("resolve", status=503)
    local = api.hf_hub_download(published, "README.md", repo_type="dataset")
    assert Path(local).read_bytes() == CARD
    assert waits == []


def test_a_rate_limit_of_a_download_is_waited_for(hub, api, published, waits):
    hub.fail("cdn", status=429, headers={"Retry-After": "3"})
    api.hf_hub_download(published, "a.parquet", repo_type="dataset")
    assert waits == [4]


def test_ranges_are_retried(hub, api, published, waits):
    hub.fail("cdn", status=503, times=2)
    hub.cut("cdn", after=100)
    with HfFileSystem().open(f"datasets/{published}/a.parquet", block_size=2**16) as file:
        file.seek(-1000, 2)
        assert file.read(1000) == LARGE[-1000:]
    assert waits == [1, 2, 4]


TABLE = {"id": ["a", "b"]}


@pytest.fixture
def loadable(hub, repo):
    buffer = io.BytesIO()
    pq.write_table(pa.table(TABLE), buffer)
    hub.commit(repo, {"train.parquet": buffer.getvalue()})
    hub.tag(repo, "v1")
    return repo


def test_load_dataset_bears_one_error_of_metadata_and_none_of_contents(hub, api, loadable, waits):
    hub.fail("resolve", status=503)
    hub.fail("cdn", status=503)
    with pytest.raises(HfHubHTTPError) as caught:
        datasets.load_dataset(loadable, split="train", revision="v1")
    assert (caught.value.response.status_code, len(hub.asked("cdn")), waits) == (503, 1, [])
    assert datasets.load_dataset(loadable, split="train", revision="v1").to_dict() == TABLE


def test_load_dataset_of_a_hub_that_only_fails(hub, api, loadable, waits):
    """A FileNotFoundError that names the Hub's error in its text alone."""
    hub.fail("resolve", status=503, times=None)
    with pytest.raises(FileNotFoundError, match="LocalEntryNotFoundError") as caught:
        datasets.load_dataset(loadable, split="train", revision="v1")
    assert (type(caught.value), caught.value.__cause__) == (FileNotFoundError, None)


def test_load_dataset_of_a_hub_that_fails_gives_another_revision_that_is_cached(hub, api, loadable, waits, caplog):
    """With a warning only, so who checks a revision needs a cache of its own."""
    datasets.load_dataset(loadable, split="train", revision="v1")
    hub.commit(loadable, {"train.parquet": None, "README.md": CARD})
    hub.tag(loadable, "v2")
    hub.fail("resolve", status=503, times=None)
    assert datasets.load_dataset(loadable, split="train", revision="v2").to_dict() == TABLE
    assert "Using the latest cached version of the dataset" in caplog.text


def test_streaming_retries_contents(hub, api, loadable, waits):
    hub.fail("cdn", status=503, times=2)
    rows = datasets.load_dataset(loadable, split="train", revision="v1", streaming=True)
    assert [row["id"] for row in rows] == TABLE["id"]
    assert waits == [1, 2]
