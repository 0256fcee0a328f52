"""What the real huggingface_hub lists and downloads is what was published."""

from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import (
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.hub.client import in_process
from tests.hub.samples import BINARY, CARD, REPO, SHA256, TEXT, publish
from tests.hub.server import Hub


def test_trees(hub, api, repo):
    publish(api, {"a.txt": TEXT, "data/x.parquet": BINARY, "data/deep/y.csv": TEXT}, message="files")

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


def test_listings_come_in_pages(tmp_path):
    with Hub(page_size=3) as hub, in_process(hub, tmp_path) as api:
        hub.create(REPO)
        for number in range(4):
            hub.commit(REPO, {f"data/{number}/{part}.txt": TEXT for part in range(3)})
        assert len(api.list_repo_files(REPO, repo_type="dataset")) == 13
        assert len(hub.asked("tree")) == 6  # 13 files and 5 folders
        assert len(api.list_repo_commits(REPO, repo_type="dataset")) == 5
        assert len(hub.asked("list_commits")) == 2


def test_paths_info(hub, api, repo):
    publish(api, {"data/x.parquet": BINARY, "a.txt": TEXT})
    found = api.get_paths_info(repo, ["data/x.parquet", "data", "missing"], repo_type="dataset", expand=True)
    assert [entry.path for entry in found] == ["data/x.parquet", "data"]
    assert (found[0].lfs.sha256, found[0].last_commit.oid) == (SHA256, hub.commits(repo)[0].id)


def test_repo_info_at_revisions(hub, api, repo):
    publish(api, {"README.md": CARD, "a.parquet": BINARY})
    old, new = hub.commits(repo)[1], hub.commits(repo)[0]
    hub.tag(repo, "v1", old.id)
    shas = [
        api.repo_info(repo, repo_type="dataset", revision=revision).sha
        for revision in (None, "main", "v1", "refs/tags/v1", new.id)
    ]
    assert shas == [new.id, new.id, old.id, old.id, new.id]
    info = api.repo_info(repo, repo_type="dataset", files_metadata=True)
    assert info.card_data.license == "mit"
    assert {s.rfilename: s.lfs and s.lfs.sha256 for s in info.siblings}["a.parquet"] == SHA256
    assert [s.rfilename for s in api.repo_info(repo, repo_type="dataset", revision="v1").siblings] == [
        ".gitattributes"
    ]
    short = api.repo_info(repo, repo_type="dataset", expand=["sha", "usedStorage"])
    assert (short.sha, short.used_storage, short.siblings) == (new.id, len(BINARY), None)
    with pytest.raises(RevisionNotFoundError):
        api.repo_info(repo, repo_type="dataset", revision="v2")


def test_tags(hub, api, repo):
    first = hub.commits(repo)[0]
    second = hub.commit(repo, {"a.txt": TEXT})
    api.create_tag(repo, tag="v1", revision=first.id, repo_type="dataset")
    api.create_tag(repo, tag="v2", tag_message="words", repo_type="dataset")
    refs = api.list_repo_refs(repo, repo_type="dataset", include_pull_requests=True)
    assert {tag.name: tag.target_commit for tag in refs.tags} == {"v1": first.id, "v2": second.id} == hub.tags(repo)
    assert [(branch.name, branch.target_commit) for branch in refs.branches] == [("main", second.id)]
    with pytest.raises(HfHubHTTPError) as caught:
        api.create_tag(repo, tag="v1", repo_type="dataset")
    assert caught.value.response.status_code == 409
    api.delete_tag(repo, tag="v1", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        api.delete_tag(repo, tag="v1", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        api.create_tag(repo, tag="v3", revision="nowhere", repo_type="dataset")
    assert hub.tags(repo) == {"v2": second.id}


def test_exist_ok_hides_that_a_tag_points_elsewhere(hub, api, repo):
    first = hub.commits(repo)[0]
    hub.tag(repo, "v1", first.id)
    second = hub.commit(repo, {"a.txt": TEXT})
    api.create_tag(repo, tag="v1", revision=second.id, repo_type="dataset", exist_ok=True)
    assert hub.tags(repo) == {"v1": first.id}


def test_history(hub, api, repo):
    publish(api, {"a.txt": TEXT}, message="title", commit_description="body")
    listed = api.list_repo_commits(repo, repo_type="dataset")
    assert [(commit.commit_id, commit.title) for commit in listed] == [
        (commit.id, commit.title) for commit in hub.commits(repo)
    ]
    assert (listed[0].authors, listed[0].message) == (["publisher"], "body")
    assert listed[0].created_at > listed[1].created_at


# Downloads


def test_downloads_are_named_by_what_they_hold(hub, api, repo):
    publish(api, {"data/a.parquet": BINARY, "a.txt": TEXT})
    for path, data in (("data/a.parquet", BINARY), ("a.txt", TEXT)):
        local = Path(api.hf_hub_download(repo, path, repo_type="dataset"))
        file = hub.files(repo)[path]
        # The cache names contents by ETag and snapshots by X-Repo-Commit.
        assert local.resolve().name == (file.sha256 if file.lfs else file.oid)
        assert (hub.commits(repo)[0].id in local.parts, local.read_bytes()) == (True, data)
    sent = sum(request.bytes_out for request in hub.requests)
    api.hf_hub_download(repo, "data/a.parquet", repo_type="dataset")
    assert sum(request.bytes_out for request in hub.requests) == sent


def test_the_token_does_not_go_to_the_storage(hub, api):
    hub.create(REPO, private=True)
    publish(api, {"a.parquet": BINARY})
    api.hf_hub_download(REPO, "a.parquet", repo_type="dataset")
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
    found = {path.relative_to(local).as_posix(): path for path in local.rglob("*") if path.is_file()}
    assert {
        name: path.read_bytes() for name, path in found.items() if not name.startswith((".cache/", ".git"))
    } == files


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=0-3", 206, BINARY[:4]),
        ("bytes=5000-", 206, BINARY[5000:]),
        ("bytes=-8", 206, BINARY[-8:]),
        ("bytes=5100-9999", 206, BINARY[5100:]),
        ("bytes=5120-", 416, None),
    ],
)
def test_ranges(hub, api, repo, asked, status, expected):
    hub.commit(repo, {"a.parquet": BINARY, "a.bin.txt": BINARY.replace(b"\0", b"\1")})
    for path, content in (("a.parquet", expected), ("a.bin.txt", expected and expected.replace(b"\0", b"\1"))):
        answer = huggingface_hub.get_session().get(
            f"{hub.endpoint}/datasets/{repo}/resolve/main/{path}", headers={"Range": asked}
        )
        assert answer.status_code == status
        if content is not None:
            assert answer.content == content
