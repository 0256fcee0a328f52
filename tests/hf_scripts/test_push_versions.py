"""Tags, versions and the changelog of what is published one after the other."""

import csv

from builders.card import card
from tests.hf_scripts.samples import REPO, SPLITS, make_release, manifest_at
from tests.sentences import assert_sentence


def changelog_at(hub, revision="main"):
    return hub.read(REPO, "CHANGELOG.md", revision).decode()


def changes_at(hub, tag):
    return list(csv.reader(hub.read(REPO, f"changes/{tag}.csv", tag).decode().splitlines()))[1:]


def test_metadata_asks_for_a_patch(push, hub, release, tmp_path):
    push("release")
    make_release(tmp_path / "again", SPLITS, edition="another edition")
    ran = push("again", tag="v1.0.1")
    assert ran.code == 0
    assert "v1.0.1: patch change since v1.0.0: sources.source.edition" in ran.out
    assert "- Metadata: `sources.source.edition`." in changelog_at(hub)
    assert hub.uploads() == {file.sha256: 1 for file in hub.files(REPO).values() if file.lfs}


def test_changed_rows_ask_for_a_major_version(push, hub, release, tmp_path):
    push("release")
    make_release(tmp_path / "changed", {"bench/test": [0, 1, 3, 9]}, repainted=[1])
    error = push("changed", tag="v1.9.0").error
    assert_sentence(error, "bench/test", "--tag v2.0.0")
    assert push("changed", tag="v2.0.0").code == 0
    assert changes_at(hub, "v2.0.0") == [
        ["bench/test", "added", "source/test/9.png"],
        ["bench/test", "removed", "source/test/2.png"],
        ["bench/test", "changed", "source/test/1.png"],
    ]
    text = changelog_at(hub)
    old, new = (
        manifest_at(hub, tag)["configs"]["bench"]["splits"]["test"]["digest"][:12] for tag in ("v1.0.0", "v2.0.0")
    )
    assert (
        f"- `bench/test` has other rows: 4 before, 4 now (1 added, 1 removed, 1 changed), digest `{old}` before, "
        f"`{new}` now."
    ) in text
    assert "  - removed: `source/test/2.png`" in text


def test_a_tag_of_another_release_is_refused(push, hub, release, more, tmp_path):
    push("release")
    commit = hub.tags(REPO)["v1.0.0"]
    push("more", tag="v1.1.0")
    make_release(tmp_path / "third", {"bench/far_ood_b": range(4)})
    error = push("third", tag="v1.0.0").error
    assert_sentence(error, "org/name", "v1.0.0", "bench/far_ood_b", "--tag", "v1.2.0")
    assert hub.tags(REPO)["v1.0.0"] == commit


def test_a_card_that_shows_its_version_is_nothing_new(push, hub, release, monkeypatch):
    rendered = card.card_text
    monkeypatch.setattr(card, "card_text", lambda manifest: f"{rendered(manifest)}\n{manifest.version}\n")
    assert push("release").code == 0
    assert hub.read(REPO, "README.md").endswith(b"\n1.0.0\n")
    assert "Nothing differs from v1.0.0" in push("release", tag="v1.0.1").error


def test_the_changelog_grows_at_its_top(push, hub, release, tmp_path):
    push("release")
    make_release(tmp_path / "more", {"bench/far_ood": range(101)})
    make_release(tmp_path / "third", {"bench/far_ood_b": range(100)})
    push("more", tag="v1.1.0")
    push("third", tag="v1.2.0")
    text = changelog_at(hub)
    first, second = changelog_at(hub, "v1.0.0"), changelog_at(hub, "v1.1.0")
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## v1.2.0", "## v1.1.0", "## v1.0.0"]
    assert second.endswith(first.partition("\n## ")[2])
    assert text.endswith(second.partition("\n## ")[2])
    # A hundred ids stand in the text, more of them only in the table.
    assert "`source/far_ood_b/99.png`" in text
    assert "source/far_ood/0.png" not in text
    assert [len(changes_at(hub, tag)) for tag in ("v1.1.0", "v1.2.0")] == [101, 100]
    changes = [path for path in hub.files(REPO) if path.startswith("changes/")]
    assert changes == ["changes/v1.1.0.csv", "changes/v1.2.0.csv"]


def test_withdrawn_images_are_named_with_their_reason(push, hub, release, more, tmp_path):
    push("release")
    withdrawn = [{"id": "source/test/3.png", "reason": "its owner asked", "split": "bench/test"}]
    make_release(tmp_path / "less", {"bench/test": range(3)}, withdrawn=withdrawn)
    assert push("less", tag="v2.0.0").code == 0
    assert "- `source/test/3.png` from `bench/test`: its owner asked" in changelog_at(hub)
    assert changes_at(hub, "v2.0.0") == [["bench/test", "removed", "source/test/3.png"]]
    # It stays named in the manifest, and is no news of the next version.
    assert push("more", tag="v2.1.0").code == 0
    listed = manifest_at(hub, "v2.1.0")["configs"]["bench"]["splits"]["test"]["withdrawn"]
    assert listed == [{"id": "source/test/3.png", "reason": "its owner asked"}]
    assert changelog_at(hub).count("its owner asked") == 1


def test_an_image_that_was_withdrawn_does_not_come_back_unnoticed(push, hub, release, tmp_path):
    """As by somebody who still has an earlier build."""
    withdrawn = [{"id": "source/test/3.png", "reason": "its owner asked", "split": "bench/test"}]
    make_release(tmp_path / "less", {"bench/test": range(3)}, withdrawn=withdrawn)
    assert push("less").code == 0
    assert_sentence(push("release", "--dry-run", tag="v2.0.0").error, "bench/test", "source/test/3.png")
    assert push("release", "--splits", "bench/near_ood", tag="v1.1.0").code == 0
    assert push("release", "--allow-withdrawn", tag="v2.0.0").code == 0


def test_a_first_version_has_counts_only(push, hub, release):
    push("release", tag="v0.3.0")
    digest = manifest_at(hub, "v0.3.0")["configs"]["bench"]["splits"]["test"]["digest"][:12]
    text = changelog_at(hub)
    assert "## v0.3.0\n\nFirst release.\n" in text
    assert f"- `bench/test`: 4 rows, digest `{digest}`." in text
    assert not [path for path in hub.files(REPO) if path.startswith("changes/")]
