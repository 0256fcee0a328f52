"""Publishing with the real client to the stand-in: what is there afterwards, and what is refused before."""

import csv
import errno
import hashlib
import json
import os
import re

import datasets
import pyarrow.parquet as pq
import pytest
import yaml

from builders import facets_benchmark
from builders.release.digests import lines_digest
from builders.release.layout import Layout
from builders.release.schema import arrow_schema
from builders.release.tables import read_excluded
from hf_scripts import push as push_command
from hf_scripts import verify
from tests.builders.conftest import files_of
from tests.hf_scripts.samples import LABELS, REPO, SPLITS, make_release, manifest_at, write_revision
from tests.sentences import assert_sentence

FILES = {
    "README.md",
    "croissant.json",
    "LICENSE.md",
    "manifest.json",
    "CHANGELOG.md",
    "excluded/bench.csv",
    "excluded/bench-train.csv",
    "index/bench/test.parquet",
    "index/bench/near_ood.parquet",
    "index/bench-train/train.parquet",
    "data/bench/test-00000-of-00001.parquet",
    "data/bench/near_ood-00000-of-00001.parquet",
    "data/bench-train/train-00000-of-00001.parquet",
}
CHANGES = ("create_repo", "preupload", "lfs_batch", "lfs_put", "commit", "create_tag")


def card_at(hub, revision="main"):
    """The patterns of every config's splits in the card's YAML."""
    front = yaml.safe_load(hub.read(REPO, "README.md", revision).decode().split("---\n")[1])
    return {c["config_name"]: {f["split"]: f["path"] for f in c["data_files"]} for c in front["configs"]}


@pytest.fixture
def is_whole(capsys):
    """Whether a revision, written to a folder, is a whole release."""

    def check(root, hub, revision="main"):
        code = verify.main([str(write_revision(hub, root, revision)), "--workers", "1"])
        capsys.readouterr()
        return code == 0

    return check


# Publishing


def test_a_first_version(push, is_whole, hub, release, tmp_path):
    (release / ".state").mkdir()
    (release / ".state/bench.json").write_text("{}")
    before = files_of(release)
    ran = push("release")
    assert (ran.code, files_of(release)) == (0, before)
    assert set(hub.files(REPO)) == FILES
    assert [commit.title for commit in hub.commits(REPO)] == ["Publish v1.0.0", "initial commit"]
    assert hub.tags(REPO) == {"v1.0.0": hub.commits(REPO)[0].id}
    unchanged = FILES - {"README.md", "croissant.json", "LICENSE.md", "manifest.json", "CHANGELOG.md"}
    assert all(hub.read(REPO, path) == (release / path).read_bytes() for path in unchanged)
    assert (manifest_at(hub)["version"], manifest_at(hub)["previous"]) == ("1.0.0", "")
    assert is_whole(tmp_path / "there", hub, "v1.0.0")
    size = sum(file.size for file in hub.files(REPO).values())
    assert f"to upload: 13 files, {size:,} bytes, in 1 commit; unchanged: 0 files; to delete: 0" in ran.out
    assert ran.out[-2].endswith("its 13 files, read back, match manifest.json")
    assert ran.out[-1] == f'load_dataset("{REPO}", "bench", split="test", revision="v1.0.0")'


def test_the_same_again_changes_nothing_also_after_a_later_version(push, hub, release, more):
    push("release")
    for tag in ("v1.0.0", "v1.1.0"):
        before = len(hub.requests)
        ran = push("release")
        assert ran.code == 0
        assert any("has this release already; nothing was changed" in line for line in ran.out)
        assert not {request.route for request in hub.requests[before:]} & set(CHANGES)
        assert tag == "v1.1.0" or push("more", tag="v1.1.0").code == 0


def test_new_splits_join_those_that_are_there(push, is_whole, hub, release, tmp_path):
    push("release")
    first, uploads = manifest_at(hub), hub.uploads()
    make_release(tmp_path / "more", {"bench/far_ood": range(5), "other/test": range(7, 9)})
    ran = push("more", tag="v1.1.0")
    assert ran.code == 0
    second = manifest_at(hub)
    assert (second["version"], second["previous"]) == ("1.1.0", "1.0.0")
    for name in ("bench", "bench-train"):
        for split, entry in first["configs"][name]["splits"].items():
            assert second["configs"][name]["splits"][split] == entry
    assert set(card_at(hub)["bench"]) == {"test", "near_ood", "far_ood"}
    assert set(card_at(hub)) == {"bench", "bench-train", "other", "bench-index", "bench-train-index", "other-index"}
    assert all(hub.uploads()[oid] == 1 for oid in uploads)
    assert len(hub.uploads()) == len(uploads) + 4
    assert is_whole(tmp_path / "there", hub, "v1.1.0")
    excluded = read_excluded(tmp_path / "there/excluded/bench.csv")
    assert sorted(line.split for line in excluded) == ["bench/far_ood", "bench/near_ood", "bench/test"]
    assert len(hub.commits(REPO)) == 3


