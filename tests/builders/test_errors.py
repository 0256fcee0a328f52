import os

from builders.errors import BuildError, one_line, os_errors_as_build_errors
from tests.sentences import stops


def test_text_of_unknown_origin_stays_on_one_line():
    assert one_line("crème brûlée/雷.jpg") == "crème brûlée/雷.jpg"
    assert one_line("a\nb\x1b[31m\0\udce9\u202e") == "a\\nb\\x1b[31m\\x00\\udce9\\u202e"
    assert one_line("a" * 1000, 10) == "aaaaaaaaaa..."


def test_a_link_that_is_refused_is_said_where_it_should_be(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "there").touch()
    with (
        stops(BuildError, tmp_path / "there"),
        os_errors_as_build_errors("link"),
    ):
        os.link(tmp_path / "file", tmp_path / "there")
