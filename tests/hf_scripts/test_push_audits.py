"""Publishing audits: their tables and charts with the rows that they are of, and never a picture of images."""

import pytest

from builders.commands import audit as audit
from builders.release.layout import shows_images
from hf_scripts import card, verify
from tests.hf_scripts.samples import REPO, SPLITS, make_release, write_revision
from tests.manifests import entry_of, manifest_of, write_json
from tests.sentences import assert_sentence

TABLES = {"audit/bench/sheet.csv", "audit/bench/artifacts.csv", "audit/bench/artifacts.png"}


@pytest.fixture
def audited(capsys):
    """Audits the config `bench` of a release; its folder then has a sheet of images."""

    def run(root):
        assert audit.main(["sheet", str(root), "--splits", "bench"]) == 0
        assert audit.main(["artifacts", str(root), "--splits", "bench", "--workers", "1"]) == 0
        assert (root / "audit/bench/sheet.png").is_file()
        capsys.readouterr()
        return root

    return run


def audits_at(hub, revision="main"):
    return {path for path in hub.files(REPO, revision) if path.startswith("audit/")}


@pytest.mark.parametrize(
    ("publish", "flags"), [("open", []), ("ids-only", ["--private"]), ("ids-only", ["--index-only"])]
)
def test_tables_are_published_and_pictures_of_images_are_not(push, hub, audited, tmp_path, publish, flags):
    audited(make_release(tmp_path / "release", SPLITS, publish=publish))
    ran = push("release", *flags)
    assert ran.code == 0, ran.err
    assert audits_at(hub) == TABLES
    assert not any(map(shows_images, hub.files(REPO)))
    assert "Contact sheet of `bench`" in hub.read(REPO, "README.md").decode()
    assert card.main([str(tmp_path / "release"), "--check"]) == 0


def test_a_manifest_that_lists_a_picture_of_images_is_refused(push, audited, release):
    audited(release)
    manifest = manifest_of(release)
    manifest["audits"]["bench/sheet"]["chart"] = entry_of(release, "audit/bench/sheet.png")
    write_json(release, manifest)
    ran = push("release")
    assert_sentence(ran.error, "audit/bench/sheet.png")
    assert ran.out == []
    assert verify.main([str(release), "--workers", "1"]) == 1


def test_an_audit_stays_while_its_rows_do_and_goes_with_them(push, hub, audited, release, tmp_path, capsys):
    audited(release)
    assert push("release").code == 0
    # Another config joins: what was audited stays, although the folder that is pushed was not audited.
    make_release(tmp_path / "more", {"bench-more/far_ood": range(2)})
    assert push("more", tag="v1.1.0").code == 0
    assert audits_at(hub) == TABLES
    assert verify.main([str(write_revision(hub, tmp_path / "read")), "--workers", "1"]) == 0
    capsys.readouterr()
    # A split of the audits gets other rows: they are of rows that are no longer there.
    make_release(tmp_path / "other", {**SPLITS, "bench/test": range(5)})
    ran = push("other", tag="v2.0.0")
    assert ran.code == 0, ran.err
    assert audits_at(hub) == set()
    assert "## Audits" not in hub.read(REPO, "README.md").decode()


def test_some_configs_take_only_their_own_audits(push, hub, audited, release):
    audited(release)
    assert push("release", "--splits", "bench-train").code == 0
    assert audits_at(hub) == set()
