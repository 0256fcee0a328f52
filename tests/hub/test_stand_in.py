"""The stand-in Hub, held to what the real huggingface_hub and datasets do with it.

The tests of `hf_scripts` and of `hf://` sources are worth what the stand-in is: here the installed clients publish to
it, read from it and falter with it, and no connection leaves the machine. `waits` is what the clients would have
waited, in seconds; `httpx` is what huggingface_hub uses under that name, httpx2 since its version 2.
"""

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi, HfFileSystem
from huggingface_hub.errors import (
    BadRequestError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import httpx

from tests.hub.client import in_process
from tests.hub.loopback import ForeignHostError, refused, watching
from tests.hub.process import HubProcess
from tests.hub.samples import BACKOFF, BINARY, CARD, LARGE, LARGE_SHA256, REPO, SHA256, TEXT, publish
from tests.hub.server import Hub

pytest_plugins = ["pytester"]

HTML = "<html><body>503 Service Temporarily Unavailable</body></html>"


@contextlib.contextmanager
def refusal(status, kind=HfHubHTTPError):
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.response.status_code == status


# Publishing


def test_what_goes_to_lfs(hub, api, repo):
    """By extension, by size (more than 10 MiB) and by content (a zero byte); text stays in git."""
    before = hub.commits(repo)[0]
    long = b'"' + b"x" * (10 * 1024 * 1024) + b'"\n'
    files = {
        "a.parquet": BINARY,
        "deep/er/a.jpg": TEXT,
        "README.md": CARD,
        "manifest.json": b"{}\n",
        "long.json": long,
        "exactly.json": long[: 10 * 1024 * 1024],
        "unnamed": b"\0" + TEXT,
        "empty.parquet": b"",
    }
    done = publish(api, files, message="first", commit_description="why")
    commit = hub.commits(repo)[0]
    assert (commit.id, commit.parent, commit.author) == (done.oid, before, "publisher")
    assert (commit.title, commit.message) == ("first", "why")
    in_lfs = {path for path, file in hub.files(repo).items() if file.lfs}
    assert in_lfs == {"a.parquet", "deep/er/a.jpg", "long.json", "unnamed"}
    assert {path: hub.read(repo, path) for path in files} == files
    assert hub.uploads()[SHA256] == 1


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git itself, which is not installed")
def test_identifiers_are_those_of_git(hub, api, repo, tmp_path):
    names = ("README", "a/b/c.txt", "a/b.txt", "a.txt", "a0", "ü/ß.csv")
    publish(api, {name: name.encode() for name in names}, message="title", commit_description="body")
    publish(api, {"more.txt": TEXT})

    def git(*arguments, **environment):
        run = subprocess.run(
            ["git", *arguments], cwd=tmp_path, check=True, capture_output=True, text=True, env=os.environ | environment
        )
        return run.stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    for commit in reversed(hub.commits(repo)):
        for path in commit.files:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(hub.read(repo, path, commit.id))
        hashed = git("hash-object", "--no-filters", *commit.files).split()
        assert hashed == [file.oid for file in commit.files.values()]
        git("add", "--force", *commit.files)
        who = {"NAME": commit.author, "EMAIL": f"{commit.author}@localhost", "DATE": f"{commit.seconds} +0000"}
        both = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        message = f"{commit.title}\n\n{commit.message}" if commit.message else commit.title
        git("commit", "--quiet", "--no-verify", "--message", message, **both)
        assert git("rev-parse", "HEAD") == commit.id
        for folder, oid in commit.trees.items():
            assert git("rev-parse", f"HEAD:{folder}") == oid


def test_a_card_is_checked_before_anything_is_sent(hub, api, repo, monkeypatch):
    """A client that does not ask is refused at the commit."""
    with pytest.raises(ValueError, match="Invalid metadata in README"):
        publish(api, {"README.md": b"---\na: [\n---\n", "a.parquet": BINARY})
    with pytest.raises(ValueError, match="needs split and path"):
        publish(api, {"README.md": b"---\nconfigs:\n- config_name: a\n  data_files:\n  - path: x\n---\n"})
    hub.most_card = len(CARD)
    with refusal(413):
        publish(api, {"README.md": CARD + b"!", "a.parquet": BINARY})
    assert (hub.uploads(), hub.asked("preupload"), len(hub.commits(repo))) == ({}, [], 1)
    publish(api, {"README.md": CARD})
    with pytest.warns(UserWarning, match="metadata in README"):
        publish(api, {"README.md": TEXT})
    monkeypatch.setattr(HfApi, "_validate_yaml", lambda *args, **kwargs: None)
    with refusal(413):
        publish(api, {"README.md": CARD + b"!"})
    assert hub.read(repo, "README.md") == TEXT


def test_what_is_there_already_is_neither_sent_nor_committed_again(hub, api, repo):
    """So a publication that broke off after the uploads sends nothing twice."""
    api.preupload_lfs_files(repo, [CommitOperationAdd("a/b", BINARY)], repo_type="dataset")
    assert (hub.files(repo), hub.uploads()) == ({}, {SHA256: 1})
    first = publish(api, {"a.txt": TEXT, "a/b": BINARY})
    again = publish(api, {"a.txt": TEXT, "a/b": BINARY})
    assert (again.oid, len(hub.asked("commit"))) == (first.oid, 1)
    publish(api, {"copy.parquet": BINARY})
    assert hub.files(repo)["copy.parquet"] == hub.files(repo)["a/b"]
    assert hub.uploads() == {SHA256: 1}


def test_deletions_and_copies_are_done_whole_or_not_at_all(hub, api, repo):
    def commit(*operations):
        api.create_commit(repo, operations, commit_message="move", repo_type="dataset")

    publish(api, {"a.txt": TEXT, "a.parquet": BINARY, "old/1.txt": TEXT, "old/2.txt": TEXT, "older.txt": TEXT})
    copies = [CommitOperationCopy("a.txt", "b.txt"), CommitOperationCopy("a.parquet", "b.parquet")]
    commit(CommitOperationDelete("old/"), CommitOperationDelete("older.txt"), *copies)
    files = hub.files(repo)
    assert set(files) == {"a.txt", "b.txt", "a.parquet", "b.parquet"}
    assert (files["a.txt"], files["a.parquet"]) == (files["b.txt"], files["b.parquet"])
    with pytest.raises(RemoteEntryNotFoundError, match="A file with this name doesn't exist"):
        commit(CommitOperationAdd("c", TEXT), CommitOperationDelete("a.txt"), CommitOperationDelete("missing.txt"))
    assert (hub.files(repo), len(hub.commits(repo))) == (files, 3)


def test_commits_go_to_the_head_of_a_branch_only(hub, api, repo):
    parent = hub.commits(repo)[0].id
    theirs = hub.commit(repo, {"theirs.txt": TEXT})
    with refusal(412) as caught:
        publish(api, {"ours.txt": TEXT}, parent_commit=parent)
    assert "A commit has happened since" in str(caught.value)
    hub.tag(repo, "v1")
    for revision in ("v1", "nowhere"):
        with pytest.raises(RevisionNotFoundError):
            publish(api, {"a.txt": TEXT}, revision=revision)
    assert hub.commits(repo)[0] is theirs
    publish(api, {"ours.txt": TEXT}, parent_commit=theirs.id[:10])
    assert set(hub.files(repo)) == {"ours.txt", "theirs.txt"}


def test_what_a_client_does_not_check_the_hub_does(hub, api, repo):
    """A long file in git, bytes that are not what was announced, and an object that was not sent."""
    operation = CommitOperationAdd("long.txt", b"x" * (10 * 1024 * 1024 + 1))
    operation._upload_mode = "regular"
    with pytest.raises(BadRequestError, match="larger than 10 MiB"):
        api.create_commit(repo, [operation], commit_message="long", repo_type="dataset")
    session = huggingface_hub.get_session()
    for sent in (BINARY[:-1], BINARY[:-1] + b"?"):
        answer = session.put(f"{hub.storage}/lfs/{repo}/{SHA256}?size={len(BINARY)}", content=sent)
        assert answer.status_code == 400
    lines = [
        {"key": "header", "value": {"summary": "without the bytes"}},
        {"key": "lfsFile", "value": {"path": "a.bin", "algo": "sha256", "oid": SHA256, "size": len(BINARY)}},
    ]
    answer = session.post(
        f"{hub.endpoint}/api/datasets/{repo}/commit/main",
        content="".join(json.dumps(line) + "\n" for line in lines),
        headers={"Authorization": f"Bearer {hub.token}"},
    )
    assert (answer.status_code, len(hub.commits(repo))) == (400, 1)
    assert (hub.uploads(), hub.repos[repo].objects) == ({}, {})


def test_large_objects_come_in_parts(tmp_path):
    with Hub(multipart_above=1000, part_size=2000) as hub, in_process(hub, tmp_path) as api:
        hub.create(REPO)
        path = tmp_path / "file.bin"
        path.write_bytes(BINARY)
        publish(api, {"a.bin": str(path), "b.bin": b"\0" * 1000})
        assert hub.read(REPO, "a.bin") == BINARY
        assert [request.bytes_in for request in hub.asked("lfs_put_part")] == [2000, 2000, 1120]
        assert [request.bytes_in for request in hub.asked("lfs_put")] == [1000]


def test_upload_folder_makes_one_commit_and_leaves_out_what_gitignore_names(hub, api, repo, tmp_path):
    """With Xet it would make several commits; without it, as here, it is `create_commit`."""
    for path in (".state/a.json", "a.parquet", "b.parquet", "deep/b.parquet", "deep/keep.parquet"):
        (tmp_path / "folder" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / path).write_bytes(BINARY)
    (tmp_path / "folder/.gitignore").write_text("# rules\n.state/\nb.parquet\n/deep/*.parquet\n!keep.parquet\n")
    hub.commit(repo, {"deep/old.parquet": BINARY, "README.md": TEXT})
    api.upload_folder(folder_path=tmp_path / "folder", repo_id=repo, repo_type="dataset", delete_patterns="deep/*")
    assert set(hub.files(repo)) == {".gitignore", "README.md", "a.parquet", "deep/keep.parquet"}
    assert len(hub.asked("commit")) == 1
    # The rules that the repository holds count too.
    publish(api, {"b.parquet": BINARY, "c.parquet": TEXT})
    assert set(hub.files(repo)) == {".gitignore", "README.md", "a.parquet", "c.parquet", "deep/keep.parquet"}


# Reading


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

    found = api.get_paths_info(repo, ["data/x.parquet", "data", "missing"], repo_type="dataset", expand=True)
    assert [entry.path for entry in found] == ["data/x.parquet", "data"]
    assert (found[0].lfs.sha256, found[0].last_commit.oid) == (SHA256, hub.commits(repo)[0].id)

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
    found = {path.relative_to(local).as_posix(): path for path in local.rglob("*") if path.is_file()}
    ours = {name: path.read_bytes() for name, path in found.items() if not name.startswith((".cache/", ".git"))}
    assert ours == files


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


# Loading


SPLITS = {"alpha": ("train", "test"), "beta": ("test",)}


def rows(config, split):
    return [{"id": f"{config}-{split}-{number}", "label": number % 3} for number in range(10)]


def parquet(rows, **options):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer, **options)
    return buffer.getvalue()


