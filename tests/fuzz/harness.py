"""Runs inputs of a target in forks of a process that has imported all, and collects what came of each."""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz import targets
from tests.fuzz.child import SECONDS, find, input_of

ROOT = Path(__file__).parents[2]
FAULTS = ROOT / ".fuzz"
"""Where the inputs of faults are kept. Git ignores it."""

_TIMES = {signal.SIGPROF: "computes for more than two seconds", signal.SIGALRM: "waits"}
_PATIENCE = 6.0
"""Seconds by the clock for a second try: a call that took two seconds of them may only have waited for a processor."""

_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others set a gigabyte of addresses aside when they start
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True)
class Outcome:
    """What came of one input.

    `kind` is `value` or `refused` (a `BuildError` with a sound message), or a fault: `traceback` (another exception),
    `signal` (the process died), `time`, `memory`, `message` (a `BuildError` whose message is not one printable line
    that ends with a full stop), or `wrote` (something was written). `input` is `case NAME` or a number.
    """

    input: str
    kind: str
    message: str
    wall: float = 0.0
    cpu: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether it is no fault."""
        return self.kind in ("value", "refused")


def all_targets() -> dict[str, str]:
    """Return where each target is, by name: every module of `tests.fuzz.targets` has a tuple `TARGETS`."""
    places: dict[str, str] = {}
    for module in sorted(f"{targets.__name__}.{module.name}" for module in pkgutil.iter_modules(targets.__path__)):
        for target in importlib.import_module(module).TARGETS:
            assert target.name not in places, f"two targets are named {target.name}"
            places[target.name] = f"{module}:{target.name}"
    return places


def run(where: str, examples: int, *, first: int = 0) -> list[Outcome]:
    """Read a target's named cases and some damaged inputs.

    Args:
        where: the target as `module:name`, see `all_targets`.
        examples: damaged inputs; their numbers begin with `first`.
        first: the first number.
    """
    names = [f"case {name}" for name in find(where).cases()]
    return run_inputs(where, [*names, *map(str, range(first, first + examples))])


def run_cases(where: str) -> dict[str, Outcome]:
    """Read a target's named cases, by their names."""
    return {outcome.input.removeprefix("case "): outcome for outcome in run(where, 0)}


def run_inputs(where: str, inputs: Sequence[str]) -> list[Outcome]:
    """Read inputs by name, in as few child processes as they need."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(inputs):
        outcomes += _batch(where, inputs[len(outcomes) :], SECONDS)
        if outcomes[-1].message == _TIMES[signal.SIGALRM]:
            outcomes[-1:] = _batch(where, [outcomes[-1].input], _PATIENCE)
    return outcomes


def described(where: str, outcomes: Sequence[Outcome]) -> str:
    """Describe the faults, after keeping their inputs in `.fuzz/`; empty if there are none."""
    faults = [outcome for outcome in outcomes if not outcome.sound]
    lines = [
        f"{fault.kind}: {fault.message}\n  input {fault.input}, kept in {_keep_input(where, fault)}"
        for fault in faults
    ]
    return "\n".join(lines)


def counts(outcomes: Sequence[Outcome]) -> str:
    """Count the kinds, and name the longest time and the number of different messages."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(o.kind for o in outcomes).items()))
    messages = {re.sub(r"[0-9]+", "#", outcome.message) for outcome in outcomes if outcome.kind == "refused"}
    longest = max((outcome.wall for outcome in outcomes), default=0)
    return f"{kinds}; {len(messages)} different messages; at most {longest:.2f} s"


def _keep_input(where: str, fault: Outcome) -> Path:
    target = find(where)
    FAULTS.mkdir(exist_ok=True)
    path = FAULTS / f"{target.name}-{fault.input.replace(' ', '-')}"
    path.write_bytes(input_of(target, fault.input, target.good(), target.cases()))
    return path


def _batch(where: str, inputs: Sequence[str], seconds: float) -> Iterator[Outcome]:
    """Read inputs in one child, to the end or up to the one that ends it.

    Args:
        where: the target.
        inputs: their names.
        seconds: the time by the clock that each may take.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch, errors = Path(folder, "scratch"), Path(folder, "errors")
        (scratch / "temporary").mkdir(parents=True)
        job = {"target": where, "inputs": inputs, "scratch": str(scratch), "errors": str(errors), "seconds": seconds}
        *lines, last = _answers(_server(), job)
        stderr = errors.read_text("utf-8", "replace").partition("\nExtension modules: ")[0].strip()[-1500:]
    yield from (Outcome(**line) for line in lines)
    if len(lines) == len(inputs):
        return
    assert last["ended"] < 0, f"{where}: the child of this harness failed:\n{stderr}"
    number = signal.Signals(-last["ended"])
    kind = "time" if number in _TIMES else "signal"
    yield Outcome(inputs[len(lines)], kind, _TIMES.get(number, f"{number.name}\n{stderr}"), wall=seconds)


@functools.cache
def _server() -> subprocess.Popen[str]:
    """The process that has imported all targets and makes a fork for each job; it ends with this one."""
    modules = sorted({where.partition(":")[0] for where in all_targets().values()})
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz.child", *modules],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | _ENVIRONMENT,
    )
    atexit.register(server.communicate)
    return server


def _answers(server: subprocess.Popen[str], job: Mapping[str, object]) -> list[dict[str, Any]]:
    """The lines of a job, of which the last says how its process ended."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(job) + "\n")
    server.stdin.flush()
    answers = [json.loads(server.stdout.readline())]
    while "ended" not in answers[-1]:
        answers.append(json.loads(server.stdout.readline()))
    return answers
