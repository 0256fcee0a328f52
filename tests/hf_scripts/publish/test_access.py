"""Repositories that are opened after images were published: every push and every verification says so."""

import json

import pytest

from hf_scripts import verify
from tests.hf_scripts.samples import REPO, make_release
from tests.sentences import assert_sentence

TERMS = "The Source in bench/test (licence: Its Licence, https://example.org/terms)"


@pytest.fixture
def opened(push, hub, tmp_path):
    """Images that only ids may be published of, pushed privately; then the repository is made public."""
    make_release(tmp_path / "closed", {"bench/test": range(4)}, publish="ids-only")
    assert push("closed", "--private").code == 0
    hub.repos[REPO].private = False
    return tmp_path / "closed"


def test_the_same_push_again(push, hub, opened):
    for flags in ([], ["--private"], ["--dry-run"], ["--index-only"], ["--private", "--dry-run"]):
        error = push("closed", *flags).error
        assert error.startswith("org/name is public, and v1.0.0 serves images"), flags
        assert TERMS in error and "Make the repository private" in error, flags


def test_a_gated_repository_is_not_closed_enough(push, hub, opened):
    hub.repos[REPO].gated = "manual"
    assert push("closed").error.startswith("org/name is gated, and v1.0.0 serves images")
    hub.repos[REPO].private = True
    assert push("closed").code == 0


@pytest.mark.parametrize("flags", [["--dry-run"], []])
def test_the_next_version_without_images_says_which_older_ones_have_them(push, hub, opened, flags):
    ran = push("closed", "--index-only", *flags, tag="v2.0.0")
    assert ran.code == 0
    (note,) = [line for line in ran.out if line.startswith("note: ")]
    assert note.startswith("note: org/name is public, and v1.0.0 serves images") and TERMS in note
    if not flags:
        # The new version is as it should be, the old one is still there.
        repeated = push("closed", "--index-only", tag="v2.0.0")
        assert (repeated.code, [line for line in repeated.out if line.startswith("note: ")]) == (0, [note])


def test_another_version_with_images_is_refused_and_says_both(push, hub, opened, tmp_path):
    make_release(tmp_path / "more", {"bench/near_ood": range(4)}, publish="ids-only")
    ran = push("more", tag="v1.1.0")
    assert any(line.startswith("note: org/name is public, and v1.0.0 serves images") for line in ran.out)
    assert_sentence(ran.error, "org/name", "bench/near_ood")


def test_verify_reports_it(push, hub, opened, capsys):
    """For the revision that is verified, and for other tags."""
    assert verify.main([REPO, "--workers", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" serves")[0] for line in lines if TERMS in line] == [
        "org/name is public, and main",
        "org/name is public, and v1.0.0",
    ]
    assert push("closed", "--index-only", tag="v2.0.0").code == 0
    assert verify.main([REPO, "--revision", "v2.0.0", "--workers", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" serves")[0] for line in lines if TERMS in line] == ["org/name is public, and v1.0.0"]
    hub.repos[REPO].private = True
    assert verify.main([REPO, "--workers", "1"]) == 0


# Manifests that were edited


def edited(root, change):
    path = root / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    path.unlink()
    path.write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize("word", ["open", "gated", "anything"])
def test_a_manifest_that_allows_more_than_the_licence(push, hub, tmp_path, word):
    make_release(tmp_path / "closed", {"bench/test": range(4)}, publish="ids-only")
    edited(tmp_path / "closed", lambda m: m["sources"]["closed_source"]["licence"].update(publish=word))
    for flags in ([], ["--private"], ["--dry-run"]):
        error = push("closed", *flags).error
        assert_sentence(error, word)
    assert hub.repos == {}


def test_a_source_by_another_name(push, hub, tmp_path):
    """Its rows say what they are; without images nothing is at stake, and the folder is refused all the same."""
    make_release(tmp_path / "closed", {"bench/test": range(4)}, publish="ids-only")

    def rename(manifest):
        manifest["sources"]["source"] = manifest["sources"].pop("closed_source")
        manifest["sources"]["source"]["licence"]["publish"] = "open"
        manifest["configs"]["bench"]["splits"]["test"]["parts"][0]["source"] = "source"

    edited(tmp_path / "closed", rename)
    assert "The release in closed is damaged" in push("closed").error
    assert (hub.files(REPO) if hub.repos else {}, hub.uploads()) == ({}, {})


def test_the_published_words_are_those_of_the_declaration(push, hub, tmp_path):
    make_release(tmp_path / "open", {"bench/test": range(4)})
    edited(tmp_path / "open", lambda m: m["sources"]["source"]["licence"].update(statement="Do as you like."))
    assert push("open").code == 0
    licence = json.loads(hub.read(REPO, "manifest.json"))["sources"]["source"]["licence"]
    assert (licence["statement"], licence["publish"]) == ("Do as you are told.", "open")
    assert b"Do as you like" not in hub.read(REPO, "README.md")
    # The folder still has the other words, and is the same release.
    assert any("has this release already" in line for line in push("open").out)


@pytest.mark.parametrize("demo", [True, False])
def test_a_manifest_that_takes_a_demo_for_a_release_or_a_release_for_a_demo(push, hub, tmp_path, demo):
    make_release(tmp_path / "release", {"bench/test": range(4)}, demo=demo)
    edited(tmp_path / "release", lambda m: m["benchmarks"]["bench"].update(demo=not demo))
    stated, actual = ("real", "demo") if demo else ("demo", "real")
    for flags in ([], ["--private"], ["--allow-demo"], ["--dry-run"]):
        error = push("release", *flags).error
        assert_sentence(error, stated, actual)
    assert hub.repos == {}
