"""Listing, downloading and loading from the stand-in with the installed clients, also when it falters.

`waits` is what the clients would have waited, in seconds.
"""

from pathlib import Path

import datasets
import huggingface_hub
import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfFileSystem
from huggingface_hub.errors import (
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.hub.client import in_process
from tests.hub.samples import BACKOFF, BINARY, CARD, LARGE, REPO, SHA256, SPLITS, TEXT, parquet, publish, refusal, rows
from tests.hub.server import Hub


def test_trees_paths_and_history(hub, api, repo):
    files = {"a.txt": TEXT, "data/x.parquet": BINARY, "data/deep/y.csv": TEXT}
    publish(api, files, message="files", commit_description="body")

    def listed(path=None, **kwargs):
        return {entry.path: entry for entry in api.list_repo_tree(repo, path, repo_type="dataset", **kwargs)}

    assert set(listed()) == {".gitattributes", "a.txt", "data"}
    assert set(listed("data")) == {"data/deep", "data/x.parquet"}
    everything = listed(recursive=True, expand=True)
    assert set(everything) == {".gitattributes", "a.txt", "data", "data/deep", "data/deep/y.csv", "data/x.parquet"}
    large = everything["data/x.parquet"]
    assert (large.size, large.lfs.sha256, large.xet_hash) == (len(BINARY), SHA256, None)
    assert (everything["a.txt"].lfs, everything["a.txt"].last_commit.title) == (None, "files")
    assert everything[".gitattributes"].last_commit.title == "initial commit"
    assert set(listed(revision=hub.commits(repo)[1].id)) == {".gitattributes"}
    with pytest.raises(RemoteEntryNotFoundError):
        listed("missing")

    infos = api.get_paths_info(repo, ["data/x.parquet", "data", "missing"], repo_type="dataset", expand=True)
    assert [entry.path for entry in infos] == ["data/x.parquet", "data"]
    assert (infos[0].lfs.sha256, infos[0].last_commit.oid) == (SHA256, hub.commits(repo)[0].id)

    history = api.list_repo_commits(repo, repo_type="dataset")
    assert [(commit.commit_id, commit.title) for commit in history] == [(c.id, c.title) for c in hub.commits(repo)]
    assert (history[0].authors, history[0].message) == (["publisher"], "body")
    assert history[0].created_at > history[1].created_at


def test_listings_come_in_pages(tmp_path):
    with Hub(page_size=3) as hub, in_process(hub, tmp_path) as api:
        hub.create(REPO)
        for number in range(4):
            hub.commit(REPO, {f"data/{number}/{part}.txt": TEXT for part in range(3)})
        assert len(api.list_repo_files(REPO, repo_type="dataset")) == 13
        assert len(hub.asked("tree")) == 6  # 13 files and 5 folders
        assert len(api.list_repo_commits(REPO, repo_type="dataset")) == 5
        assert len(hub.asked("list_commits")) == 2


def test_repo_info_at_revisions(hub, api, repo):
    publish(api, {"README.md": CARD, "a.parquet": BINARY})
    old, new = hub.commits(repo)[1], hub.commits(repo)[0]
    hub.tag(repo, "v1", old.id)

    def info(**kwargs):
        return api.repo_info(repo, repo_type="dataset", **kwargs)

    shas = [info(revision=revision).sha for revision in (None, "main", "v1", "refs/tags/v1", new.id)]
    assert shas == [new.id, new.id, old.id, old.id, new.id]
    assert info(files_metadata=True).card_data.license == "mit"
    siblings = {entry.rfilename: entry.lfs and entry.lfs.sha256 for entry in info(files_metadata=True).siblings}
    assert siblings["a.parquet"] == SHA256
    assert [entry.rfilename for entry in info(revision="v1").siblings] == [".gitattributes"]
    short = info(expand=["sha", "usedStorage"])
    assert (short.sha, short.used_storage, short.siblings) == (new.id, len(BINARY), None)
    with pytest.raises(RevisionNotFoundError):
        info(revision="v2")


def test_tags(hub, api, repo):
    """`exist_ok` hides that a tag points elsewhere."""
    first = hub.commits(repo)[0]
    second = hub.commit(repo, {"a.txt": TEXT})
    api.create_tag(repo, tag="v1", revision=first.id, repo_type="dataset")
    api.create_tag(repo, tag="v2", tag_message="words", repo_type="dataset")
    refs = api.list_repo_refs(repo, repo_type="dataset", include_pull_requests=True)
    assert {tag.name: tag.target_commit for tag in refs.tags} == {"v1": first.id, "v2": second.id} == hub.tags(repo)
    assert [(branch.name, branch.target_commit) for branch in refs.branches] == [("main", second.id)]
    with refusal(409):
        api.create_tag(repo, tag="v1", repo_type="dataset")
    api.create_tag(repo, tag="v1", revision=second.id, repo_type="dataset", exist_ok=True)
    assert hub.tags(repo)["v1"] == first.id
    api.delete_tag(repo, tag="v1", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        api.delete_tag(repo, tag="v1", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        api.create_tag(repo, tag="v3", revision="nowhere", repo_type="dataset")
    assert hub.tags(repo) == {"v2": second.id}


def test_downloads_are_named_by_what_they_hold(hub, api):
    """The cache names contents by ETag and snapshots by X-Repo-Commit. The token does not go to the storage."""
    hub.create(REPO, private=True)
    publish(api, {"data/a.parquet": BINARY, "a.txt": TEXT})
    for path, data in (("data/a.parquet", BINARY), ("a.txt", TEXT)):
        local = Path(api.hf_hub_download(REPO, path, repo_type="dataset"))
        file = hub.files(REPO)[path]
        assert local.resolve().name == (file.sha256 if file.lfs else file.oid)
        assert (hub.commits(REPO)[0].id in local.parts, local.read_bytes()) == (True, data)
    sent = sum(request.bytes_out for request in hub.requests)
    api.hf_hub_download(REPO, "data/a.parquet", repo_type="dataset")
    assert sum(request.bytes_out for request in hub.requests) == sent
    stored = [*hub.asked("cdn"), *hub.asked("lfs_put")]
    assert len(stored) == 2
    assert not any("authorization" in request.headers for request in stored)
    assert all("authorization" in request.headers for request in [*hub.asked("resolve"), *hub.asked("lfs_batch")])


def test_what_does_not_exist_is_not_downloaded(hub, api, repo):
    with pytest.raises(RemoteEntryNotFoundError):
        api.hf_hub_download(repo, "missing.txt", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        api.hf_hub_download(repo, ".gitattributes", repo_type="dataset", revision="nowhere")
    with pytest.raises(RepositoryNotFoundError):
        api.hf_hub_download("org/none", "missing.txt", repo_type="dataset")
    assert not api.file_exists(repo, "missing.txt", repo_type="dataset")
    assert api.file_exists(repo, ".gitattributes", repo_type="dataset")


def test_a_snapshot_of_a_tag(hub, api, repo, tmp_path):
    files = {"a.txt": TEXT, "data/x/y.parquet": BINARY, "data/name with space, ü.txt": TEXT}
    publish(api, files)
    hub.tag(repo, "v1")
    hub.commit(repo, {"later.txt": TEXT})
    local = Path(api.snapshot_download(repo, repo_type="dataset", revision="v1", local_dir=tmp_path / "local"))
    paths = {path.relative_to(local).as_posix(): path for path in local.rglob("*") if path.is_file()}
    contents = {name: path.read_bytes() for name, path in paths.items() if not name.startswith((".cache/", ".git"))}
    assert contents == files


def test_ranges(hub, api, repo):
    text = BINARY.replace(b"\0", b"\1")
    hub.commit(repo, {"a.parquet": BINARY, "a.bin.txt": text})
    for asked, part in (
        ("bytes=0-3", slice(4)),
        ("bytes=5000-", slice(5000, None)),
        ("bytes=-8", slice(-8, None)),
        ("bytes=5100-9999", slice(5100, None)),
        ("bytes=5120-", None),
    ):
        for path, content in (("a.parquet", BINARY), ("a.bin.txt", text)):
            url = f"{hub.endpoint}/datasets/{repo}/resolve/main/{path}"
            answer = huggingface_hub.get_session().get(url, headers={"Range": asked})
            assert answer.status_code == (206 if part else 416), asked
            assert part is None or answer.content == content[part], asked


def test_load_dataset_reads_the_rows_of_a_revision(hub, api, published, tmp_path):
    for config, split in [(config, name) for config, names in SPLITS.items() for name in names]:
        for streaming in (False, True):
            loaded = datasets.load_dataset(published, config, split=split, revision="v1", streaming=streaming)
            assert list(loaded) == rows(config, split)
    oldest = hub.commits(published)[1].id
    loaded = datasets.load_dataset(published, "beta", split="test", revision=oldest)
    assert list(loaded) == rows("beta", "test")
    assert all(Path(file["filename"]).is_relative_to(tmp_path / "hf-datasets") for file in loaded.cache_files)
    assert datasets.get_dataset_config_names(published, revision="v1") == ["alpha", "beta"]
    with pytest.raises(ValueError, match="more"):
        datasets.load_dataset(published, "alpha", split="more", revision="v1")
    # Of main, and of no other revision, the dataset viewer is asked for what it knows.
    assert hub.asked("dataset_viewer") == []
    assert list(datasets.load_dataset(published, "alpha", split="more")) == rows("alpha", "more")
    assert [request.status for request in hub.asked("dataset_viewer")] == [404]


def test_what_load_dataset_asks(hub, api, published):
    """The card at the revision given; all else at its commit: files that are mostly missing, folders, data files.

    Every split of the config is fetched, and nothing of others.
    """
    datasets.load_dataset(published, "alpha", split="test", revision="v1")
    commit, files = hub.commits(published, "v1")[0].id, hub.files(published, "v1")

    def names(requests):
        return {request.path.rpartition("/")[2] for request in requests}

    assert {request.route for request in hub.requests} == {"resolve", "repo_info", "tree", "cdn"}
    assert not [request for request in hub.requests if request.method not in ("GET", "HEAD")]
    missing = names(request for request in hub.requests if request.status == 404)
    assert missing == {"name.py", ".huggingface.yaml", "dataset_infos.json"}
    assert names(request for request in hub.asked("resolve") if "/v1/" in request.path) == {"README.md"}
    assert all(commit in request.path for request in [*hub.asked("repo_info"), *hub.asked("tree")])
    assert names(hub.asked("cdn")) == {files[f"data/alpha/{s}-00000-of-00001.parquet"].sha256 for s in SPLITS["alpha"]}


def test_a_footer_is_read_by_ranges(hub, api, repo):
    """A Parquet file of 2 MB whose metadata `HfFileSystem` reads without its rows."""
    table = [{"id": f"{number:08}", "noise": number * 2654435761 % 2**32} for number in range(100_000)]
    data = parquet(table, row_group_size=10_000)
    hub.commit(repo, {"data/a.parquet": data})
    hub.tag(repo, "v1")
    with HfFileSystem().open(f"datasets/{repo}@v1/data/a.parquet", block_size=2**16) as file:
        metadata = pq.ParquetFile(file).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (100_000, 10)
    assert {answer.status for answer in hub.asked("cdn")} == {206}
    assert sum(answer.bytes_out for answer in hub.asked("cdn")) < len(data) / 10


@pytest.fixture
def readable(hub, repo):
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


def test_damage_of_the_same_length_is_not_noticed(hub, api, readable):
    """Sizes are compared, digests are not: who wants to be sure has to hash."""
    hub.corrupt("cdn")
    path = api.hf_hub_download(readable, "a.parquet", repo_type="dataset")
    assert Path(path).read_bytes() == b"\xff" + LARGE[1:]


def test_of_a_download_a_rate_limit_is_waited_for_and_an_error_is_not(hub, api, readable, waits):
    hub.fail("cdn", status=503)
    with refusal(503):
        api.hf_hub_download(readable, "a.parquet", repo_type="dataset")
    assert (len(hub.asked("cdn")), waits) == (1, [])
    hub.fail("cdn", status=429, headers={"Retry-After": "3"})
    api.hf_hub_download(readable, "a.parquet", repo_type="dataset")
    assert waits == [4]


def test_errors_of_metadata_are_retried_where_nothing_is_cached(hub, api, readable, waits):
    """At last it is a file not found, whose cause is the HTTP error.

    Where it is cached, what is cached comes without a word: a branch or tag that moved since is read as it was.
    """
    hub.fail("resolve", status=503, times=3)
    api.hf_hub_download(readable, "README.md", repo_type="dataset")
    assert waits == BACKOFF[:2]  # the first retry is at once
    hub.commit(readable, {"README.md": CARD + TEXT})
    hub.fail("resolve", status=503)
    assert Path(api.hf_hub_download(readable, "README.md", repo_type="dataset")).read_bytes() == CARD
    assert waits == BACKOFF[:2]
    hub.fail("resolve", status=503, times=None)
    with pytest.raises(LocalEntryNotFoundError) as caught:
        api.hf_hub_download(readable, "a.parquet", repo_type="dataset")
    assert caught.value.__cause__.response.status_code == 503
    assert waits == [*BACKOFF[:2], *BACKOFF]
    with pytest.raises(ValueError, match="Force download failed"):
        api.hf_hub_download(readable, "a.parquet", repo_type="dataset", force_download=True)


def test_ranges_and_streams_are_retried(hub, api, repo, waits):
    hub.commit(repo, {"a.parquet": LARGE, "deep/train.parquet": parquet(rows("a", "b"))})
    hub.fail("cdn", status=503, times=2)
    hub.cut("cdn", after=100)
    with HfFileSystem().open(f"datasets/{repo}/a.parquet", block_size=2**16) as file:
        file.seek(-1000, 2)
        assert file.read(1000) == LARGE[-1000:]
    assert waits == [1, 2, 4]
    hub.fail("cdn", status=503, times=2)
    loaded = datasets.load_dataset(repo, data_dir="deep", split="train", streaming=True)
    assert [row["id"] for row in loaded] == [row["id"] for row in rows("a", "b")]
    assert waits == [1, 2, 4, 1, 2]


def test_load_dataset_of_a_hub_that_falters(hub, api, published, waits, caplog):
    """It bears one error of metadata, and none of contents.

    From a Hub that only fails comes a FileNotFoundError that names the Hub's error in its text alone, or, with a
    warning only, another revision that is cached: who checks a revision needs a cache of its own.
    """

    def load(revision):
        return list(datasets.load_dataset(published, "beta", split="test", revision=revision))

    hub.fail("resolve", status=503)
    hub.fail("cdn", status=503)
    with refusal(503):
        load("v1")
    assert (len(hub.asked("cdn")), waits) == (1, [])
    assert load("v1") == rows("beta", "test")
    hub.tag(published, "v2")
    hub.fail("resolve", status=503, times=None)
    assert load("v2") == rows("beta", "test")
    assert "Using the latest cached version of the dataset" in caplog.text
    with pytest.raises(FileNotFoundError, match="LocalEntryNotFoundError") as caught:
        datasets.load_dataset("org/other", split="test")
    assert (type(caught.value), caught.value.__cause__) == (FileNotFoundError, None)