def release(splits=SPLITS):
    """A card with two configs and a Parquet file for each split, as `hf_scripts` lays a release out."""
    card, data = ["---", "configs:"], {}
    for config, names in splits.items():
        card += [f"- config_name: {config}", "  data_files:"]
        card += [f"  - {{split: {name}, path: data/{config}/{name}-*.parquet}}" for name in names]
        data |= {f"data/{config}/{name}-00000-of-00001.parquet": parquet(rows(config, name)) for name in names}
    return {"README.md": "\n".join([*card, "---", "# Card", ""]).encode(), "manifest.json": b"{}\n", **data}


@pytest.fixture
def published(hub, repo):
    """A release tagged v1, and on main one with another split and no config beta."""
    hub.commit(repo, release())
    hub.tag(repo, "v1")
    later = release({"alpha": ("train", "test", "more")})
    hub.commit(repo, {**later, "data/beta/test-00000-of-00001.parquet": None})
    return repo


def test_load_dataset_reads_the_rows_of_a_revision(hub, api, published, tmp_path):
    for config, split in [(config, name) for config, names in SPLITS.items() for name in names]:
        for streaming in (False, True):
            found = datasets.load_dataset(published, config, split=split, revision="v1", streaming=streaming)
            assert list(found) == rows(config, split)
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


