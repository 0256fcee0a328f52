"""What `verify` says of a manifest and of the files that it lists."""

import pytest

from builders.commands import audit as audit
from hf_scripts import card, export, materialize, push, verify
from tests.builders.conftest import files_of
from tests.hf_scripts.samples import make_release
from tests.hf_scripts.tampering import TEST_SHARD, built, check, copy, image_of, problems, replace, without_notes
from tests.manifests import manifest_of, save_manifest, write_json

__all__ = ["built", "check", "copy", "problems"]


# Manifest


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "manifest.json: it is not valid JSON"),
        ("[]", "manifest.json: expected `object`, got `array`"),
        ('{"format": 1, "benchmarks": {}, "sources": {}}', "manifest.json: object missing required field `configs`"),
    ],
)
def test_a_manifest_that_cannot_be_read(copy, problems, text, sentence):
    replace(copy / "manifest.json", text.encode())
    assert problems()[0].startswith(sentence)


COMMANDS = {
    "card": (card.main, []),
    "card --check": (card.main, ["--check"]),
    "export": (export.main, ["--format", "openood", "--out", "{out}"]),
    "materialize": (materialize.main, ["--splits=bench", "--out", "{out}"]),
    "push": (push.main, ["--repo", "org/name", "--tag", "v1.0.0"]),
    "smoothness": (lambda argv: audit.main(["smoothness", *argv]), ["--splits", "bench"]),
    "duplicates": (lambda argv: audit.main(["duplicates", *argv]), []),
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m["configs"].update({"../../victim": m["configs"]["bench"]}), "key in configs: expected a config"),
        (lambda m: m["configs"]["bench"]["excluded"].update(path="../victim"), "exclusions of bench is ../victim"),
        (lambda m: m["sources"].clear(), "bench/test has rows of the source source, which it does not describe"),
        (lambda m: m["benchmarks"]["bench"].update(demo="no"), "benchmarks[...].demo: expected `bool`, got `str`"),
    ],
    ids=["config", "path", "reference", "type"],
)
def test_every_command_refuses_a_manifest_that_is_none_in_a_sentence(tmp_path, capsys, change, reason):
    root = make_release(tmp_path / "release", {"bench/test": range(2)})
    manifest = manifest_of(root)
    change(manifest)
    write_json(root, manifest)
    before = files_of(tmp_path)
    for command, (main, flags) in COMMANDS.items():
        assert main([str(root), *(flag.format(out=tmp_path / "out") for flag in flags)]) == 2, command
        printed, message = capsys.readouterr()
        assert (printed, message.count("\n"), files_of(tmp_path)) == ("", 1, before), command
        assert message.startswith(f"error: Cannot use {root / 'manifest.json'}: ") and reason in message, command
    assert verify.main([str(root), "--workers", "1"]) == 1
    wrong = message.partition("manifest.json: ")[2].removesuffix(". Build or download the release again.\n")
    assert f"manifest.json: {wrong}\n" in capsys.readouterr().out


def test_another_digest_of_a_split(copy, problems):
    manifest = manifest_of(copy)
    right = manifest["configs"]["imagenet"]["splits"]["test"]["digest"]
    manifest["configs"]["imagenet"]["splits"]["test"]["digest"] = "0" * 64
    save_manifest(copy, manifest)
    assert problems() == [f"imagenet/test: the rows have the digest {right}, not {'0' * 64} as manifest.json lists"]


def test_another_number_of_rows(copy, problems):
    manifest = manifest_of(copy)
    (part,) = manifest["configs"]["imagenet"]["splits"]["test"]["parts"]
    part["rows"] += 1
    part["available"] += 1
    save_manifest(copy, manifest)
    assert problems() == [
        "imagenet/test: its shards have 200 rows, not 201",
        "imagenet/test: its index has 200 rows, not 201",
    ]


# Files


def test_a_flipped_byte_in_an_image(copy, problems):
    path = copy / TEST_SHARD
    data = bytearray(path.read_bytes())
    at = data.find(image_of(copy, TEST_SHARD, 7)) + 400
    data[at] ^= 1
    replace(path, bytes(data))
    sentences = problems()
    assert sentences[0].startswith(f"{TEST_SHARD}: has the SHA-256 ")
    assert sentences[1].startswith(f"{TEST_SHARD} row 7: the image has the digest ")
    assert len(sentences) == 2


def test_a_shard_cut_short(copy, problems):
    data = (copy / TEST_SHARD).read_bytes()
    replace(copy / TEST_SHARD, data[:-1000])
    sentences = problems()
    size = len(data)
    assert sentences[0] == f"{TEST_SHARD}: has {size - 1000:,} bytes, not {size:,} as manifest.json lists"
    assert sentences[1].startswith(f"{TEST_SHARD}: cannot be read as Parquet: ")


def test_a_shard_that_is_gone(copy, problems):
    (copy / TEST_SHARD).unlink()
    assert f"{TEST_SHARD}: the file is missing" in problems()


def test_an_index_that_is_gone(copy, check):
    (copy / "index/imagenet/test.parquet").unlink()
    code, lines = check()
    assert code == 1
    assert "index/imagenet/test.parquet: the file is missing" in without_notes(lines)
    assert "note: splits were not compared with each other, because an index is damaged" in lines


@pytest.mark.parametrize("name", ["data/imagenet/test-00000-of-00002.parquet", "index/notes.txt", "excluded/old.csv"])
def test_a_file_that_the_manifest_does_not_list(copy, problems, name):
    (copy / name).write_bytes(b"")
    assert problems() == [f"{name}: manifest.json does not list this file"]


@pytest.mark.parametrize("name", ["data/imagenet/.test.parquet.12.tmp", ".README.md.12.tmp"])
def test_what_a_killed_run_left(copy, problems, name):
    (copy / name).write_bytes(b"")
    assert problems() == [f"{name}: a temporary file, left by a killed run"]


def test_a_file_that_two_splits_list(copy, problems):
    """It could only be checked as one of the two; a table has one name in a release."""
    manifest = manifest_of(copy)
    splits = manifest["configs"]["imagenet"]["splits"]
    splits["near_ood"]["index"] = splits["test"]["index"]
    write_json(copy, manifest)
    sentence = "the index of imagenet/near_ood is index/imagenet/test.parquet, not index/imagenet/near_ood.parquet"
    assert f"manifest.json: {sentence}" in problems()
