"""Makes a trial: a command with a fault, the same without, and the judgement of both."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.soak import judge
from tests.soak.commands import Launcher, Ran, Running
from tests.soak.faults import ENOUGH, Kind, Plan, Reference
from tests.soak.operations import Operation
from tests.soak.places import Place, World, new_place, own_disk, resize
from tests.soak.references import References, job, used

_COLD = 0.05
"""Share of trials whose command is started as by a user, imports included, where it need not be forked (ours)."""

_WORKERS = (1, 1, 1, 2)
"""Worker counts to draw from. Two start processes of their own, which takes longer than the rest of most trials."""

_TWICE = 0.2
"""Share of trials in which the second command is disturbed, too (ours)."""


@dataclass
class Verdict:
    """The result of a trial."""

    number: int
    kind: str
    operation: str
    texts: list[str] = field(default_factory=list)
    struck: bool = False
    codes: list[int | None] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """The settings of all trials: operations, kinds of faults, references, the seed and a folder for failures."""

    world: World
    operations: Sequence[Operation]
    kinds: Sequence[Kind]
    references: References
    seed: int
    failures: Path

    def kind(self, number: int) -> Kind:
        """Return the kind of fault of a trial; the kinds take turns, so that all are tried equally often."""
        return self.kinds[number % len(self.kinds)]

    def operation(self, number: int) -> Operation:
        """Return the operation that a trial disturbs."""
        kind = self.kind(number)
        fitting = [operation for operation in self.operations if kind.fits(operation)]
        return Random(f"{self.seed}/{number}/operation").choice(fitting)

    def run(self, number: int, launcher: Launcher) -> Verdict:
        """Make a trial. The folder of a failed one is kept."""
        kind, operation = self.kind(number), self.operation(number)
        reference = self.references.of(operation, launcher)
        trial = _Trial(self, Verdict(number, kind.name, operation.name), operation, reference, launcher)
        folder = self.world.root / f"t{number}"  # short, for the sockets of workers
        with new_place(folder, self.world, on_hub=operation.on_hub, on_store=operation.on_store) as place:
            operation.prepare(place)
            trial.run(place, Random(f"{self.seed}/{number}"))
        return trial.verdict


@dataclass(frozen=True)
class _Trial:
    bench: Bench
    verdict: Verdict
    operation: Operation
    reference: Reference
    launcher: Launcher
    started: list[Running] = field(default_factory=list)

    def run(self, place: Place, drawing: Random) -> None:
        """Disturb the command once or twice, run it without a fault, and judge."""
        warm = self.operation.on_hub or drawing.random() >= _COLD
        plan = self._plan(drawing, warm)
        plans = [plan]
        with self._disk(place, plan):
            self._disturbed(place, plan, drawing, warm)
            if not plan.disk and drawing.random() < _TWICE:
                plans.append(self._plan(drawing, warm))
                if not plans[1].disk:
                    self._disturbed(place, plans[1], drawing, warm)
            ran = self._run(place, "again", workers=drawing.choice(_WORKERS))
            if any(fault.refuses for fault in plans) and ran.code == 2:
                self.verdict.problems += judge.ending(ran, disturbed=True)
                for fault in plans:
                    fault.concede(place)
                ran = self._run(place, "conceded", workers=1)
            self.verdict.problems += judge.ending(ran, disturbed=False)
            for running in self.started:
                if lingering := running.lingering():
                    self.verdict.problems.append(f"{len(lingering)} processes of the disturbed command do not end")
            outcome = self.operation.outcome(place, ran)
            self.verdict.problems += judge.differences(outcome, self.reference.after)
            if self.verdict.problems:
                self._keep(place)

    def _plan(self, drawing: Random, warm: bool) -> Plan:
        plan = self.bench.kind(self.verdict.number).draw(drawing, self.reference, warm)
        self.verdict.texts.append(plan.text)
        return plan

    @contextlib.contextmanager
    def _disk(self, place: Place, plan: Plan) -> Iterator[None]:
        if not plan.disk:
            yield
            return
        with own_disk(place.disk, ENOUGH):
            if plan.disk < ENOUGH:
                resize(place.disk, used(place.disk, mounted=True) + plan.disk)
            yield

    def _disturbed(self, place: Place, plan: Plan, drawing: Random, warm: bool) -> None:
        workers = plan.workers or drawing.choice(_WORKERS)
        name = f"disturbed-{len(self.verdict.codes)}"
        request = job(self.operation, place, name, workers)
        request = plan.change(dataclasses.replace(request, warm=warm or plan.warm))
        plan.begin(place)
        running = self.launcher.start(request)
        plan.during(running, place)
        ran = running.finish()
        plan.mend(place)
        self.verdict.texts[-1] = plan.text
        self.verdict.struck |= plan.struck
        self._heard(ran)
        self.verdict.problems += judge.ending(ran, disturbed=True)
        outcome = self.operation.outcome(place, None)
        self.verdict.problems += judge.torn(outcome, self.reference.before, self.reference.after, self.operation)
        if ran.code == 0:
            outcome = self.operation.outcome(place, ran)
            self.verdict.problems += judge.differences(outcome, self.reference.after)
        self.started.append(running)

    def _run(self, place: Place, name: str, workers: int) -> Ran:
        running = self.launcher.start(job(self.operation, place, name, workers))
        ran = running.finish()
        self._heard(ran)
        return ran

    def _heard(self, ran: Ran) -> None:
        self.verdict.codes.append(ran.code)
        self.verdict.lines.append(ran.line)

    def _keep(self, place: Place) -> None:
        """Copy the folder of a failed trial to `failures`, with the verdict."""
        name = f"{self.verdict.number}-{self.verdict.kind}-{self.operation.key}"
        folder = self.bench.failures / name.replace(" ", "-").replace(":", "")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(place.folder, folder, symlinks=True, ignore=shutil.ignore_patterns("listener-*"))  # sockets
        record = vars(self.verdict) | {"seed": self.bench.seed}
        (folder / "trial.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
