"""What `verify` says of exclusions and of the card."""

import shutil
from pathlib import Path

import pytest

from builders.release.manifest import read_manifest
from builders.release.tables import read_excluded, write_excluded
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks import release
from tests.hf_scripts.samples import make_release
from tests.hf_scripts.tampering import built, check, problems, replace, whole
from tests.manifests import entry_of, manifest_of, save_manifest, typed

__all__ = ["built", "check", "whole"]


# Exclusions and card


def test_an_exclusion_that_is_gone(whole, check):
    path = Path("excluded/imagenet.csv")
    manifest = manifest_of(whole)
    lines = read_excluded(whole / path)
    dropped = next(line for line in lines if line.split == "imagenet/test" and line.images)
    entry = manifest["configs"]["imagenet"]["splits"]["test"]
    (whole / path).unlink()
    write_excluded(whole / path, [line for line in lines if line is not dropped], [])
    manifest["configs"]["imagenet"]["excluded"] = entry_of(whole, path.as_posix())
    save_manifest(whole, manifest)
    code, found = check()
    assert code == 1
    left = entry["excluded"] - dropped.images
    assert problems(found) == [
        f"imagenet/test: {entry['rows']:,} rows and {left:,} excluded images in {path} do not add up to the "
        f"{entry['available']:,} images of the source"
    ]


def test_a_table_of_exclusions_that_cannot_be_read(whole, check):
    manifest = manifest_of(whole)
    replace(whole / "excluded/imagenet.csv", b"one,two\n1,2\n")
    manifest["configs"]["imagenet"]["excluded"] = entry_of(whole, "excluded/imagenet.csv")
    save_manifest(whole, manifest)
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith("excluded/imagenet.csv: cannot be read as a table of exclusions")


def test_an_edited_card(whole, check):
    text = (whole / "README.md").read_text(encoding="utf-8")
    replace(whole / "README.md", text.replace("# Unknown detection\n", "# Known detection\n").encode())
    code, lines = check()
    assert code == 1
    assert len(problems(lines)) == 1
    assert problems(lines)[0].endswith("is '# Known detection', not '# Unknown detection' as manifest.json gives")


def test_a_card_that_names_no_file(whole, check):
    text = (whole / "README.md").read_text(encoding="utf-8")
    replace(whole / "README.md", text.replace("index/imagenet/test.parquet", "index/imagenet/tset.parquet").encode())
    code, lines = check()
    assert code == 1
    assert problems(lines)[0] == ("README.md: index/imagenet/tset.parquet of config imagenet-index matches no file")


def test_a_card_without_a_config(whole, check):
    text = (whole / "README.md").read_text(encoding="utf-8")
    replace(whole / "README.md", text.replace("config_name: imagenet-train\n", "config_name: other\n").encode())
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith("README.md: the configs are imagenet, ")
    assert ", not duplicates, imagenet, " in problems(lines)[0]


@pytest.mark.parametrize("text", ["no front matter\n", "---\nconfigs: [\n---\n", "---\nconfigs: 3\n---\n"])
def test_a_card_whose_front_matter_cannot_be_read(whole, check, text):
    replace(whole / "README.md", text.encode())
    code, lines = check()
    assert code == 1
    assert " YAML " in problems(lines)[0]


def test_a_card_that_is_gone(whole, check):
    (whole / "README.md").unlink()
    code, lines = check()
    assert code == 1
    assert problems(lines) == ["README.md: cannot be read: No such file or directory"]


@pytest.mark.parametrize(("stray", "caught"), [("test-extra-of-00002", True), ("test-00000-of-00003", False)])
def test_a_stray_file_that_a_pattern_of_the_card_would_catch(tmp_path, stray, caught):
    """Other rows would be loaded with the split's. Shards of another number are not caught by its pattern."""
    root = make_release(tmp_path / "release", {"bench/test": range(4)}, shards=2)
    manifest = read_manifest(root)
    assert release.check_card(root, manifest).total() == 0
    files = sorted(file.path for file in manifest.by_key()["bench/test"].data)
    shutil.copy(root / files[0], root / f"data/bench/{stray}.parquet")
    strays = check_manifest.check_unlisted({p.relative_to(root).as_posix() for p in root.rglob("*.parquet")}, manifest)
    assert strays.total() == 1
    found = list(release.check_card(root, manifest).lines())
    there = ", ".join([*files, f"data/bench/{stray}.parquet"])
    expected = f"README.md: bench, split test, has the files {there}, not {', '.join(files)}"
    assert found == ([expected] if caught else [])


def test_a_card_that_lists_every_file(tmp_path):
    """As cards of version 1.0.0 do."""
    root = make_release(tmp_path / "release", {"bench/test": range(4)}, shards=2)
    manifest = manifest_of(root)
    files = sorted(file["path"] for file in manifest["configs"]["bench"]["splits"]["test"]["data"])
    text = (root / "README.md").read_text(encoding="utf-8")
    listed = text.replace("data/bench/test-*-of-00002.parquet", f"[{', '.join(files)}]")
    assert listed != text
    replace(root / "README.md", listed.encode())
    manifest["card"] = entry_of(root, "README.md")
    assert list(release.check_card(root, typed(manifest)).lines()) == []
    replace(root / "README.md", listed.replace(f", {files[1]}", "").encode())
    manifest["card"] = entry_of(root, "README.md")
    expected = f"README.md: bench, split test, has the files {files[0]}, not {', '.join(files)}"
    assert list(release.check_card(root, typed(manifest)).lines()) == [expected]
