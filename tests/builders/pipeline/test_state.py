"""The state file beside a release: what is no state is refused in a sentence, before anything is written."""

import os

import pytest

from builders.errors import BuildError
from builders.pipeline.state import Identity, check_choices, check_generators, record_plans
from builders.release.layout import Layout

IDENTITY = Identity("imagenet-benchmark", "1.0.0", 0, None, True)


@pytest.fixture
def layout(tmp_path):
    """A folder whose state was recorded once."""
    found = Layout(tmp_path)
    found.state.mkdir()
    record_plans(found, IDENTITY, {"imagenet/test": ""}, {"imagenet/test": "ab" * 32}, {}, allow_partial=True)
    return found


def path_of(layout):
    (path,) = layout.state.glob("*.json")
    return path


def read(layout):
    check_choices(layout, IDENTITY, {"imagenet/test": ""}, allow_partial=True)
    check_generators(layout, IDENTITY, {})
    record_plans(layout, IDENTITY, {}, {"imagenet/test": "ab" * 32}, {}, allow_partial=True)


def test_a_state_that_was_recorded_is_read(layout):
    read(layout)
    with pytest.raises(BuildError, match="planned from before"):
        record_plans(layout, IDENTITY, {}, {"imagenet/test": "cd" * 32}, {}, allow_partial=True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\0" * 4096,  # what a power cut leaves of a file on some file systems
        b"\xff",
        b"[]",
        b"3",
        b"null",
        b"[" * 100_000,
        b'{"seed": ' + b"9" * 5000 + b"}",
        b'{"plans": []}',
        b'{"plans": {"imagenet/test": 3}}',
        b'{"adopted": "x"}',
        b'{"generators": {"imagenet/test": "x"}}',
    ],
    ids=lambda value: str(value)[:25],
)
def test_a_damaged_state_is_refused_and_not_overwritten(layout, content):
    path_of(layout).write_bytes(content)
    with pytest.raises(BuildError, match=r"json is damaged\. Delete it: a run without it goes by the release's manif"):
        read(layout)
    assert path_of(layout).read_bytes() == content
    path_of(layout).unlink()
    read(layout)


@pytest.mark.timeout(20)
def test_a_named_pipe_is_not_waited_for(layout):
    path = path_of(layout)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BuildError, match="is a named pipe, not a file"):
        read(layout)
