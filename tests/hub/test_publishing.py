"""Publishing to the stand-in with the installed clients, also when it falters.

What the clients retry, and what reaches their caller, who must handle what they do not. `waits` is what the clients
would have waited, in seconds; `httpx` is what huggingface_hub uses under that name, httpx2 since its version 2.
"""

import json
import os
import shutil
import subprocess

import huggingface_hub
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi
from huggingface_hub.errors import BadRequestError, HfHubHTTPError, RemoteEntryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import httpx

from tests.hub.client import in_process
from tests.hub.samples import BACKOFF, BINARY, CARD, LARGE, LARGE_SHA256, REPO, SHA256, TEXT, publish, refusal
from tests.hub.server import Hub

HTML = "<html><body>503 Service Temporarily Unavailable</body></html>"


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
        identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        message = f"{commit.title}\n\n{commit.message}" if commit.message else commit.title
        git("commit", "--quiet", "--no-verify", "--message", message, **identity)
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
    repeated = publish(api, {"a.txt": TEXT, "a/b": BINARY})
    assert (repeated.oid, len(hub.asked("commit"))) == (first.oid, 1)
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
    repeated = publish(api, {"a.txt": TEXT}, parent_commit=parent)
    assert repeated.oid == hub.commits(repo)[0].id
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

    def delete(**options):
        operations = [CommitOperationDelete("old.txt")]
        api.create_commit(repo, operations, commit_message="delete", repo_type="dataset", **options)

    for status in (412, 404):
        hub.commit(repo, {"old.txt": TEXT})
        condition = {"parent_commit": hub.commits(repo)[0].id} if status == 412 else {}
        hub.lose_response()
        with pytest.raises(httpx.RemoteProtocolError):
            delete(**condition)
        with refusal(status) as caught:
            delete(**condition)
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
