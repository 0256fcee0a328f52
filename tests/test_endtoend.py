"""The mark `endtoend` is on tests that build, start a process or serve, directly or through fixtures."""

import subprocess
from types import SimpleNamespace

import pytest

from builders import imagenet_benchmark
from tests import conftest
from tests.builders.conftest import build_demo
from tests.endtoend import is_endtoend, reaches
from tests.hub.server import Hub
from tests.killing import killed_at_rename
from tests.power import Disk


def through_a_function(path):
    build_demo({}, path)


def inside_a_function():
    return lambda: through_a_function


class Starter:
    def start(self):
        return subprocess.run([], check=True)


def serves():
    with Hub() as hub:
        return hub, calls_itself


def calls_itself():
    return calls_itself


def cuts_the_power(folder):
    with Disk(folder) as disk:
        return disk


COSTLY = [
    cuts_the_power,
    lambda: killed_at_rename(1, cuts_the_power),
    through_a_function,
    inside_a_function,
    lambda: Starter().start(),
    lambda: imagenet_benchmark.main([]),
    serves,
]


@pytest.mark.parametrize("function", COSTLY)
def test_what_is_costly_is_found(function):
    assert reaches(function)


@pytest.mark.parametrize("function", [lambda: imagenet_benchmark.BENCHMARK, calls_itself])
def test_what_is_not_is_left(function):
    assert not reaches(function)


def marks(request):
    """The marks of the running test where `-m` leaves out the end-to-end ones."""
    conftest.pytest_collection_modifyitems(SimpleNamespace(getoption={"markexpr": "not endtoend"}.get), [request.node])
    return {mark.name for mark in request.node.iter_markers()}


def test_a_fixture_that_builds_marks_its_test(imagenet_release, request):
    assert (imagenet_release / "manifest.json").is_file()
    assert "endtoend" in marks(request)


def test_the_demo_sources_alone_do_not(demo, request):
    assert "imagenet" in demo
    assert "endtoend" not in marks(request)


def test_a_browser_marks_its_test(chromium, request):
    assert chromium.is_connected()
    assert "endtoend" in marks(request)


@pytest.mark.parametrize("release", ["imagenet_release"])
def test_a_release_that_is_asked_for_by_name_marks_its_test(release, request):
    assert "endtoend" in marks(request)


def test_an_example_of_a_docstring_is_not_marked():
    """It has no function, where `pytest --doctest-modules` collects it beside tests."""
    assert not is_endtoend(SimpleNamespace(fixturenames=[]))
