"""Which names are paths of a machine: compared with Python's paths of POSIX and Windows, shells' homes and URLs."""

import ntpath
import posixpath
from pathlib import PurePosixPath, PureWindowsPath

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.release.names import absolute_paths, is_file_name

LEGAL = ["~x.png", "x~", "C:x.png", "C:", "file:x.png", "file:", "~", "a/~/b", "a/C:/b", "a\\b", "dog/a.jpg"]
ABSOLUTE = ["/srv/x", "/", "~/x", "~tmp/x", "C:/x", "c:\\x", "\\x", "\\\\server\\x", "file:/x", "file:///x"]


def absolute(*texts, **options):
    return absolute_paths(pa.array(texts, pa.string()), **options).to_pylist()


def test_absolute_paths():
    assert not any(absolute(*LEGAL))
    assert all(absolute(*ABSOLUTE))
    assert absolute_paths(pa.array([None], pa.string())).to_pylist() == [False]


def test_classes_of_places365_begin_with_a_slash_and_a_letter():
    assert absolute("/a/airfield", "/b/balcony/exterior", classes=True) == [False, False]
    assert all(absolute(*ABSOLUTE, "//x", classes=True))


@given(st.text(st.sampled_from("~/\\C:fileax."), max_size=8))
def test_what_python_takes_for_an_absolute_path_is_one(text):
    windows = PureWindowsPath(text)
    rooted = PurePosixPath(text).is_absolute() or windows.is_absolute() or bool(windows.root)
    # A shell's home: a path with a folder in it that begins with a tilde.
    rooted = rooted or (text.startswith("~") and "/" in text)
    assert absolute(text) == [rooted or text.startswith("file:/")]


@given(st.text(st.sampled_from("~/\\ax."), max_size=5))
def test_the_name_of_a_file_has_no_folder_on_any_system(text):
    """A colon is left out, which ntpath takes for a drive's; images are decoded from memory, by their bytes."""
    alone = posixpath.basename(text) == ntpath.basename(text) == text
    assert is_file_name(text) is (alone and text not in ("", ".", ".."))


@pytest.mark.parametrize("name", ["C:x.png", "file:x.png", "~x.png", "a b", "con", ".x", "x" * 300])
def test_names_that_are_odd_on_some_system_are_names(name):
    assert is_file_name(name)
