"""The stand-in under the real huggingface_hub: every call that publishing, listing and downloading make."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    BadRequestError,
    HfHubHTTPError,
    LocalTokenNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import httpx

from tests.hub.client import in_process
from tests.hub.process import HubProcess
from tests.hub.server import Hub

REPO = "org/name"
TEXT = b"plain words\n"
CARD = b"---\nlicense: mit\n---\n# Card\n"
BINARY = bytes(range(256)) * 20
SHA256 = hashlib.sha256(BINARY).hexdigest()


def adds(**files):
    return [CommitOperationAdd(path.replace("__", "/"), data) for path, data in files.items()]


def publish(api, files, *, repo=REPO, message="publish", **kwargs):
    operations = [CommitOperationAdd(path, data) for path, data in files.items()]
    return api.create_commit(repo, operations, commit_message=message, repo_type="dataset", **kwargs)


@pytest.fixture
def repo(hub):
    hub.create(REPO)
    return REPO


# Accounts and repositories


def test_whoami(hub, api):
    me = api.whoami()
    assert (me["name"], [org["name"] for org in me["orgs"]]) == ("publisher", ["org"])
    assert me["auth"]["accessToken"]["role"] == "write"


def test_whoami_without_a_token_asks_nobody(hub, tmp_path):
    with in_process(hub, tmp_path, anonymous=True), pytest.raises(LocalTokenNotFoundError):
        HfApi(endpoint=hub.endpoint).whoami()
    assert hub.requests == []


def test_a_wrong_token_is_not_taken_for_a_missing_repository(hub, api, repo):
    wrong = HfApi(endpoint=hub.endpoint, token="hf_wrong")
    for ask in (wrong.whoami, lambda: wrong.repo_info(repo, repo_type="dataset")):
        with pytest.raises(HfHubHTTPError) as caught:
            ask()
        assert caught.value.response.status_code == 401
        assert not isinstance(caught.value, RepositoryNotFoundError)


def test_a_repository_is_created_once(hub, api):
    url = api.create_repo(REPO, repo_type="dataset", private=True)
    assert (url.repo_id, url.repo_type, url.endpoint) == (REPO, "dataset", hub.endpoint)
    assert hub.repos[REPO].private
    with pytest.raises(HfHubHTTPError) as caught:
        api.create_repo(REPO, repo_type="dataset")
    assert caught.value.response.status_code == 409
    assert api.create_repo(REPO, repo_type="dataset", exist_ok=True) == url
    assert [commit.title for commit in hub.commits(REPO)] == ["initial commit"]


def test_exist_ok_leaves_a_public_repository_public(hub, api, repo):
    api.create_repo(repo, repo_type="dataset", private=True, exist_ok=True)
    assert not api.repo_info(repo, repo_type="dataset").private


def test_a_foreign_namespace_is_forbidden(hub, api):
    with pytest.raises(HfHubHTTPError) as caught:
        api.create_repo("others/name", repo_type="dataset")
    assert caught.value.response.status_code == 403


def test_a_token_that_only_reads_changes_nothing(hub, api, repo):
    reader = HfApi(endpoint=hub.endpoint, token=hub.add_user("reader", ("org",), role="read"))
    assert reader.repo_info(repo, repo_type="dataset").sha == hub.commits(repo)[0].id
    changes = (
        lambda: reader.create_repo("org/other", repo_type="dataset"),
        lambda: publish(reader, {"a.txt": TEXT}),
        lambda: reader.create_tag(repo, tag="v1", repo_type="dataset"),
        lambda: reader.auth_check(repo, repo_type="dataset", write=True),
    )
    for change in changes:
        with pytest.raises(HfHubHTTPError) as caught:
            change()
        assert caught.value.response.status_code == 403
    assert (len(hub.commits(repo)), hub.tags(repo), set(hub.repos)) == (1, {}, {repo})


def test_exist_ok_says_nothing_of_write_access(hub, api, repo):
    """A 403 is hidden where the repository can be read, so it comes with the first commit only."""
    reader = HfApi(endpoint=hub.endpoint, token=hub.add_user("reader", ("org",), role="read"))
    assert reader.create_repo(repo, repo_type="dataset", exist_ok=True).repo_id == repo


def test_to_strangers_a_private_repository_does_not_exist(hub, api):
    hub.create(REPO, private=True)
    stranger = HfApi(endpoint=hub.endpoint, token=hub.add_user("stranger"))
    nobody = HfApi(endpoint=hub.endpoint, token=False)
    for client, status in ((stranger, 404), (nobody, 401)):
        for missing in (REPO, "org/there-is-none"):
            with pytest.raises(RepositoryNotFoundError) as caught:
                client.repo_info(missing, repo_type="dataset")
            assert caught.value.response.status_code == status
    api.auth_check(REPO, repo_type="dataset", write=True)


def test_nobody_reads_a_public_repository_and_writes_none(hub, api, repo):
    nobody = HfApi(endpoint=hub.endpoint, token=False)
    assert nobody.repo_info(repo, repo_type="dataset").id == repo
    with pytest.raises(RepositoryNotFoundError) as caught:
        publish(nobody, {"a.txt": TEXT})
    assert caught.value.response.status_code == 401


# Commits


def test_a_commit_of_small_and_large_files(hub, api, repo):
    before = hub.commits(repo)[0]
    done = publish(api, {"README.md": CARD, "data/a.parquet": BINARY}, message="first", commit_description="why")
    commit = hub.commits(repo)[0]
    assert (commit.id, commit.parent, commit.author) == (done.oid, before, "publisher")
    assert (commit.title, commit.message) == ("first", "why")
    assert {path: file.lfs for path, file in hub.files(repo).items()} == {"README.md": False, "data/a.parquet": True}
    assert (hub.read(repo, "README.md"), hub.read(repo, "data/a.parquet")) == (CARD, BINARY)
    assert hub.uploads() == {SHA256: 1}


def test_what_goes_to_lfs(hub, api, repo):
    """By extension, by size (more than 10 MiB) and by content (a zero byte); text stays in git."""
    long = b'"' + b"x" * (10 * 1024 * 1024) + b'"\n'
    files = {
        "a.parquet": TEXT,
        "deep/er/a.jpg": TEXT,
        "README.md": CARD,
        "manifest.json": b"{}\n",
        "excluded/a.csv": b"a,b\n",
        "long.json": long,
        "exactly.json": long[: 10 * 1024 * 1024],
        "unnamed": b"\0" + TEXT,
        "empty.parquet": b"",
    }
    publish(api, files)
    in_lfs = {path for path, file in hub.files(repo).items() if file.lfs}
    assert in_lfs == {"a.parquet", "deep/er/a.jpg", "long.json", "unnamed"}
    assert {path: hub.read(repo, path) for path in files} == files


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
        for path, file in commit.files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(hub.read(repo, path, commit.id))
            assert git("hash-object", "--no-filters", path) == file.oid
        git("add", "--force", *commit.files)
        who = {"NAME": commit.author, "EMAIL": f"{commit.author}@localhost", "DATE": f"{commit.seconds} +0000"}
        both = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        message = f"{commit.title}\n\n{commit.message}" if commit.message else commit.title
        git("commit", "--quiet", "--no-verify", "--message", message, **both)
        assert git("rev-parse", "HEAD") == commit.id
        for folder, oid in commit.trees.items():
            assert git("rev-parse", f"HEAD:{folder}") == oid


def test_what_is_there_already_is_neither_sent_nor_committed_again(hub, api, repo):
    first = publish(api, {"a.txt": TEXT, "a.parquet": BINARY})
    again = publish(api, {"a.txt": TEXT, "a.parquet": BINARY})
    assert (again.oid, len(hub.asked("commit"))) == (first.oid, 1)
    publish(api, {"copy.parquet": BINARY})
    assert hub.files(repo)["copy.parquet"] == hub.files(repo)["a.parquet"]
    assert hub.uploads() == {SHA256: 1}


def test_objects_without_a_commit_are_kept_for_the_next_try(hub, api, repo):
    """So a publication that broke off after the uploads sends nothing twice."""
    api.preupload_lfs_files(repo, adds(a__b=BINARY), repo_type="dataset")
    assert (hub.files(repo), hub.uploads()) == ({}, {SHA256: 1})
    publish(api, {"a/b": BINARY})
    assert hub.uploads() == {SHA256: 1}


def test_deletions_and_copies(hub, api, repo):
    publish(api, {"a.txt": TEXT, "a.parquet": BINARY, "old/1.txt": TEXT, "old/2.txt": TEXT, "older.txt": TEXT})
    operations = [
        CommitOperationDelete("old/"),
        CommitOperationDelete("older.txt"),
        CommitOperationCopy("a.txt", "b.txt"),
        CommitOperationCopy("a.parquet", "b.parquet"),
    ]
    api.create_commit(repo, operations, commit_message="move", repo_type="dataset")
    files = hub.files(repo)
    assert set(files) == {"a.txt", "b.txt", "a.parquet", "b.parquet"}
    assert (files["a.txt"], files["a.parquet"]) == (files["b.txt"], files["b.parquet"])


def test_a_commit_is_whole_or_nothing(hub, api, repo):
    publish(api, {"a.txt": TEXT})
    operations = [*adds(b=TEXT), CommitOperationDelete("a.txt"), CommitOperationDelete("missing.txt")]
    with pytest.raises(RemoteEntryNotFoundError, match="A file with this name doesn't exist"):
        api.create_commit(repo, operations, commit_message="broken", repo_type="dataset")
    assert (set(hub.files(repo)), len(hub.commits(repo))) == ({"a.txt"}, 2)


def test_a_stale_parent_is_refused(hub, api, repo):
    parent = hub.commits(repo)[0].id
    theirs = hub.commit(repo, {"theirs.txt": TEXT})
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as caught:
        publish(api, {"ours.txt": TEXT}, parent_commit=parent)
    assert caught.value.response.status_code == 412
    assert hub.commits(repo)[0] is theirs
    publish(api, {"ours.txt": TEXT}, parent_commit=theirs.id[:10])
    assert set(hub.files(repo)) == {"ours.txt", "theirs.txt"}


def test_commits_go_to_branches_only(hub, api, repo):
    hub.tag(repo, "v1")
    for revision in ("v1", "nowhere"):
        with pytest.raises(RevisionNotFoundError):
            publish(api, {"a.txt": TEXT}, revision=revision)
    assert len(hub.commits(repo)) == 1


def test_a_card_that_is_no_yaml_stops_before_anything_is_sent(hub, api, repo):
    with pytest.raises(ValueError, match="Invalid metadata in README"):
        publish(api, {"README.md": b"---\na: [\n---\n", "a.parquet": BINARY})
    with pytest.raises(ValueError, match="needs split and path"):
        publish(api, {"README.md": b"---\nconfigs:\n- config_name: a\n  data_files:\n  - path: x\n---\n"})
    assert (hub.uploads(), hub.asked("preupload"), len(hub.commits(repo))) == ({}, [], 1)


def test_a_card_without_metadata_warns(hub, api, repo):
    with pytest.warns(UserWarning, match="metadata in README"):
        publish(api, {"README.md": TEXT})


# LFS


def test_large_objects_come_in_parts(tmp_path):
    with Hub(multipart_above=1000, part_size=2000) as hub, in_process(hub, tmp_path) as api:
        hub.create(REPO)
        path = tmp_path / "file.bin"
        path.write_bytes(BINARY)
        publish(api, {"a.bin": str(path), "b.bin": b"\0" * 1000})
        assert hub.read(REPO, "a.bin") == BINARY
        assert [request.bytes_in for request in hub.asked("lfs_put_part")] == [2000, 2000, 1120]
        assert [request.bytes_in for request in hub.asked("lfs_put")] == [1000]


@pytest.mark.parametrize("sent", [BINARY[:-1], BINARY[:-1] + b"?"], ids=["too short", "damaged"])
def test_bytes_that_are_not_what_was_announced_are_refused(hub, api, repo, sent):
    session = huggingface_hub.get_session()
    answer = session.put(f"{hub.storage}/lfs/{repo}/{SHA256}?size={len(BINARY)}", content=sent)
    assert answer.status_code == 400
    assert (hub.uploads(), hub.repos[repo].objects) == ({}, {})


def test_a_commit_cannot_name_an_object_that_was_not_sent(hub, api, repo):
    lines = [
        {"key": "header", "value": {"summary": "without the bytes"}},
        {"key": "lfsFile", "value": {"path": "a.bin", "algo": "sha256", "oid": SHA256, "size": len(BINARY)}},
    ]
    answer = huggingface_hub.get_session().post(
        f"{hub.endpoint}/api/datasets/{repo}/commit/main",
        content="".join(json.dumps(line) + "\n" for line in lines),
        headers={"Authorization": f"Bearer {hub.token}"},
    )
    assert (answer.status_code, len(hub.commits(repo))) == (400, 1)


# upload_folder


def test_upload_folder_makes_one_commit(hub, api, repo, tmp_path):
    """With Xet it would make several; without it, as here, it is `create_commit`."""
    folder = tmp_path / "folder"
    for number in range(30):
        path = folder / f"data/{number:02}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    hub.commit(repo, {"data/old.parquet": BINARY, "README.md": TEXT})
    api.upload_folder(folder_path=folder, repo_id=repo, repo_type="dataset", delete_patterns="data/*")
    assert set(hub.files(repo)) == {"README.md"} | {f"data/{number:02}.parquet" for number in range(30)}
    assert len(hub.asked("commit")) == 1


def test_what_gitignore_names_is_left_out_without_a_word(hub, api, repo, tmp_path):
    folder = tmp_path / "folder"
    for path in (".state/a.json", "a.parquet", "b.parquet", "deep/b.parquet", "deep/keep.parquet"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(BINARY)
    (folder / ".gitignore").write_text("# rules\n.state/\nb.parquet\n/deep/*.parquet\n!keep.parquet\n")
    api.upload_folder(folder_path=folder, repo_id=repo, repo_type="dataset")
    assert set(hub.files(repo)) == {".gitignore", "a.parquet", "deep/keep.parquet"}
    # The rules that the repository holds count too.
    publish(api, {"b.parquet": BINARY, "c.parquet": TEXT})
    assert set(hub.files(repo)) == {".gitignore", "a.parquet", "c.parquet", "deep/keep.parquet"}


# Listings


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


# The stand-in itself


def test_a_route_that_is_not_there_says_so(hub, api, repo):
    with pytest.raises(HfHubHTTPError, match="the stand-in has no route POST"):
        api.create_branch(repo, branch="other", repo_type="dataset")
    with pytest.raises(HfHubHTTPError, match="dataset repositories only"):
        api.create_repo("org/model")


def test_a_fault_that_never_strikes_fails_the_test():
    with pytest.raises(AssertionError, match="never struck"), Hub() as hub:
        hub.fail("commit")
    with Hub() as hub, pytest.raises(ValueError, match="no route is called"):
        hub.fail("comit")


def test_an_error_inside_the_stand_in_is_raised_at_its_end(tmp_path):
    def broken():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Hub() as hub, in_process(hub, tmp_path) as api:
        hub.create(REPO)
        hub.race(broken)
        with pytest.raises(httpx.RemoteProtocolError):
            publish(api, {"a.txt": TEXT})


def test_a_commit_that_is_refused_by_rules_is_a_bad_request(hub, api, repo):
    """The clients do not check what `HfApi.create_commit` has not sent through preupload; the Hub does."""
    operation = CommitOperationAdd("long.txt", b"x" * (10 * 1024 * 1024 + 1))
    operation._upload_mode = "regular"
    with pytest.raises(BadRequestError, match="larger than 10 MiB"):
        api.create_commit(repo, [operation], commit_message="long", repo_type="dataset")


PUSH = """
import sys
from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download
api = HfApi()
api.create_repo("org/name", repo_type="dataset")
api.create_commit("org/name", [CommitOperationAdd("a.parquet", b"data")], commit_message="m", repo_type="dataset")
print(hf_hub_download("org/name", "a.parquet", repo_type="dataset"))
"""


def test_a_subprocess_knows_no_other_hub(hub, tmp_path, monkeypatch):
    """Nor the machine's own token, caches and proxy."""
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_machine")
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    done = subprocess.run(
        [sys.executable, "-c", PUSH], env=hub.environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "hf-home")
    assert hub.commits(REPO)[0].author == "publisher"


def test_a_stand_in_in_its_own_process(tmp_path):
    with HubProcess() as hub:
        hub.call("create", REPO)
        hub.call("fail", "repo_info", status=500)
        with in_process(hub, tmp_path) as api:
            with pytest.raises(HfHubHTTPError):
                api.repo_info(REPO, repo_type="dataset")
            done = publish(api, {"a.parquet": BINARY})
        assert hub.call("commits", REPO)[0].id == done.oid
        assert hub.call("files", REPO)["a.parquet"].sha256 == SHA256
        assert hub.call("requests")[0].status == 500
