"""The command `python -m builders.commands.sources`: its table, and getting files by it."""

import dataclasses
import hashlib
import json

import pytest

from builders.commands import sources as sources
from builders.sources.registry import SOURCES
from tests.builders.fetch.conftest import only_loopback, site, waits

__all__ = ["only_loopback", "site", "waits"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def main(*argv):
        code = sources.main(list(map(str, argv)))
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return main


@pytest.fixture
def dtd(site, monkeypatch):
    """One source whose archive the site has, and it is small."""
    data = b"an archive" * 10_000
    site.files["dtd-r1.0.1.tar.gz"] = data
    source = SOURCES["dtd"]
    (file,) = source.obtain.files
    sha256 = hashlib.sha256(data).hexdigest()
    file = dataclasses.replace(file, size=len(data), url=site.url("dtd-r1.0.1.tar.gz"), sha256=sha256)
    obtain = dataclasses.replace(source.obtain, files=(file,))
    monkeypatch.setitem(SOURCES, "dtd", dataclasses.replace(source, obtain=obtain))
    return data


def test_the_table_has_a_line_for_each_source_and_what_is_here(run, tmp_path):
    (tmp_path / "sources.toml").write_text('imagenet = "there"\ndtd = "hf://datasets/bitmind/dtd"\n')
    code, out, _ = run()
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert list(lines) == ["source", *SOURCES]
    assert lines["imagenet"].endswith("no folder there")
    assert "imagenet (6), cifar (2), facets (12), broad (101)" in lines["imagenet"]
    assert "ids only" in lines["imagenet"]
    assert "Hub (account)" in lines["imagenet"]
    assert lines["dtd"].endswith("hf://datasets/bitmind/dtd")
    assert lines["svhn"].endswith("no")


def test_json_is_for_programs(run):
    code, out, err = run("--json")
    assert (code, err) == (0, "")
    entries = {entry["source"]: entry for entry in json.loads(out)["sources"]}
    assert list(entries) == list(SOURCES)
    assert entries["svhn"]["files"][0]["bytes"] == 182_040_794  # tensorflow/datasets, url_checksums/svhn_cropped.txt


def test_one_source_is_shown_with_its_splits_files_and_layouts(run):
    code, out, _ = run("show", "imagenet")
    assert code == 0
    for shown in (
        "broad-reference/held_out",
        "ILSVRC2012_img_val.tar (6,744,924,160 bytes, SHA-256 c7e06a6c",
        "Hub        --imagenet hf://datasets/ILSVRC/imagenet-1k, once your account has accepted its terms",
        *SOURCES["imagenet"].layouts,
    ):
        assert shown in out


def test_get_downloads_and_prints_the_line_of_the_sources_file(run, dtd, tmp_path):
    code, out, err = run("get", "dtd", "--into", "data")
    assert code == 0, err
    assert (tmp_path / "data" / "dtd" / "dtd-r1.0.1.tar.gz").read_bytes() == dtd
    assert out == f'dtd = "{tmp_path / "data" / "dtd"}"\n'
    assert "dtd: dtd-r1.0.1.tar.gz: downloading http://127.0.0.1" in err


@pytest.mark.parametrize("flag", ["--dry-run", "--quiet"])
def test_a_file_without_a_digest_is_told_before_it_comes(flag, run, site, monkeypatch):
    source = SOURCES["lsun"]
    (file,) = source.obtain.files
    assert file.url.startswith("http://")
    file = dataclasses.replace(file, url=site.url("test_lmdb.zip"))
    obtain = dataclasses.replace(source.obtain, files=(file,))
    monkeypatch.setitem(SOURCES, "lsun", dataclasses.replace(source, obtain=obtain))
    _, _, err = run("get", "lsun", "--into", "data", flag)
    assert err.startswith("note: lsun: test_lmdb.zip comes over plain http, and no digest of it is published.")
    assert err.count("note: ") == 1
    assert run("get", "svhn", "--into", "data", "--dry-run")[2] == ""  # over plain http, but with digests


def test_a_dry_run_counts_and_writes_nothing(run, dtd, site, tmp_path):
    code, out, _ = run("get", "dtd", "imagenet", "lsun_fix", "--into", "data", "--dry-run")
    assert code == 0
    lines = out.splitlines()
    address = site.url("dtd-r1.0.1.tar.gz")
    assert lines[1].split()[:7] == ["dtd", "dtd-r1.0.1.tar.gz", "100,000", "to", "be", "downloaded", address]
    assert lines[3].split()[:3] == ["imagenet", "ILSVRC2012_img_val.tar", "6,744,924,160"]
    assert lines[3].endswith("to be downloaded by hand")
    # The two archives of ImageNet, whose sizes are published.
    by_hand = 147_897_477_120 + 6_744_924_160
    assert lines[5].startswith(
        f"100,000 bytes of disk are needed, and {by_hand:,} more for what is downloaded by hand;"
    )
    free = int(lines[5].partition("hand; ")[2].partition(" bytes")[0].split()[0].replace(",", ""))
    assert lines[5].endswith(f"are free in data: there is {'' if 100_000 + by_hand <= free else 'no '}room")
    assert lines[6].startswith("lsun_fix: by hand, from https://github.com/alinlab/CSI")
    assert site.requests == []
    assert list(tmp_path.iterdir()) == []


def test_names_may_have_hyphens_and_a_partition(run, site):
    code, out, err = run("get", "tiny-imagenet", "places365-val", "svhn-test", "--into", "data", "--dry-run")
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[1:5]] == [
        ["tiny_imagenet", "tiny-imagenet-200.zip", "248,100,043"],
        ["places365", "val_256.tar", "525,158,400"],
        ["places365", "filelist_places365-standard.tar", "67,498,496"],
        ["svhn", "test_32x32.mat", "64,275,384"],
    ]
    assert "http://cs231n.stanford.edu/tiny-imagenet-200.zip or https://image-net.org/data/tiny-imagenet-200" in out
    assert out.splitlines()[5].startswith("905,032,323 bytes of disk are needed and")
    assert err.startswith("note: places365: the owner's page asks for access")
    assert run("show", "tiny-imagenet")[1].startswith("Tiny ImageNet; ")
    code, _, err = run("get", "svhn-extra", "--into", "data")
    assert code == 2 and "'svhn-extra' is not one of" in err