def test_a_replaced_split_takes_its_old_files_with_it(push, is_whole, hub, tmp_path):
    make_release(tmp_path / "a", SPLITS, shards=2)
    make_release(tmp_path / "b", {"bench/test": range(1, 7)}, shards=1)
    assert push("a").code == 0
    assert "data/bench/test-00001-of-00002.parquet" in hub.files(REPO)
    ran = push("b", tag="v2.0.0")
    assert ran.code == 0
    tests = [path for path in hub.files(REPO) if path.startswith("data/bench/test")]
    assert tests == ["data/bench/test-00000-of-00001.parquet"]
    assert any(line.endswith("to delete: 2") for line in ran.out)
    assert is_whole(tmp_path / "there", hub)


def test_a_split_alone_is_published_and_the_next_joins_it(push, hub, release, is_whole, tmp_path):
    assert push("release", "--splits", "bench/test").code == 0
    assert {path for path in hub.files(REPO) if path.startswith("data/")} == {"data/bench/test-00000-of-00001.parquet"}
    assert is_whole(tmp_path / "first", hub)
    assert push("release", "--splits", "bench/near_ood,bench-train", tag="v1.1.0").code == 0
    assert set(hub.files(REPO)) - {"changes/v1.1.0.csv"} == FILES
    assert is_whole(tmp_path / "second", hub)
    configs, built = manifest_at(hub)["configs"], json.loads((release / "manifest.json").read_text())["configs"]
    splits, built_splits = ({name: config["splits"] for name, config in all_.items()} for all_ in (configs, built))
    assert splits == built_splits


def test_rows_without_images(push, hub, release, api):
    ran = push("release", "--index-only")
    assert ran.code == 0
    assert set(hub.files(REPO)) == {path for path in FILES if not path.startswith("data/")}
    assert set(card_at(hub)) == {"bench-index", "bench-train-index"}
    assert ran.out[-1] == f'load_dataset("{REPO}", "bench-index", split="test", revision="v1.0.0")'
    rows = datasets.load_dataset(REPO, "bench-index", split="test", revision="v1.0.0")
    assert rows["id"] == [f"source/test/{number}.png" for number in range(4)]
    assert "image" not in rows.features


def test_images_can_follow_and_are_not_lost_by_accident(push, hub, release):
    push("release", "--index-only")
    assert push("release", tag="v1.1.0").code == 0
    assert set(hub.files(REPO)) == FILES
    error = push("release", "--index-only", tag="v1.2.0").error
    assert_sentence(error, "bench-train/train", "--tag v2.0.0")


# Reading what was published


@pytest.mark.parametrize("streaming", [False, True])
def test_load_dataset_reads_all_splits_of_several_shards(push, api, tmp_path, streaming):
    make_release(tmp_path / "release", SPLITS, shards=2)
    assert push("release").code == 0
    for config, image in (("bench", True), ("bench-index", False)):
        loaded = datasets.load_dataset(REPO, config, revision="v1.0.0", streaming=streaming)
        assert set(loaded) == {"test", "near_ood"}
        for split, rows in loaded.items():
            schema = arrow_schema(LABELS, image=image)
            assert rows.features == datasets.Features.from_arrow_schema(schema)
            assert [row["id"] for row in rows] == [f"source/{split}/{number}.png" for number in range(4)]


def test_a_split_of_several_roles_and_sources(push, hub, api, demo, tmp_path):
    """Build the demo, push, load: what a person does first."""
    flags = ["--splits", "facets-baseline/test", "--limit-per-class", "1", "--allow-partial", "--quiet"]
    source = ["--places365", str(demo["places365"]), "--svhn_full", str(demo["svhn_full"])]
    assert facets_benchmark.main([*source, *flags, "--workers", "1", "--out", "built"]) == 0
    assert push("built", "--private").code == 0
    assert hub.repos[REPO].private
    rows = datasets.load_dataset(REPO, "facets-baseline", split="test", revision="v1.0.0")
    built = manifest_at(hub)["configs"]["facets-baseline"]["splits"]["test"]
    assert lines_digest(rows.data.table, ("id", "label", "role", "content_sha256")) == built["digest"]
    assert set(rows["source"]) == {"places365", "svhn_full"}
    assert {part["source"] for part in built["parts"]} == {"places365", "svhn_full"}


