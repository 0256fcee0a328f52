"""What `verify` says of a manifest and of the files that it lists."""

import pytest

from tests.hf_scripts.tampering import TEST_SHARD, built, check, image_of, problems, replace, whole
from tests.manifests import manifest_of, save_manifest, write_json

__all__ = ["built", "check", "whole"]


# Manifest


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "manifest.json: it is not valid JSON"),
        ("[]", "manifest.json: expected `object`, got `array`"),
        (
            '{"format": 1, "benchmarks": {}, "sources": {}}',
            "manifest.json: object missing required field `configs`",
        ),
    ],
)
def test_a_manifest_that_cannot_be_read(whole, check, text, sentence):
    replace(whole / "manifest.json", text.encode())
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith(sentence)


def test_a_manifest_that_leads_out_of_the_release(whole, check):
    manifest = manifest_of(whole)
    manifest["configs"]["imagenet"]["splits"]["test"]["index"]["path"] = "index/../../elsewhere.parquet"
    write_json(whole, manifest)
    code, lines = check()
    assert code == 1
    assert "index/../../elsewhere.parquet of imagenet/test does not lie in data, index, excluded" in problems(lines)[0]


def test_a_key_of_another_type(whole, check):
    manifest = manifest_of(whole)
    manifest["configs"]["imagenet"]["splits"]["test"]["rows"] = "400"
    write_json(whole, manifest)
    code, lines = check()
    assert code == 1
    assert problems(lines) == ["manifest.json: configs.imagenet.splits.test.rows: expected `int`, got `str`"]


def test_another_digest_of_a_split(whole, check):
    manifest = manifest_of(whole)
    right = manifest["configs"]["imagenet"]["splits"]["test"]["digest"]
    manifest["configs"]["imagenet"]["splits"]["test"]["digest"] = "0" * 64
    save_manifest(whole, manifest)
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"imagenet/test: expected rows digest {'0' * 64}, found {right}"]


def test_another_number_of_rows(whole, check):
    manifest = manifest_of(whole)
    manifest["configs"]["imagenet"]["splits"]["test"]["rows"] += 1
    manifest["configs"]["imagenet"]["splits"]["test"]["available"] += 1
    save_manifest(whole, manifest)
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        "imagenet/test: expected 201 rows, found 200 in its shards",
        "imagenet/test: expected 201 rows, found 200 in its index",
    ]


# Files


def test_a_flipped_byte_in_an_image(whole, check):
    path = whole / TEST_SHARD
    data = bytearray(path.read_bytes())
    at = data.find(image_of(whole, TEST_SHARD, 7)) + 400
    data[at] ^= 1
    replace(path, bytes(data))
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith(f"{TEST_SHARD}: expected SHA-256 ")
    assert problems(lines)[1].startswith(f"{TEST_SHARD} row 7: expected an image with content_sha256 ")
    assert len(problems(lines)) == 2


def test_a_shard_cut_short(whole, check):
    data = (whole / TEST_SHARD).read_bytes()
    replace(whole / TEST_SHARD, data[:-1000])
    code, lines = check()
    assert code == 1
    size = len(data)
    assert problems(lines)[0] == f"{TEST_SHARD}: expected {size:,} bytes, found {size - 1000:,}"
    assert problems(lines)[1].startswith(f"{TEST_SHARD}: expected a readable Parquet file, found ")


def test_a_shard_that_is_gone(whole, check):
    (whole / TEST_SHARD).unlink()
    code, lines = check()
    assert code == 1
    assert f"{TEST_SHARD}: expected a file, found none" in problems(lines)
    assert f"README.md: expected {TEST_SHARD} of config imagenet to match files, found none" in problems(lines)


def test_an_index_that_is_gone(whole, check):
    (whole / "index/imagenet/test.parquet").unlink()
    code, lines = check()
    assert code == 1
    assert "index/imagenet/test.parquet: expected a file, found none" in problems(lines)
    assert "note: splits were not compared with each other, since an index cannot be read" in lines


@pytest.mark.parametrize("name", ["data/imagenet/test-00000-of-00002.parquet", "index/notes.txt", "excluded/old.csv"])
def test_a_file_that_the_manifest_does_not_list(whole, check, name):
    (whole / name).write_bytes(b"")
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{name}: expected only files that manifest.json lists, found this one"]


@pytest.mark.parametrize("name", ["data/imagenet/.test.parquet.12.tmp", ".README.md.12.tmp"])
def test_what_a_killed_run_left(whole, check, name):
    (whole / name).write_bytes(b"")
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{name}: expected no temporary file, found what a killed run left"]
