import pytest

from builders.commands.report import main
from tests.builders.report.conftest import small
from tests.sentences import assert_sentence

__all__ = ["small"]


def files(root):
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_the_page_lies_beside_the_release_which_stays_as_it_is(small, capsys):
    before = files(small)
    assert main([str(small)]) == 0
    page = small.with_name("release.html")
    assert capsys.readouterr().out.startswith(f"wrote {page} (")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert files(small) == before
    assert sorted(path.name for path in small.parent.iterdir()) == ["release", "release.html"]


def test_equal_releases_give_equal_pages(small, tmp_path):
    assert main([str(small), "--out", str(tmp_path / "one.html")]) == 0
    assert main([str(small), "--out", str(tmp_path / "two.html")]) == 0
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


@pytest.mark.parametrize("inside", ["page.html", "audit/page.html", "README.md", "../release/page.html"])
def test_a_page_inside_the_release_is_refused(small, capsys, inside):
    before = files(small)
    assert main([str(small), "--out", str(small / inside)]) == 2
    assert_sentence(capsys.readouterr().err)
    assert files(small) == before


def test_a_page_inside_by_a_link_is_refused(small, tmp_path, capsys):
    (tmp_path / "elsewhere").symlink_to(small / "audit")
    assert main([str(small), "--out", str(tmp_path / "elsewhere/page.html")]) == 2
    assert_sentence(capsys.readouterr().err)


@pytest.mark.parametrize(("out", "said"), [("folder", "is a folder"), ("release/../folder", "is a folder")])
def test_a_folder_is_refused(small, tmp_path, capsys, out, said):
    (tmp_path / "folder").mkdir()
    assert main([str(small), "--out", str(tmp_path / out)]) == 2
    assert said in capsys.readouterr().err


def test_what_is_no_release_is_refused(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "manifest.json" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_release_with_a_lost_table_is_refused_and_nothing_is_written(small, capsys):
    (small / "excluded/bench.csv").unlink()
    assert main([str(small)]) == 2
    error = capsys.readouterr().err
    assert "excluded/bench.csv" in error
    assert "hf_scripts.verify" in error
    assert not small.with_name("release.html").exists()


def test_a_page_that_cannot_be_written_says_so(small, tmp_path, capsys):
    """A name longer than 255 bytes, which also the superuser cannot write."""
    assert main([str(small), "--out", str(tmp_path / ("p" * 300))]) == 2
    assert_sentence(capsys.readouterr().err)