# Looking first


def test_a_dry_run_changes_nothing(push, hub, release):
    document = json.loads("\n".join(push("release", "--dry-run", "--json").out))
    ran = push("release", "--dry-run")
    assert document == {
        "schema": 1,
        "command": "push",
        "repository": REPO,
        "repository_exists": False,
        "tag": "v1.0.0",
        "published_already": False,
        "change": "first release",
        "upload": sorted(FILES),
        "upload_bytes": document["upload_bytes"],
        "delete": [],
        "unchanged_files": 0,
    }
    uploads = f"to upload: {len(FILES)} files, {document['upload_bytes']:,} bytes, in 1 commit; unchanged: 0 files; "
    assert uploads + "to delete: 0" in ran.out
    assert ran.code == 0
    assert any(line.startswith("to upload: 13 files") for line in ran.out)
    assert (hub.repos, {request.route for request in hub.requests}) == ({}, {"whoami", "repo_info", "refs"})


def test_a_dry_run_needs_no_token(push, hub, release, monkeypatch):
    push("release", "--index-only")
    monkeypatch.delenv("HF_TOKEN")
    before = len(hub.requests)
    ran = push("release", "--dry-run", tag="v1.1.0")
    assert ran.code == 0
    assert "there is no token, so only public information is read" in ran.out
    # Three shards, the card, the Croissant metadata, the manifest and the changelog; the indexes, the licences
    # and the tables of exclusions are there.
    assert any(re.match(r"to upload: 7 files, .*unchanged: 6 files; to delete: 0", line) for line in ran.out)
    assert not {request.route for request in hub.requests[before:]} & set(CHANGES)


def test_too_many_files_are_refused(push, hub, release):
    error = push("release", "--max-files", "10").error
    assert_sentence(error, "--max-files 13")
    assert push("release", "--max-files", "13").code == 0


# What is refused before anything is sent


def _refused(push, hub, *arguments, **more):
    before = len(hub.requests)
    error = push(*arguments, **more).error
    assert not {request.route for request in hub.requests[before:]} & set(CHANGES)
    return error


def test_a_damaged_folder(push, hub, release):
    path = release / "data/bench/test-00000-of-00001.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(bytes(data))
    error = _refused(push, hub, "release")
    assert_sentence(error, "data/bench/test-00000-of-00001.parquet:", "SHA-256")


@pytest.mark.parametrize("path", ["excluded/bench.csv", "data/bench/test-00000-of-00001.parquet"])
def test_a_folder_that_lacks_a_file(push, hub, release, path):
    (release / path).unlink()
    error = _refused(push, hub, "release")
    assert path in error
    assert_sentence(error)


def test_a_folder_without_a_release(push, hub, tmp_path):
    (tmp_path / "empty").mkdir()
    assert_sentence(_refused(push, hub, "empty"), "manifest.json")


@pytest.mark.parametrize("path", ["train.csv", ".gitignore", "data/bench/test-00000-of-00001.parquet"])
def test_a_repository_of_something_else(push, hub, release, path):
    hub.create(REPO)
    hub.commit(REPO, {path: b"mine\n", "README.md": b"# Mine\n"})
    error = _refused(push, hub, "release")
    assert_sentence(error, path, "manifest.json")


def test_a_repository_with_nothing_but_a_card_is_empty(push, hub, release):
    """As somebody leaves it who began on the website."""
    hub.create(REPO)
    hub.commit(REPO, {"README.md": b"# To come\n"})
    assert push("release").code == 0
    assert hub.read(REPO, "README.md").startswith(b"---\n")


def test_a_manifest_of_another_format(push, hub, release):
    push("release")
    hub.commit(REPO, {"manifest.json": b'{"format": 99}'})
    error = _refused(push, hub, "release", tag="v1.1.0")
    assert re.search(r"Cannot read the manifest\.json of org/name at [0-9a-f]{12}: its format is 99, and", error)


def test_a_release_with_other_files_beside_it(push, hub, release, more):
    """Else `.gitignore`, for one, could make the Hub drop files without a word."""
    push("release")
    hub.commit(REPO, {".gitignore": b"*.csv\n"})
    error = _refused(push, hub, "more", tag="v1.1.0")
    assert_sentence(error, "org/name at")


