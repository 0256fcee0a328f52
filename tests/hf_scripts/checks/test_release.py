"""Exclusions, near-duplicates, parts and ids, as `verify` checks them."""

from pathlib import Path

from builders.release.tables import read_excluded, write_excluded
from tests.hf_scripts.tampering import built, check, problems, replace, whole
from tests.manifests import entry_of, manifest_of, save_manifest

__all__ = ["built", "check", "whole"]


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
