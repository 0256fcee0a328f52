"""Every target on damaged inputs: a value or a sentence, in time, within memory, and nothing written."""

import sys

import pytest

from tests.fuzz.child import find
from tests.fuzz.harness import all_targets, described, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and memory are read from Linux's /proc")

TARGETS = all_targets()


def check(name, examples):
    outcomes = run(TARGETS[name], examples)
    faults = described(TARGETS[name], outcomes)
    assert not faults, f"{name}:\n{faults}"
    assert len(outcomes) >= examples
    refused = any(outcome.kind == "refused" for outcome in outcomes)
    assert refused == find(TARGETS[name]).refuses, "is the file that is damaged the one that is read?"


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_give_a_value_or_a_sentence(name):
    check(name, 20)


@pytest.mark.fuzz
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", TARGETS)
def test_many_damaged_inputs_give_a_value_or_a_sentence(name):
    check(name, 20_000)
