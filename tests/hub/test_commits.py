"""What the real huggingface_hub sends and commits arrives as it should, or not at all."""

import json
import os
import shutil
import subprocess

import huggingface_hub
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi
from huggingface_hub.errors import BadRequestError, HfHubHTTPError, RemoteEntryNotFoundError, RevisionNotFoundError

from tests.hub.client import in_process
from tests.hub.samples import BINARY, CARD, REPO, SHA256, TEXT, publish
from tests.hub.server import Hub


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


def test_a_card_that_is_too_large(hub, api, repo, monkeypatch):
    """The client asks first and sends nothing; a client that does not ask is refused at the commit."""
    hub.most_card = len(CARD)
    publish(api, {"README.md": CARD})
    with pytest.raises(HfHubHTTPError) as checked:
        publish(api, {"README.md": CARD + b"!", "a.parquet": BINARY})
    assert checked.value.response.status_code == 413
    assert hub.uploads() == {}
    monkeypatch.setattr(HfApi, "_validate_yaml", lambda *args, **kwargs: None)
    with pytest.raises(HfHubHTTPError) as committed:
        publish(api, {"README.md": CARD + b"!"})
    assert committed.value.response.status_code == 413
    assert hub.read(repo, "README.md") == CARD


def test_what_is_there_already_is_neither_sent_nor_committed_again(hub, api, repo):
    first = publish(api, {"a.txt": TEXT, "a.parquet": BINARY})
    again = publish(api, {"a.txt": TEXT, "a.parquet": BINARY})
    assert (again.oid, len(hub.asked("commit"))) == (first.oid, 1)
    publish(api, {"copy.parquet": BINARY})
    assert hub.files(repo)["copy.parquet"] == hub.files(repo)["a.parquet"]
    assert hub.uploads() == {SHA256: 1}


def test_objects_without_a_commit_are_kept_for_the_next_try(hub, api, repo):
    """So a publication that broke off after the uploads sends nothing twice."""
    api.preupload_lfs_files(repo, [CommitOperationAdd("a/b", BINARY)], repo_type="dataset")
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
    operations = [CommitOperationAdd("b", TEXT), CommitOperationDelete("a.txt"), CommitOperationDelete("missing.txt")]
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


def test_a_commit_that_is_refused_by_rules_is_a_bad_request(hub, api, repo):
    """The clients do not check what `HfApi.create_commit` has not sent through preupload; the Hub does."""
    operation = CommitOperationAdd("long.txt", b"x" * (10 * 1024 * 1024 + 1))
    operation._upload_mode = "regular"
    with pytest.raises(BadRequestError, match="larger than 10 MiB"):
        api.create_commit(repo, [operation], commit_message="long", repo_type="dataset")


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