# Whom it lets do what


def test_accounts(hub, api, repo, tmp_path):
    """A wrong token is not taken for a missing repository; a 403 is hidden where the repository can be read."""
    me = api.whoami()
    assert (me["name"], [org["name"] for org in me["orgs"]]) == ("publisher", ["org"])
    assert me["auth"]["accessToken"]["role"] == "write"
    asked = len(hub.requests)
    with in_process(hub, tmp_path, anonymous=True), pytest.raises(LocalTokenNotFoundError):
        HfApi(endpoint=hub.endpoint).whoami()
    assert len(hub.requests) == asked
    wrong = HfApi(endpoint=hub.endpoint, token="hf_wrong")
    for ask in (wrong.whoami, lambda: wrong.repo_info(repo, repo_type="dataset")):
        with refusal(401) as caught:
            ask()
        assert not isinstance(caught.value, RepositoryNotFoundError)
    reader = HfApi(endpoint=hub.endpoint, token=hub.add_user("reader", ("org",), role="read"))
    assert reader.repo_info(repo, repo_type="dataset").sha == hub.commits(repo)[0].id
    assert reader.create_repo(repo, repo_type="dataset", exist_ok=True).repo_id == repo
    for change in (
        lambda: api.create_repo("others/name", repo_type="dataset"),
        lambda: reader.create_repo("org/other", repo_type="dataset"),
        lambda: publish(reader, {"a.txt": TEXT}),
        lambda: reader.create_tag(repo, tag="v1", repo_type="dataset"),
        lambda: reader.auth_check(repo, repo_type="dataset", write=True),
    ):
        with refusal(403):
            change()
    assert (len(hub.commits(repo)), hub.tags(repo), set(hub.repos)) == (1, {}, {repo})


