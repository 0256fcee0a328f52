"""The dataset card, as `verify` checks it: its digest, its YAML, and the files that its patterns match."""

import os
import shutil

import pytest

from builders.release.manifest import read_manifest
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks.card import check_card, match
from tests.hf_scripts.samples import make_release
from tests.hf_scripts.tampering import built, check, problems, replace, whole
from tests.manifests import entry_of, manifest_of, typed

__all__ = ["built", "check", "whole"]


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
    assert problems(lines)[:2] == [
        "README.md: config imagenet-train is missing",
        "README.md: config other is not in manifest.json",
    ]


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
    assert check_card(root, manifest).total() == 0
    files = sorted(file.path for file in manifest.by_key()["bench/test"].data)
    shutil.copy(root / files[0], root / f"data/bench/{stray}.parquet")
    strays = check_manifest.check_unlisted({p.relative_to(root).as_posix() for p in root.rglob("*.parquet")}, manifest)
    assert strays.total() == 1
    found = list(check_card(root, manifest).lines())
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
    assert list(check_card(root, typed(manifest)).lines()) == []
    replace(root / "README.md", listed.replace(f", {files[1]}", "").encode())
    manifest["card"] = entry_of(root, "README.md")
    expected = f"README.md: bench, split test, has the files {files[0]}, not {', '.join(files)}"
    assert list(check_card(root, typed(manifest)).lines()) == [expected]


# Cards in bad faith


@pytest.fixture
def small(tmp_path):
    """A release, and its card's problems after an edit of the card that the manifest lists."""
    root = make_release(tmp_path / "release", {"bench/test": range(4)}, shards=2)
    text = (root / "README.md").read_text(encoding="utf-8")

    def edit(change):
        card = change(text) if callable(change) else change
        replace(root / "README.md", card if isinstance(card, bytes) else card.encode())
        manifest = manifest_of(root)
        manifest["card"] = entry_of(root, "README.md")
        return list(check_card(root, typed(manifest)).lines())

    edit.root = root
    assert edit(text) == []
    return edit


PATTERN = "data/bench/test-*-of-00002.parquet"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("'../../**/*.parquet'", "is not a path inside the release"),
        ("'data/../../**'", "is not a path inside the release"),
        ("'/**/*.parquet'", "is not a path inside the release"),
        ("'~/*.parquet'", "is not a path inside the release"),
        ("'.'", "is not a path inside the release"),
        ("''", "is not a path inside the release"),
        ("'./data/bench/*'", "is not a path inside the release"),
        ("'data//bench/*'", "is not a path inside the release"),
        ("'data\\bench\\*'", "is not a path inside the release"),
        ("'file:///etc/*'", "is not a path inside the release"),
        ("'hf://datasets/a/b/*'", "is not a path inside the release"),
        ("'data/a**'", "is not a valid pattern"),
        ("'**a/x'", "is not a valid pattern"),
        ("'" + "data/**/" * 100 + "x'", "is not a valid pattern"),
        ("'" + "*a" * 60 + "b'", "matches no file"),
        ("'data/[!'", "matches no file"),
        ("'data/[[[[*'", "matches no file"),
        ("'.state/**'", "matches no file"),
        ("2024-01-01", "a pattern of config bench is not text"),
        ("17", "a pattern of config bench is not text"),
        ("null", "a pattern of config bench is not text"),
        ("{a: b}", "a pattern of config bench is not text"),
    ],
)
def test_a_pattern_that_leads_out_of_the_release_or_nowhere(small, monkeypatch, pattern, reason):
    monkeypatch.setattr(type(small.root), "glob", lambda *_: pytest.fail("the disk was searched"))
    lines = small(lambda text: text.replace(PATTERN, pattern))
    assert reason in lines[0], lines
    assert all(line.startswith("README.md: ") and len(line) < 1000 for line in lines)


@pytest.mark.parametrize("pattern", ["data/bench/*", "data/**/test-*", "**/test-0000?-of-00002.parquet", "data/*/t*"])
def test_other_patterns_that_match_the_same_files(small, pattern):
    assert small(lambda text: text.replace(PATTERN, f"'{pattern}'")) == []


@pytest.mark.parametrize("pattern", ["data/*", "**/bench", "data/bench"])
def test_patterns_that_match_no_file(small, pattern):
    assert "matches no file" in small(lambda text: text.replace(PATTERN, f"'{pattern}'"))[0]


def test_patterns_match_as_in_fsspec(small, tmp_path):
    """Which `datasets` finds data files with."""
    from fsspec.implementations.local import LocalFileSystem

    root = small.root
    files = check_manifest.release_files(root)
    patterns = ["**", "*", "*/*", "**/*", "data/**", "data/**/*", "**/*.csv", "index/*/t*", "**/bench/**", "**/b*/*-*"]
    patterns += ["data/bench/test-0000[0-9]-of-*", "data/bench/test-0000[!0]-*", "d?ta/*/*", "**/**/test.parquet"]
    for pattern in patterns:
        found = LocalFileSystem().glob(f"{root}/{pattern}", withdirs=False)
        found = sorted(path.removeprefix(f"{root}/") for path in found if not path.endswith("/"))
        assert match(files, pattern) == [path for path in found if (root / path).is_file()], pattern


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.replace("path: " + PATTERN, f"path: [{', '.join(['x*'] * 3)}]"), "has 3 patterns for 2 files"),
        (lambda t: t.replace("- config_name: bench\n", "- config_name: 3\n", 1), "a config has no name"),
        (lambda t: t.replace("- config_name: bench-index\n", "- config_name: bench\n", 1), "config bench is repeated"),
        (lambda t: t.replace("  - split: test\n", "  - split: [test]\n", 1), "a bench, split has no name"),
        (lambda t: t.replace("config_name: bench\n", 'config_name: "\\e[2J"\n', 1), "config bench is missing"),
        (b"\xff\xfe---\n", "cannot be read: it is not UTF-8 text (byte 0)"),
        (b"---\n" + b"a" * 2_100_000 + b"\n---\n", "cannot be read: it has more than 2,000,000 bytes"),
        ("---\na: &a [b]\nc: *a\n---\n", "the YAML has an anchor or alias (line 2)"),
        ("---\n---\n", "there is no YAML between two lines of --- at its beginning"),
    ],
)
def test_a_card_in_bad_faith(small, change, sentence):
    assert any(sentence in line for line in small(change)), small(change)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_a_card_that_is_no_regular_file(small, kind):
    path = small.root / "README.md"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    assert list(check_card(small.root, read_manifest(small.root)).lines()) == ["README.md: is not a regular file"]
