"""Publishing a release that has a page: the page, which shows images, is never sent."""

from pathlib import Path

import pytest

from builders.commands import report as report
from hf_scripts import verify
from tests.hf_scripts.samples import REPO


@pytest.fixture
def page(release, capsys):
    """The page of the release, where the command puts it."""
    assert report.main([str(release)]) == 0
    capsys.readouterr()
    return release.with_name("release.html")


def test_a_page_is_not_sent(push, hub, release, page):
    assert b"data:image/" in page.read_bytes()
    assert push("release").code == 0
    assert not any(path.endswith(".html") for path in hub.files(REPO))
    assert not any(b"data:image/" in hub.read(REPO, path) for path in hub.files(REPO))


@pytest.mark.parametrize("folder", [".", "data/bench"])
def test_a_page_among_the_files_of_the_release_is_refused(push, hub, release, page, folder, capsys):
    (release / folder).mkdir(exist_ok=True)
    page.rename(release / folder / "page.html")
    ran = push("release")
    assert ran.code != 0
    assert Path(folder, "page.html").as_posix() in "".join([*ran.out, *ran.err])
    assert REPO not in hub.repos or not any(path.endswith(".html") for path in hub.files(REPO))
    assert verify.main([str(release), "--workers", "1"]) == 1