def test_a_repository_is_created_once(hub, api):
    """With `exist_ok` it is left as it is, public or private."""
    url = api.create_repo(REPO, repo_type="dataset")
    assert (url.repo_id, url.repo_type, url.endpoint) == (REPO, "dataset", hub.endpoint)
    with refusal(409):
        api.create_repo(REPO, repo_type="dataset")
    assert api.create_repo(REPO, repo_type="dataset", private=True, exist_ok=True) == url
    assert not api.repo_info(REPO, repo_type="dataset").private
    assert [commit.title for commit in hub.commits(REPO)] == ["initial commit"]


def test_to_strangers_a_private_repository_does_not_exist(hub, api, tmp_path):
    """Nobody reads a public one, too, and writes none."""
    api.create_repo(REPO, repo_type="dataset", private=True)
    hub.commit(REPO, release())
    token = hub.add_user("stranger")
    for client, status in (
        (HfApi(endpoint=hub.endpoint, token=token), 404),
        (HfApi(endpoint=hub.endpoint, token=False), 401),
    ):
        for missing in (REPO, "org/there-is-none"):
            with refusal(status, RepositoryNotFoundError):
                client.repo_info(missing, repo_type="dataset")
    for given in ({"anonymous": True}, {"token": token}):
        with in_process(hub, tmp_path / str(given), **given), pytest.raises(DatasetNotFoundError):
            datasets.load_dataset(REPO, "beta", split="test")
    assert list(datasets.load_dataset(REPO, "beta", split="test")) == rows("beta", "test")
    api.auth_check(REPO, repo_type="dataset", write=True)
    hub.create("org/public")
    assert client.repo_info("org/public", repo_type="dataset").id == "org/public"
    with refusal(401, RepositoryNotFoundError):
        client.create_tag("org/public", tag="v1", repo_type="dataset")


