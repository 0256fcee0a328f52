"""What an audit leaves in a release: listed files, a whole release, and no picture of images that is published."""

import shutil

import pytest
from filelock import FileLock
from PIL import Image

from builders.audit.record import picture_format
from builders.cifar_benchmark import BENCHMARK as CIFAR
from builders.commands.audit import main
from builders.release.layout import Layout, shows_images
from builders.release.manifest import read_manifest
from hf_scripts import card, verify
from tests.builders.conftest import build_demo, files_of
from tests.hf_scripts.samples import make_release
from tests.sentences import assert_sentence

AUDITS = (
    ["artifacts", "--splits", "cifar", "--sample", "30"],
    ["duplicates"],
    ["sheet", "--splits", "cifar", "--images", "3"],
    ["pairs", "--splits", "cifar/test"],
)
LISTED = {
    "audit/duplicates.csv",
    "audit/duplicates.png",
    "audit/cifar/artifacts.csv",
    "audit/cifar/artifacts.png",
    "audit/cifar/sheet.csv",
    "audit/cifar/pairs_test.csv",
}
OF_IMAGES = {"audit/cifar/sheet.png", "audit/cifar/pairs_test.png"}


def run(root, audit, *flags):
    name, *arguments = audit
    workers = ["--workers", "1"] if name in ("artifacts", "duplicates") else []
    return main([name, str(root), *arguments, *workers, *flags])


def everything(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_all_audits_of_the_demo_are_listed_and_leave_it_whole(demo, tmp_path, capsys):
    root = tmp_path / "release"
    build_demo(demo, root, benchmark=CIFAR, splits=("cifar/test", "cifar/near_ood", "cifar-train/train"))
    shutil.rmtree(root / ".state")
    before = files_of(root)
    for audit in AUDITS:
        assert run(root, audit, "--dry-run") == 0
        assert "(--dry-run)" in capsys.readouterr().out
    assert everything(root) == before  # not even a lock file
    for audit in AUDITS:
        assert run(root, audit) == 0
    manifest = read_manifest(root)
    assert list(manifest.audits) == ["cifar/artifacts", "cifar/pairs_test", "cifar/sheet", "duplicates"]
    files = {path.relative_to(root).as_posix() for path in (root / "audit").rglob("*") if path.is_file()}
    assert files == LISTED | OF_IMAGES
    assert {file.path for file in manifest.files() if file.path.startswith("audit/")} == LISTED
    text = (root / "README.md").read_text(encoding="utf-8")
    assert all(audit.summary in text for audit in manifest.audits.values())
    assert not any(path in text for path in OF_IMAGES)
    changed = {"README.md", "croissant.json", "manifest.json"} | LISTED | OF_IMAGES
    assert {path for path, data in files_of(root).items() if before.get(path) != data} == changed
    assert card.main([str(root), "--check"]) == 0
    assert verify.main([str(root), "--check", "fast", "--workers", "1"]) == 0
    after = files_of(root)
    for audit in AUDITS[2:]:
        assert run(root, audit) == 0
    assert files_of(root) == after


@pytest.fixture
def small(tmp_path):
    return make_release(tmp_path / "release", {"bench/test": range(4), "bench/near_ood": range(3)})


SHEET = ["sheet", "--splits", "bench"]


@pytest.mark.parametrize("flags", [[], ["--dry-run"], ["--out", "x.png"]])
def test_a_build_at_work_is_respected(small, tmp_path, monkeypatch, capsys, flags):
    monkeypatch.chdir(tmp_path)
    lock = Layout(small).lock
    lock.parent.mkdir()
    with FileLock(lock):
        before = everything(tmp_path)
        assert run(small, SHEET, *flags) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert_sentence(error, small)
        assert everything(tmp_path) == before
    assert run(small, SHEET, *flags) == 0


def test_what_a_killed_audit_left_is_replaced(small, capsys):
    assert run(small, SHEET) == 0
    expected = files_of(small)
    (small / "audit/bench/sheet.csv").write_text("half")
    (small / "audit/bench/.artifacts.png.1.tmp").write_text("half")
    assert verify.main([str(small), "--workers", "1"]) == 1
    assert "audit/bench/sheet.csv" in capsys.readouterr().out
    assert run(small, SHEET) == 0
    assert files_of(small) == expected
    assert verify.main([str(small), "--workers", "1"]) == 0


def test_a_link_out_of_the_release_is_not_followed(small, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (small / "audit").symlink_to(tmp_path / "elsewhere")
    before = (small / "manifest.json").read_bytes()
    assert run(small, SHEET) == 2
    assert_sentence(capsys.readouterr().err)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (small / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("path", "of_images"),
    [
        ("audit/bench/sheet.png", True),
        ("audit/bench/pairs_near_ood.png", True),
        ("audit/bench/artifacts.png", False),
        ("audit/bench/sheet.csv", False),
        ("audit/sheet.png", False),
        ("data/bench/sheet.png", False),
        ("audit/a/b/sheet.png", False),
    ],
)
def test_which_pictures_show_images(path, of_images):
    assert shows_images(path) == of_images


def test_other_files_beside_an_audit_are_still_reported(small, capsys):
    assert run(small, SHEET) == 0
    Image.new("RGB", (2, 2)).save(small / "audit/bench/images.png")
    assert verify.main([str(small), "--workers", "1"]) == 1
    assert "audit/bench/images.png: manifest.json does not list this file" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "form"), [("a.png", "PNG"), ("a.b.JPG", "JPEG"), ("a.jpeg", "JPEG")])
def test_a_picture_has_the_format_of_its_name(tmp_path, name, form):
    assert picture_format(tmp_path / name) == form


@pytest.mark.parametrize("name", ["sheet", "sheet.", "sheet.gif", "sheet.png.tmp"])
def test_a_name_without_a_format_is_refused_before_any_work(small, tmp_path, capsys, name):
    before = everything(tmp_path)
    assert run(small, SHEET, "--out", str(tmp_path / name)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert_sentence(error, str(tmp_path / name))
    assert everything(tmp_path) == before
