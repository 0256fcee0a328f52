"""Parquet mirrors on the stand-in of the Hub: what is downloaded, what is not, and when it counts as there."""

import shutil
from types import SimpleNamespace

import pytest

from builders.errors import BuildError
from builders.hub import mirror
from builders.hub.mirror import download_mirror, mirror_files
from builders.hub.place import parse_place
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from tests.builders import layouts
from tests.builders.trees import contents, opened
from tests.hub.client import in_process
from tests.sentences import assert_sentence, stops

REPO = "org/mirror"
PLACE = parse_place(f"hf://datasets/{REPO}")
IMAGENET = SOURCES["imagenet"]


@pytest.fixture
def mirrored(hub, api, only_loopback):
    """The Hub holds these files of a dataset."""

    def commit(files, repo=REPO, branch="main"):
        if repo not in hub.repos:
            hub.create(repo)
        if branch not in hub.repos[repo].branches:
            hub.repos[repo].branches[branch] = hub.repos[repo].branches["main"]
        return hub.commit(repo, files, branch=branch)

    return commit


@pytest.fixture
def fetch(tmp_path, naps):
    """Download partitions of a source into `cache`; returns the source's folder."""

    def run(source, *partitions, place=PLACE, log=lambda line: None):
        files = mirror_files(source, place, partitions or tuple(source.expected()), tmp_path / "cache", log)
        return download_mirror(source, files, log, quiet=True)

    return run