# What the clients do when the Hub falters as they publish: what they retry, and what reaches their caller, who must
# handle what they do not


ONCE = {
    "whoami": lambda api: api.whoami(),
    "create_repo": lambda api: api.create_repo("org/other", repo_type="dataset", exist_ok=True),
    "auth_check_write": lambda api: api.auth_check(REPO, repo_type="dataset", write=True),
    "repo_info": lambda api: api.repo_info(REPO, repo_type="dataset"),
    "refs": lambda api: api.list_repo_refs(REPO, repo_type="dataset"),
    "create_tag": lambda api: api.create_tag(REPO, tag="v1", repo_type="dataset"),
    "paths_info": lambda api: api.get_paths_info(REPO, ["a.txt"], repo_type="dataset"),
    "commit": lambda api: publish(api, {"a.txt": TEXT}),
}
RETRIED = {
    "preupload": lambda api, number: publish(api, {f"{number}.txt": TEXT}),
    "lfs_batch": lambda api, number: publish(api, {"a.parquet": BINARY + b"%d" % number}),
    "lfs_put": lambda api, number: publish(api, {"a.parquet": BINARY + b"%d" % number}),
    "lfs_verify": lambda api, number: publish(api, {"a.parquet": BINARY + b"%d" % number}),
    "tree": lambda api, _: list(api.list_repo_tree(REPO, repo_type="dataset")),
    "list_commits": lambda api, _: api.list_repo_commits(REPO, repo_type="dataset"),
}


def test_tried_once(hub, api, repo, waits):
    """One error, whatever Retry-After says, and the caller has it.

    A connection that ends is an `httpx.TransportError`: neither an HfHubHTTPError nor an OSError, so no
    ConnectionError of Python's.
    """
    for route, call in ONCE.items():
        for status in (429, 500, 503):
            hub.fail(route, status=status, headers={"Retry-After": "0"}, body=HTML)
            with refusal(status):
                call(api)
        hub.drop(route)
        with pytest.raises(httpx.TransportError) as caught:
            call(api)
        assert isinstance(caught.value, httpx.HTTPError)
        assert not isinstance(caught.value, (HfHubHTTPError, OSError))
        assert (len(hub.asked(route)), waits) == (4, []), route
    assert (len(hub.commits(repo)), hub.tags(repo), set(hub.repos)) == (1, {}, {repo})


def test_retried(hub, api, repo, waits):
    for number, (route, status) in enumerate((route, status) for route in RETRIED for status in (429, 500, 503)):
        before = len(hub.asked(route))
        hub.fail(route, status=status, times=3, body=HTML)
        RETRIED[route](api, number)
        assert (len(hub.asked(route)) - before, waits) == (4, BACKOFF[:3] * (number + 1)), route
    assert all(count == 1 for count in hub.uploads().values())


def test_an_upload_is_retried_five_times_where_that_may_help(hub, api, repo, waits):
    """Its error is a RuntimeError whose cause is that of HTTP; nothing is committed. Retry-After is kept."""
    hub.fail("lfs_put", status=429, headers={"Retry-After": "7"})
    hub.fail("lfs_put", status=503, headers={"Retry-After": "0"})
    publish(api, {"a.parquet": BINARY})
    assert waits == [8, 1]
    hub.fail("lfs_put", status=403)
    with pytest.raises(RuntimeError) as caught:
        publish(api, {"b.parquet": LARGE})
    assert (caught.value.__cause__.response.status_code, waits) == (403, [8, 1])
    hub.fail("lfs_put", status=503, times=None, body=HTML)
    with pytest.raises(RuntimeError, match=r"Error while uploading 'b\.parquet' to the Hub") as caught:
        publish(api, {"b.parquet": LARGE})
    assert isinstance(caught.value.__cause__, HfHubHTTPError)
    assert caught.value.__cause__.response.status_code == 503
    assert (len(hub.asked("lfs_put")), waits[2:], len(hub.commits(repo))) == (3 + 1 + 6, BACKOFF, 2)