def test_a_repository_that_lacks_a_file_that_stays(push, hub, release, more, tmp_path):
    push("release")
    hub.commit(REPO, {"index/bench/test.parquet": None})
    error = _refused(push, hub, "more", tag="v1.1.0")
    assert_sentence(error, "org/name at", "index/bench/test.parquet")
    # Whoever has all splits can put it back.
    make_release(tmp_path / "all", SPLITS, edition="another edition")
    assert push("all", tag="v1.0.1").code == 0
    assert "index/bench/test.parquet" in hub.files(REPO)


def test_a_table_that_stays_and_was_edited(push, hub, release, more):
    """To one of as many bytes: the Hub tells no SHA-256 of small files."""
    push("release")
    table = hub.read(REPO, "excluded/bench-train.csv")
    hub.commit(REPO, {"excluded/bench-train.csv": table[:-2] + b"?\n"})
    error = _refused(push, hub, "more", tag="v1.1.0")
    assert_sentence(error, "org/name at", "excluded/bench-train.csv")


def test_what_was_edited_on_the_hub_is_named_and_replaced(push, is_whole, hub, release, more, tmp_path):
    """With the next version, or one that changes nothing else."""
    push("release")
    for folder, tag in (("release", "v1.0.1"), ("more", "v1.1.0")):
        hub.commit(REPO, {"README.md": hub.read(REPO, "README.md") + b"\nMine.\n"})
        ran = push(folder, tag=tag)
        assert ran.code == 0
        assert [line for line in ran.out if line.startswith("note: ")] == [
            "note: README.md of org/name is not as it was published; this version replaces it"
        ]
        assert is_whole(tmp_path / tag, hub, tag)
    assert "- Metadata: `README.md`." in hub.read(REPO, "CHANGELOG.md", "v1.0.1").decode()
    assert "there is nothing to publish as v1.1.1" in push("more", tag="v1.1.1").error


def test_splits_of_other_choices(push, hub, release, tmp_path):
    """Each of them is in `publish/test_merge.py`."""
    push("release")
    make_release(tmp_path / "seed", {"bench/far_ood": range(4)}, seed=1)
    assert "Benchmark bench was built with seed " in _refused(push, hub, "seed", tag="v1.1.0")
    # Where nothing of the benchmark stays, its choices are free.
    make_release(tmp_path / "all", SPLITS, seed=1, labels=("n02", "n01"))
    assert push("all", tag="v2.0.0").code == 0


# Files of a version that nothing of ours writes locally


def test_every_file_is_listed_with_its_digest(push, hub, release, more):
    push("release")
    push("more", tag="v1.1.0")
    listed = {entry["path"]: entry for entry in manifest_at(hub)["changelog"]}
    assert set(listed) == {"CHANGELOG.md", "changes/v1.1.0.csv"}
    for path, entry in listed.items():
        assert entry["sha256"] == hashlib.sha256(hub.read(REPO, path)).hexdigest()
    rows = list(csv.reader(hub.read(REPO, "changes/v1.1.0.csv").decode().splitlines()))
    assert rows == [
        ["split", "change", "id"],
        *(["bench/far_ood", "added", f"source/far_ood/{number}.png"] for number in range(4)),
    ]


def test_a_downloaded_version_can_be_published_elsewhere(push, hub, release, tmp_path):
    push("release")
    write_revision(hub, tmp_path / "there")
    assert push("there", repo="org/copy").code == 0
    assert set(hub.files("org/copy")) == FILES
    schema = pq.read_schema(Layout(tmp_path / "there").index("bench/test"))
    assert b"huggingface" in schema.metadata


def test_a_temporary_folder_that_refuses_links_is_named_and_nothing_is_published(
    push, hub, release, more, monkeypatch, capsys
):
    """As vfat does, and some network disks; the remaining splits' indexes are linked there to be looked at."""
    assert push("release").code == 0

    def refuse(link, target, **_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(target), None, str(link))

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    assert push_command.main(["more", "--repo", REPO, "--tag", "v1.1.0", "--workers", "1"]) == 2
    sentence = "Cannot write files of the next version to the temporary folder: "
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(f"error: {sentence}.*/index/bench/.*parquet: operation not permitted. Fix this .*", said)
    assert list(hub.tags(REPO)) == ["v1.0.0"]