def parquet_of(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.parquet"))}


def names(*paths):
    """Files that no reader sees, under these names."""
    return {path: f"the content of {path}".encode() for path in paths}


def there(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.parquet"))


def test_a_mirror_is_read_as_the_demo_itself(mirrored, fetch, demo, laid_out):
    root = laid_out("imagenet", layouts.imagenet_parquet)
    mirrored(parquet_of(root))
    folder = fetch(IMAGENET)
    assert contents(open_source(IMAGENET, folder, ("train", "val"))) == contents(opened("imagenet", demo["imagenet"]))


def test_only_the_partitions_that_are_needed_are_downloaded(mirrored, fetch, hub):
    parts = ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001", "test-00000-of-00001")
    mirrored(names(*(f"data/{part}.parquet" for part in parts), "README.md"))
    lines = []
    folder = fetch(IMAGENET, "val", log=lines.append)
    assert there(folder) == ["data/validation-00000-of-00001.parquet"]
    assert lines == [f"{IMAGENET.title}: downloading 1 of 1 files, 53 bytes, into {folder.parents[1]}"]
    assert folder.parent.name == "snapshots"
    assert folder.parents[1].name == "datasets--org--mirror"
    downloads = len(hub.asked("cdn"))
    assert fetch(IMAGENET, "val") == folder
    assert len(hub.asked("cdn")) == downloads
    assert there(fetch(IMAGENET, "train", "val"))[:2] == [f"data/train-0000{n}-of-00002.parquet" for n in (0, 1)]


@pytest.mark.parametrize(
    ("files", "place", "downloaded"),
    [
        (("default/train/0000.parquet", "default/test/0000.parquet"), "", "default/train/0000.parquet"),
        (("a/train-0.parquet", "b/train-0.parquet"), "/b", "train-0.parquet"),
        (("data/train-0.parquet", "data/more/train-0.parquet"), "", "data/train-0.parquet"),
    ],
    ids=["as the Hub converts", "a folder of several", "a folder above others"],
)
def test_files_are_looked_for_where_readers_look_for_them(files, place, downloaded, mirrored, fetch):
    mirrored(names(*files))
    assert there(fetch(SOURCES["cifar100"], "train", place=parse_place(f"{PLACE}{place}"))) == [downloaded]


def test_a_revision_and_a_known_mirrors_folder_are_used(mirrored, fetch):
    mirrored(names("cropped_digits/train-0.parquet", "full_numbers/train-0.parquet"), "ufldl-stanford/svhn")
    at = parse_place("hf://datasets/ufldl-stanford/svhn")
    assert fetch(SOURCES["svhn"], "train", place=at).name == "cropped_digits"
    assert fetch(SOURCES["svhn_full"], "train", place=at).name == "full_numbers"
    mirrored(names("default/test/0000.parquet"), "cais/imagenet-o", branch="refs/convert/parquet")
    at = parse_place(SOURCES["imagenet_o"].obtain.mirror.at)
    assert there(fetch(SOURCES["imagenet_o"], place=at)) == ["default/test/0000.parquet"]


def test_what_a_mirror_does_not_tell_is_asked(mirrored, fetch):
    mirrored(names("a/train-0.parquet", "b/train-0.parquet", "c/val-0.parquet"))
    with stops(BuildError):
        fetch(IMAGENET, "train")
    with stops(BuildError):
        fetch(SOURCES["cifar100"], "test")
    with stops(BuildError):
        fetch(SOURCES["coco2017"])
    with stops(BuildError, "org/mirror", "v9", "127.0.0.1"):
        fetch(IMAGENET, place=parse_place(f"{PLACE}@v9"))
    with stops(BuildError, "org/other"):
        fetch(IMAGENET, place=parse_place("hf://datasets/org/other"))


def test_a_cut_connection_goes_on_and_another_content_is_never_used(mirrored, fetch, hub, monkeypatch):
    data = bytes(range(256)) * 4_000
    mirrored({"data/validation-0.parquet": data})
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 16)  # the client keeps whole ones
    hub.cut("cdn", after=400_000)
    (path,) = fetch(IMAGENET, "val").rglob("*.parquet")
    assert path.read_bytes() == data
    assert any(request.headers.get("range", "").startswith("bytes=") for request in hub.asked("cdn"))
    shutil.rmtree(path.parents[1])
    hub.corrupt("cdn", times=None)
    with stops(BuildError, "data/validation-0.parquet"):
        fetch(IMAGENET, "val")
    assert list(path.parents[3].rglob("*.parquet")) == []


def test_what_was_whole_before_a_failure_is_kept_and_the_rest_is_fetched_later(mirrored, fetch, hub):
    mirrored(names(*(f"data/train-{n}.parquet" for n in range(4))))
    hub.fail("cdn", status=404, skip=2, times=1)
    with stops(BuildError, "data/train-2.parquet"):
        fetch(IMAGENET, "train")
    before = len(hub.asked("cdn"))
    assert len(there(fetch(IMAGENET, "train"))) == 4
    assert len(hub.asked("cdn")) == before + 2
    assert not list(fetch(IMAGENET, "train").parents[1].glob("staging"))


@pytest.mark.parametrize("who", ["nobody", "a stranger"])
def test_a_gated_repository_says_where_to_accept_its_terms_and_how_to_log_in(who, mirrored, hub, tmp_path, naps):
    mirrored(names("data/validation-0.parquet"))
    hub.repos[REPO].gated = "auto"
    stranger = hub.add_user("stranger")
    with in_process(hub, tmp_path / who, token=stranger, anonymous=who == "nobody"):
        files = mirror_files(IMAGENET, PLACE, ("val",), tmp_path / "cache", lambda _: None)
        with pytest.raises(BuildError) as caught:
            download_mirror(IMAGENET, files, lambda _: None, quiet=True)
        message = str(caught.value)
        assert_sentence(message, 401 if who == "nobody" else 403, f"{hub.endpoint}/datasets/{REPO}", "HF_TOKEN")
        assert stranger not in message
        assert naps == []
        hub.repos[REPO].accepted.add("stranger")
        if who == "a stranger":
            root = download_mirror(IMAGENET, files, lambda _: None, quiet=True)
            assert there(root) == ["data/validation-0.parquet"]
            written = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
            assert not any(stranger.encode() in path.read_bytes() for path in written)


def test_a_full_disk_is_told_before_the_download(mirrored, fetch, hub, monkeypatch):
    mirrored(names("data/validation-0.parquet"))
    monkeypatch.setattr(mirror.shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
    with stops(BuildError, "hf://datasets/org/mirror"):
        fetch(IMAGENET, "val")
    assert hub.asked("cdn") == []


def test_no_path_of_a_repository_leaves_the_cache(mirrored, fetch, monkeypatch):
    mirrored(names("data/validation-0.parquet"))
    monkeypatch.setattr(mirror, "_partition", lambda *_: ["../../x.parquet"])
    monkeypatch.setattr(
        "builders.hub.repository.Repository.tree",
        lambda *_: {"../../x.parquet": mirror.RemoteFile("../../x.parquet", 1, "", "")},
    )
    with stops(BuildError):
        fetch(IMAGENET, "val")
