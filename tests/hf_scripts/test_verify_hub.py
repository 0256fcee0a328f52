"""Verifying a version over the Hub: the same checks as on a folder, on exactly the bytes that readers get."""

import json
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest

from hf_scripts import verify
from tests.hf_scripts.conftest import Ran
from tests.hf_scripts.samples import REPO, SPLITS, contents, make_release
from tests.hub.faults import Faults
from tests.hub.samples import BINARY
from tests.sentences import assert_sentence

SHARD = "data/bench/test-00000-of-00001.parquet"


@pytest.fixture
def check(hub, api, only_loopback, tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(target=REPO, *flags):
        capsys.readouterr()
        code = verify.main([target, "--workers", "1", *flags])
        printed = capsys.readouterr()
        assert hub.token not in printed.out + printed.err
        assert str(tmp_path) not in printed.out + printed.err
        return Ran(code, printed.out.splitlines(), printed.err.splitlines())

    return run


@pytest.fixture
def published(push, release, check, tmp_path, monkeypatch):
    assert push("release").code == 0
    monkeypatch.chdir(tmp_path / "here")


def spoil(hub, changes):
    hub.commit(REPO, changes)
    hub.tag(REPO, "v1.0.0")


def problems(ran):
    assert ran.code == 1
    assert "is not whole" in ran.out[-1]
    return [line for line in ran.out[:-1] if not line.startswith("note: ")]


def test_a_whole_version(check, published, hub):
    ran = check(REPO, "--revision", "v1.0.0")
    assert ran.code == 0
    commit = hub.tags(REPO)["v1.0.0"][:12]
    sizes = {path: file.size for path, file in hub.files(REPO).items()}
    # The manifest comes first and tells what else there is; the summary counts what it lists besides the files
    # that it determines.
    size = sum(sizes.values()) - sizes["manifest.json"]
    assert ran.err == [
        "there is no folder org/name; looking for it on the Hub",
        f"downloading org/name at v1.0.0 (commit {commit}) from {hub.endpoint.removeprefix('http://')}: 12 files, "
        f"{size:,} bytes into a temporary folder",
    ]
    size -= sum(sizes[name] for name in ("README.md", "croissant.json", "LICENSE.md"))
    assert ran.out[-1] == (
        f"org/name at v1.0.0 (commit {commit}) is whole: 3 splits, 14 rows, 9 files, {size:,} bytes, all "
        "as manifest.json lists"
    )
    # As JSON, which is alone on stdout.
    again = check(REPO, "--revision", "v1.0.0", "--json")
    document = json.loads("\n".join(again.out))
    values = [document[key] for key in ("whole", "release", "revision", "commit")]
    assert (values, again.err) == ([True, REPO, "v1.0.0", hub.tags(REPO)["v1.0.0"]], ran.err)


def test_images_of_other_splits_are_not_downloaded(check, published, tmp_path, hub):
    ran = check(REPO, "--revision", "v1.0.0", "--splits", "bench/test", "--keep", "kept")
    assert ran.code == 0
    assert "10 files" in ran.err[1]  # without the shards of two splits
    assert [path.name for path in (tmp_path / "here/kept/data").rglob("*.parquet")] == [SHARD.rpartition("/")[2]]
    assert ran.out[-1].endswith("; images of 2 other splits were not read (--splits)")
    assert "has no config or split absent" in check(REPO, "--splits", "absent").error


def test_the_newest_commit_without_a_revision(check, published, push, hub, more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert push("more", tag="v1.1.0").code == 0
    monkeypatch.chdir(tmp_path / "here")
    assert "4 splits" in check().out[-1]
    assert "3 splits" in check(REPO, "--revision", "v1.0.0").out[-1]
    assert "3 splits" in check(REPO, "--revision", hub.tags(REPO)["v1.0.0"]).out[-1]


def test_all_files_are_of_one_commit(check, published, hub):
    """A tag that moves while files are downloaded changes nothing."""
    old = hub.tags(REPO)["v1.0.0"]

    def move(request):
        if request.route == "cdn" and hub.tags(REPO)["v1.0.0"] == old:
            spoil(hub, {SHARD: BINARY, "excluded/bench.csv": b"split\n"})
        return False

    hub.faults.add("fail", move, times=None)
    assert check(REPO, "--revision", "v1.0.0").code == 0
    assert hub.tags(REPO)["v1.0.0"] != old
    hub.faults = Faults()


# What is wrong with a version


def test_stray_damaged_and_missing_files(check, published, hub):
    data = hub.read(REPO, SHARD)
    spoil(hub, {"data/bench/test-00000-of-00002.parquet": BINARY, "LICENSE": b"mine\n"})
    before = len(hub.asked("cdn"))
    assert problems(check(REPO, "--revision", "v1.0.0")) == [
        "LICENSE: manifest.json does not list this file",
        "data/bench/test-00000-of-00002.parquet: manifest.json does not list this file",
    ]
    # Six files in LFS are listed; the stray one is not downloaded.
    assert len(hub.asked("cdn")) - before == 6
    spoil(hub, {SHARD: data[:-1] + bytes([data[-1] ^ 1])})
    assert f"{SHARD}: has the SHA-256 " in "\n".join(problems(check(REPO, "--revision", "v1.0.0")))
    spoil(hub, {SHARD: None})
    assert f"{SHARD}: the file is missing" in problems(check(REPO, "--revision", "v1.0.0"))


# No version to check


def test_a_revision_that_is_not_there(check, published, hub):
    error = check(REPO, "--revision", "v9.0.0").error
    host = hub.endpoint.removeprefix("http://")
    assert_sentence(error, "org/name", "v9.0.0", host, "v1.0.0")


def test_a_repository_that_is_not_there_or_of_something_else(check, hub):
    assert check("org/nothing").error.startswith("There is no dataset org/nothing on 127.0.")
    hub.create(REPO)
    assert_sentence(check().error, "manifest.json")


# Folder or repository


def test_a_folder_comes_first(check, published, hub):
    make_release(Path("org/name"), SPLITS)
    before = len(hub.requests)
    ran = check()
    assert (ran.code, ran.err, len(hub.requests)) == (0, [], before)
    assert ran.out[-1].startswith("org/name is whole: 3 splits")
    error = check(REPO, "--revision", "v1.0.0").error
    assert_sentence(error, "org/name", "--revision", "--keep")


def test_what_can_be_no_repository_is_a_folder(check, hub):
    assert check("a/b/c").error.startswith("There is no folder a/b/c, and a repository")
    assert hub.requests == []


def test_a_download_can_be_kept(check, published, hub):
    assert check(REPO, "--revision", "v1.0.0", "--keep", "kept").code == 0
    files = {path.relative_to("kept").as_posix(): path for path in sorted(Path("kept").rglob("*")) if path.is_file()}
    assert {name: path.read_bytes() for name, path in files.items()} == contents(hub, "v1.0.0")
    assert check("kept").code == 0
    error = check(REPO, "--revision", "v1.0.0", "--keep", "kept").error
    assert_sentence(error, "--keep")


def test_a_kept_download_that_was_interrupted_is_gone_on_with(check, published, hub):
    """Files that are there are not downloaded again, and compared all the same."""
    hub.fail("cdn", status=403, times=None, skip=3)
    flags = (REPO, "--revision", "v1.0.0", "--keep", "kept")
    assert_sentence(check(*flags).error, "403")
    there = sum(path.suffix == ".parquet" for path in Path("kept").rglob("*"))
    spoiled = next(Path("kept").rglob("*.parquet"))
    spoiled.write_bytes(spoiled.read_bytes()[::-1])
    hub.faults = Faults()
    before = len(hub.asked("cdn"))
    assert check(*flags).code == 0
    assert len(hub.asked("cdn")) - before == 6 - there + 1
    assert {path: Path("kept", path).read_bytes() for path in hub.files(REPO)} == contents(hub)
    assert not Path("kept/.cache").exists()


def test_a_kept_download_of_another_version_is_not_gone_on_with(check, published, hub):
    hub.fail("cdn", status=403, times=None, skip=3)
    assert check(REPO, "--keep", "kept").code == 2
    spoil(hub, {"README.md": hub.read(REPO, "README.md") + b"More.\n"})
    assert_sentence(check(REPO, "--keep", "kept").error, "kept", "--keep")


# The network


def test_what_is_cached_is_not_trusted(check, published, hub, tmp_path):
    """A cache of this machine with other bytes under the right name is not what readers get."""
    datasets.load_dataset(REPO, "bench", split="test", revision="v1.0.0")
    spoiled = 0
    for path in sorted((tmp_path / "hf-home").rglob("*.parquet")):
        path.resolve().write_bytes(BINARY)
        spoiled += 1
    assert spoiled == 2
    assert check(REPO, "--revision", "v1.0.0").code == 0


def test_damage_on_the_way_and_errors_that_pass_are_no_damage_of_the_release(check, published, hub, naps):
    hub.corrupt("cdn", times=2)
    ran = check(REPO, "--revision", "v1.0.0")
    assert ran.code == 0
    assert sum("than the Hub lists; trying again" in line for line in ran.err) == 2
    for route in ("repo_info", "tree", "resolve", "cdn"):
        hub.fail(route, status=503)
        hub.drop(route)
    assert check(REPO, "--revision", "v1.0.0").code == 0


def test_a_disk_without_room(check, published, monkeypatch):
    monkeypatch.setattr("hf_scripts.checks.download.shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    error = check(REPO, "--revision", "v1.0.0").error
    assert "The download needs" in error and "has 10 left" in error