def test_what_is_left_to_do_by_hand_comes_after_what_was_got(run, dtd):
    code, out, err = run("get", "imagenet", "openimage_o", "dtd", "--into", "data", "--quiet")
    assert code == 2
    assert out.startswith("dtd = ")
    assert err.startswith("error: Some files must be downloaded by hand:\n")
    assert "https://www.image-net.org/download.php" in err
    assert "OpenImage-O: go to https://github.com/Jingkang50/OpenOOD" in err
    assert err.endswith("Then run the same command again to check them.\n")


@pytest.mark.parametrize("kind", ["file", "read-only"])
def test_a_folder_that_cannot_be_written_is_one_sentence(kind, run, dtd, tmp_path, monkeypatch):
    if kind == "file":
        (tmp_path / "data").write_text("")
    else:
        (tmp_path / "data").mkdir()
        # Root may write anywhere, so the folder refuses by itself.
        monkeypatch.setattr("builders.fetch.get.file_lock", refuse)
    code, out, err = run("get", "dtd", "--into", "data", "--quiet")
    assert (code, out) == (2, "")
    assert ("is a file" in err) if kind == "file" else ("read-only file system" in err)


def refuse(*_):
    raise OSError(30, "Read-only file system", "data")


def test_a_disk_that_fills_up_is_one_sentence_and_keeps_what_there_is(run, dtd, tmp_path, monkeypatch):
    def advance(*_):
        raise OSError(28, "No space left on device", "data/dtd/dtd-r1.0.1.tar.gz.part")

    monkeypatch.setattr("unknown_detection.terminal.progress.tqdm.update", advance)
    code, _, err = run("get", "dtd", "--into", "data", "--quiet")
    assert code == 2
    assert "dtd-r1.0.1.tar.gz.part: no space left on device. Fix this and run the same command again." in err
    assert [path.name for path in (tmp_path / "data" / "dtd").iterdir()] == ["dtd-r1.0.1.tar.gz.part"]


def test_ctrl_c_is_one_sentence_and_the_next_run_goes_on(run, dtd, site, monkeypatch):
    def advance(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("unknown_detection.terminal.progress.tqdm.update", advance)
        code, _, err = run("get", "dtd", "--into", "data", "--quiet")
    assert (code, err.lstrip()) == (130, "stopped; run the same command again and it goes on where it stopped.\n")
    assert run("get", "dtd", "--into", "data", "--quiet")[0] == 0
    assert site.asked()[-1].startswith("bytes=")
