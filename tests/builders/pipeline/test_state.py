"""The state file beside a release: what is no state is refused in a sentence, before anything is written."""

import dataclasses
import json
import os

import pyarrow as pa
import pytest

from builders.cli.build_options import BuildRequest
from builders.errors import BuildError
from builders.imagenet_benchmark import BENCHMARK
from builders.pipeline.build_plan import BuildPlan
from builders.pipeline.repeated import Repeated
from builders.pipeline.state import State, locked
from builders.plan.candidates import Draws
from builders.release.layout import Layout
from tests.sentences import stops

ADOPTED, PLANS, DRAWS = {"imagenet/test": ""}, {"imagenet/test": "ab" * 32}, {"imagenet/validation": "ef" * 32}


@pytest.fixture
def run(tmp_path):
    """A run into a folder where a run like it recorded its state."""
    request = BuildRequest(tmp_path, allow_partial=True, demo=True)
    request.layout.state.mkdir()
    state_of(request).record(PLANS, DRAWS)
    return request


def state_of(request, adopted=ADOPTED, repeated=Repeated()):  # noqa: B008 - a frozen value
    return State(BuildPlan(request, BENCHMARK.version, {}, Draws(BENCHMARK, 0), (), {}, adopted, repeated=repeated))


def path_of(run):
    (path,) = run.layout.state.glob("*.json")
    return path


def read(run):
    state = state_of(run)
    state.check()
    state.record(PLANS, DRAWS)


def test_a_state_that_was_recorded_is_read(run):
    read(run)
    with stops(BuildError, "imagenet/test"):
        state_of(run, {}).record({"imagenet/test": "cd" * 32}, {})


def test_a_state_without_draws_is_one_of_an_earlier_version(run):
    recorded = json.loads(path_of(run).read_text())
    assert recorded.pop("draws") == DRAWS
    path_of(run).write_text(json.dumps(recorded))
    state_of(run).record(PLANS, {"imagenet/validation": "cd" * 32})
    with stops(BuildError, "imagenet/validation"):
        state_of(run).record(PLANS, DRAWS)


def test_only_a_build_is_advised_to_allow_short_sources(run):
    """And not `materialize`, which has no such flag."""
    strict = dataclasses.replace(run, allow_partial=False)
    with stops(BuildError, "--out"):
        state_of(strict).check()
    with stops(BuildError, "--allow-partial", "--out"):
        state_of(strict, repeated=Repeated(rows={"imagenet/test": pa.table({})})).check()


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
        b'{"draws": {"imagenet/validation": 3}}',
        b'{"adopted": "x"}',
        b'{"generators": {"imagenet/test": "x"}}',
    ],
    ids=lambda value: str(value)[:25],
)
def test_a_damaged_state_is_refused_and_not_overwritten(run, content):
    path_of(run).write_bytes(content)
    with pytest.raises(BuildError, match=r"The state of an earlier run is damaged, in .*imagenet\.json\."):
        read(run)
    assert path_of(run).read_bytes() == content
    path_of(run).unlink()
    read(run)


@pytest.mark.timeout(20)
def test_a_named_pipe_is_not_waited_for(run):
    path = path_of(run)
    path.unlink()
    os.mkfifo(path)
    with stops(BuildError):
        read(run)


def test_half_written_files_go_before_a_run_and_after_it(tmp_path):
    """A worker of a Ray cluster lives some seconds longer than its driver that was killed, and leaves its file."""
    temporary = tmp_path / "data" / "cifar" / ".test-00000-of-00001.parquet.12.tmp"
    temporary.parent.mkdir(parents=True)
    (tmp_path / "manifest.json").write_text("{}")
    temporary.touch()
    with locked(Layout(tmp_path)):
        assert not temporary.exists()
        temporary.touch()
    assert not temporary.exists()