def test_a_check_of_the_card_that_fails_with_html_is_a_json_error(hub, api, repo, waits):
    """It is read before its status is looked at. A body that is JSON is told by its status."""
    hub.fail("validate_yaml", status=503, body=HTML)
    with pytest.raises(json.JSONDecodeError):
        publish(api, {"README.md": CARD})
    hub.fail("validate_yaml", status=503)
    with refusal(503):
        publish(api, {"README.md": CARD})
    assert (hub.asked("preupload"), waits) == ([], [])


def test_an_upload_that_breaks_off_is_sent_again_from_its_start(hub, api, repo, waits, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(LARGE)
    hub.drop("lfs_put", after=1_000_000, times=2)
    publish(api, {"a.parquet": str(path)})
    first, second, third = (request.bytes_in for request in hub.asked("lfs_put"))
    assert 1_000_000 <= first < len(LARGE)
    assert 1_000_000 <= second < len(LARGE)
    assert third == len(LARGE)
    assert (hub.uploads(), hub.read(repo, "a.parquet") == LARGE, waits) == ({LARGE_SHA256: 1}, True, [1, 2])
    hub.drop("lfs_put", times=None)
    with pytest.raises(RuntimeError) as caught:
        publish(api, {"b.parquet": BINARY})
    assert isinstance(caught.value.__cause__, httpx.TransportError)
    assert len(hub.asked("lfs_put")) == 3 + 6


def test_what_was_done_though_its_answer_is_lost(hub, api, repo, waits):
    """Additions may be repeated: they are found unchanged, and the parent is not looked at. A tag is a conflict."""
    for number, status in enumerate((500, 504)):
        hub.lose_response("commit", status=status)
        with refusal(status):
            publish(api, {f"{number}.txt": TEXT})
        assert hub.read(repo, f"{number}.txt") == TEXT
    parent = hub.commits(repo)[0].id
    hub.lose_response()
    with pytest.raises(httpx.RemoteProtocolError):
        publish(api, {"a.txt": TEXT}, parent_commit=parent)
    again = publish(api, {"a.txt": TEXT}, parent_commit=parent)
    assert again.oid == hub.commits(repo)[0].id
    assert (len(hub.asked("commit")), len(hub.commits(repo))) == (3, 4)
    hub.lose_response("create_tag")
    with pytest.raises(httpx.RemoteProtocolError):
        api.create_tag(repo, tag="v1", repo_type="dataset")
    with refusal(409):
        api.create_tag(repo, tag="v1", repo_type="dataset")
    hub.lose_response("create_repo")
    with pytest.raises(httpx.RemoteProtocolError):
        api.create_repo("org/new", repo_type="dataset")
    assert api.create_repo("org/new", repo_type="dataset", exist_ok=True).repo_id == "org/new"
    hub.lose_response("lfs_put")
    publish(api, {"a.parquet": BINARY})
    assert hub.uploads() == {SHA256: 2}


def test_deletions_cannot_be_repeated_after_a_lost_answer(hub, api, repo):
    """With a parent they are refused as stale; without, what they delete is not there."""

    def delete(**given):
        operations = [CommitOperationDelete("old.txt")]
        api.create_commit(repo, operations, commit_message="delete", repo_type="dataset", **given)

    for status in (412, 404):
        hub.commit(repo, {"old.txt": TEXT})
        given = {"parent_commit": hub.commits(repo)[0].id} if status == 412 else {}
        hub.lose_response()
        with pytest.raises(httpx.RemoteProtocolError):
            delete(**given)
        with refusal(status) as caught:
            delete(**given)
        assert isinstance(caught.value, RemoteEntryNotFoundError) == (status == 404)


def test_another_publisher_comes_first(hub, api, repo):
    """With a parent the later one is refused, as may happen though nobody came; without, both commits stand."""
    other = HfApi(endpoint=hub.endpoint, token=hub.add_user("other", ("org",)))
    parent = hub.commits(repo)[0].id
    hub.race(lambda: publish(other, {"theirs.txt": TEXT}))
    with refusal(412) as caught:
        publish(api, {"ours.txt": TEXT}, parent_commit=parent)
    assert "A commit has happened since" in str(caught.value)
    assert (set(hub.files(repo)), hub.commits(repo)[0].author) == ({"theirs.txt"}, "other")
    hub.stale_parent()
    with refusal(412):
        publish(api, {"ours.txt": TEXT})
    hub.race(lambda: hub.commit(repo, {"more.txt": TEXT}), nth=2)
    publish(api, {"first.txt": TEXT})
    publish(api, {"ours.txt": TEXT})
    assert set(hub.files(repo)) == {"theirs.txt", "first.txt", "more.txt", "ours.txt"}


def test_nothing_but_downloads_has_a_time_limit(hub, api, repo):
    """A caller that must not hang has to set one itself, with `set_client_factory`. A late answer is waited for."""
    hub.slow("commit", 0.3)
    publish(api, {"late.txt": TEXT})
    assert set(hub.files(repo)) == {"late.txt"}
    hub.slow("resolve", 60)
    api.hf_hub_download(repo, ".gitattributes", repo_type="dataset", etag_timeout=0.2)
    assert [request.method for request in hub.asked("resolve")] == ["HEAD", "HEAD", "GET"]
    assert huggingface_hub.get_session().timeout == httpx.Timeout(None)
    huggingface_hub.set_client_factory(lambda: httpx.Client(follow_redirects=True, timeout=0.2))
    try:
        hub.slow("commit", 60)
        with pytest.raises(httpx.ReadTimeout):
            publish(api, {"a.txt": TEXT})
    finally:
        huggingface_hub.set_client_factory(huggingface_hub.utils._http.default_client_factory)


# The same as they download and load


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
    found = datasets.load_dataset(repo, data_dir="deep", split="train", streaming=True)
    assert [row["id"] for row in found] == [row["id"] for row in rows("a", "b")]
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


# The stand-in itself


def test_the_stand_in_says_what_it_does_not_do(hub, api, repo):
    with pytest.raises(HfHubHTTPError, match="the stand-in has no route POST"):
        api.create_branch(repo, branch="other", repo_type="dataset")
    with pytest.raises(HfHubHTTPError, match="dataset repositories only"):
        api.create_repo("org/model")
    with pytest.raises(ValueError, match="no route is called"):
        hub.fail("comit")
    with pytest.raises(AssertionError, match="never struck"), Hub() as other:
        other.fail("commit")


def test_an_error_inside_the_stand_in_is_raised_at_its_end(tmp_path):
    def broken():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Hub() as hub, in_process(hub, tmp_path) as api:
        hub.create(REPO)
        hub.race(broken)
        with pytest.raises(httpx.RemoteProtocolError):
            publish(api, {"a.txt": TEXT})


def test_the_end_of_a_test_ends_what_it_waits_for(tmp_path):
    """Else a commit that is never answered would keep a test from ending. Afterwards nobody answers."""
    errors = []
    with Hub() as hub, in_process(hub, tmp_path) as api:
        hub.slow("whoami", 3600)

        def ask():
            try:
                api.whoami()
            except httpx.TransportError as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while not hub.asked("whoami"):
            thread.join(0.01)
        hub.close()
        thread.join(10)
        assert len(errors) == 1
        with pytest.raises(httpx.ConnectError):
            api.whoami()


PUSH = """
import sys
import datasets
from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download
api = HfApi()
api.create_repo("org/new", repo_type="dataset")
api.create_commit("org/new", [CommitOperationAdd("a.parquet", b"data")], commit_message="m", repo_type="dataset")
print(hf_hub_download("org/new", "a.parquet", repo_type="dataset"))
print(datasets.load_dataset("org/name", "beta", split="test", revision="v1")[0]["id"])
"""


def test_a_subprocess_knows_no_other_hub(hub, published, tmp_path, monkeypatch):
    """Nor the machine's own token, caches and proxy."""
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_machine")
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    done = subprocess.run(
        [sys.executable, "-c", PUSH], env=hub.environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    path, row = done.stdout.splitlines()
    assert (Path(path).is_relative_to(tmp_path / "hf-home"), row) == (True, "beta-test-0")
    assert hub.commits("org/new")[0].author == "publisher"


def test_a_stand_in_in_its_own_process(tmp_path):
    with HubProcess() as hub:
        hub.call("create", REPO)
        hub.call("fail", "repo_info", status=500)
        with in_process(hub, tmp_path) as api:
            with refusal(500):
                api.repo_info(REPO, repo_type="dataset")
            done = publish(api, {"a.parquet": BINARY})
        assert hub.call("commits", REPO)[0].id == done.oid
        assert hub.call("files", REPO)["a.parquet"].sha256 == SHA256
        assert hub.call("requests")[0].status == 500


# The guard: other hosts are refused and noted, in this process and in subprocesses

# 192.0.2.0/24 and example.* are set aside for documentation (RFC 5737, RFC 2606): nobody answers there.
ADDRESS = "192.0.2.7"


@pytest.fixture
def watched(guarded, tmp_path):
    """Attempts of these tests are noted apart, so that the fixture that watches all tests does not fail them."""
    log = tmp_path / "attempts"
    with watching(log):
        yield lambda: refused(log)


def send_datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", (ADDRESS, 53))


def test_other_hosts_are_refused(watched):
    attempts = [
        (lambda: socket.create_connection((ADDRESS, 80), timeout=1), ADDRESS),
        (send_datagram, ADDRESS),
        (lambda: socket.getaddrinfo("example.org", 443), "example.org"),
        (lambda: socket.gethostbyname("example.net"), "example.net"),
        (lambda: huggingface_hub.get_session().get("https://example.com/x"), "example.com"),
        (lambda: HfApi().whoami(token="hf_x"), "huggingface.co"),
        (lambda: datasets.load_dataset("org/name"), "huggingface.co"),
    ]
    for number, (attempt, host) in enumerate(attempts):
        with pytest.raises(ForeignHostError, match=host):
            attempt()
        assert watched() == sorted({host for _, host in attempts[: number + 1]})


def test_this_machine_is_not(watched, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as peer:
        server.bind(path)
        server.listen()
        peer.connect(path)
    assert watched() == []


def test_a_client_that_swallows_the_error_fails_the_test(pytester):
    """`load_dataset` asks the dataset viewer so, and Amazon for counting: errors there are never seen."""
    pytester.makepyfile(
        """
        import contextlib
        import socket
        from tests.hub.guard import only_loopback

        def test_swallows(only_loopback):
            with contextlib.suppress(Exception):
                socket.getaddrinfo("example.org", 443)

        def test_other(only_loopback):
            assert only_loopback() == []
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*connections were attempted to example.org*"])


REACH = """
import contextlib, socket
with contextlib.suppress(Exception):
    socket.create_connection(("192.0.2.7", 80), timeout=1)
"""


def test_subprocesses_are_guarded_and_noted(hub, tmp_path, monkeypatch):
    monkeypatch.delenv("HUB_FOREIGN_HOSTS")
    environment = hub.environment(tmp_path / "sub")
    spawned = f"import multiprocessing as m; m.get_context('spawn').Pool(1).apply(exec, ({REACH!r},))"
    for code in (REACH, spawned):
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        assert refused(tmp_path / "sub" / "foreign-hosts") == [ADDRESS]
        (tmp_path / "sub" / "foreign-hosts").unlink()


def test_the_clients_would_reach_others_without_the_settings(hub, repo, tmp_path, watched, monkeypatch):
    """What `in_process` and `environment` switch off, each seen to be needed."""
    hub.commit(repo, {"a.csv": b"a\n1\n"})
    with in_process(hub, tmp_path):
        monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", True)
        datasets.load_dataset(repo)
    assert watched() == ["s3.amazonaws.com"]
