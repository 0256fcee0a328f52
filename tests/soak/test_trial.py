"""A trial of every kind of fault, and commands that lose something, which a trial has to find."""

import dataclasses
import itertools
import json
import signal
import sys
from random import Random

import pytest

from tests.hf_scripts.samples import SPLITS, make_release
from tests.soak.commands import Launcher
from tests.soak.faults import AtMoment, Kind, local_kinds
from tests.soak.hub_faults import hub_kinds
from tests.soak.moments import Strike
from tests.soak.operations import Operation, operations, store_operations
from tests.soak.places import World
from tests.soak.references import References
from tests.soak.store_faults import store_kinds
from tests.soak.stores import has_stores, running_store
from tests.soak.table import last_line, table
from tests.soak.trial import Bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in Linux's /proc")

QUICK = ("export imagefolder", "push first")
"""Operations of a fraction of a second, which need no sources."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("soak")
    return World(root, root / "no-sources", make_release(root / "release", SPLITS), root / "no-part")


@pytest.fixture(scope="module")
def launcher(world):
    with Launcher(world.environment()) as launcher:
        yield launcher


@pytest.fixture(scope="module")
def references(world):
    return References(world, disks=False, twice=False)


@pytest.fixture
def bench(world, references, tmp_path):
    """Makes trials of some operations with some kinds of faults."""

    def make(chosen, kinds):
        return Bench(world, chosen, kinds, references, 0, tmp_path / "failures")

    return make


KINDS = [*local_kinds(disks=False), *hub_kinds()]


@pytest.mark.slow
def test_every_kind_of_fault_is_survived(bench, launcher):
    chosen = [operation for operation in operations(Random(0)) if f"{operation.name} {operation.variant}" in QUICK]
    made = bench(chosen, KINDS)
    verdicts = [made.run(number, launcher) for number in range(len(KINDS))]
    assert [verdict.problems for verdict in verdicts] == [[]] * len(KINDS), verdicts
    assert {verdict.kind for verdict in verdicts} == {kind.name for kind in KINDS}
    lines = table(verdicts)
    assert sum(line.startswith("all ") for line in lines) == len(KINDS)
    assert last_line(verdicts, 1.0).startswith(f"survived: all of {len(KINDS)} trials")


@pytest.mark.slow
@pytest.mark.skipif(not has_stores(), reason="takes moto, s3fs and universal-pathlib")
def test_every_fault_of_object_storage_is_survived(world, launcher, tmp_path):
    with running_store() as store:
        with_store = dataclasses.replace(world, store=store)
        chosen = [operation for operation in store_operations() if operation.name == "verify"]
        references = References(with_store, disks=False, twice=False)
        made = Bench(with_store, chosen, store_kinds(), references, 0, tmp_path / "failures")
        verdicts = [made.run(number, launcher) for number in range(len(made.kinds))]
    assert [verdict.problems for verdict in verdicts] == [[]] * len(made.kinds), verdicts
    assert all(verdict.struck for verdict in verdicts)


def test_a_command_that_leaves_half_a_file_fails_and_its_folder_is_kept(bench, launcher, tmp_path):
    careless = Operation("careless", "", "tests.soak.careless", lambda world: (), workers=False)
    killed = Kind(
        "SIGKILL", lambda operation: True, lambda *_: AtMoment(Strike(3, signal=signal.SIGKILL), "open notes.txt")
    )
    verdict = bench([careless], [killed]).run(5, launcher)
    assert verdict.codes[0] == -signal.SIGKILL
    assert "the result differs in out/rows.csv" in verdict.problems
    folder = tmp_path / "failures" / "5-SIGKILL-careless"
    assert (folder / "disk" / "out" / "rows.csv").read_text() == "id,label\n"
    record = json.loads((folder / "trial.json").read_text())
    assert record["seed"] == 0
    assert record["lines"][0] == "python -m tests.soak.careless"
    assert last_line([verdict], 1.0).startswith("FAILED: 1 of 1 trials")


def test_a_trial_follows_from_the_seed_and_its_number(bench):
    drawn = operations(Random(0))
    first, second = bench(drawn, KINDS), bench(list(drawn), KINDS)
    for number in itertools.chain(range(40), (1234,)):
        assert first.kind(number) is second.kind(number)
        assert first.operation(number) is second.operation(number)
        assert first.kind(number).fits(first.operation(number))
