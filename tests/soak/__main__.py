"""Disturb commands at random for some minutes, and check that nothing is lost: `python -m tests.soak`.

Builds, pushes, materializations, exports and checks of the demo sources meet signals, killed workers, full disks and
faults of a Hub, each at a random moment or a random operation. Then the same command runs again without a fault, and
its output is compared with that of an undisturbed run, byte for byte. A trial follows from the seed and its number:

    python -m tests.soak --minutes 10
    python -m tests.soak --trial 17    # one again; its folder and commands are kept if it fails
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

from tests.soak.commands import Launcher
from tests.soak.faults import local_kinds
from tests.soak.hub_faults import hub_kinds
from tests.soak.operations import operations, store_operations
from tests.soak.places import make_world
from tests.soak.references import References, fitting
from tests.soak.store_faults import store_kinds
from tests.soak.stores import running_store
from tests.soak.table import last_line, table
from tests.soak.trial import Bench, Verdict

_OWN_MOUNTS = "SOAK_OWN_MOUNTS"
"""Environment variable of a soak that runs in a mount namespace of its own, whose disks vanish with it."""

_PLAIN_SECONDS = 30.0
"""Seconds between progress lines where stderr is no terminal."""


def main() -> int:
    """Run the soak; returns 1 if a trial failed."""
    args = _arguments()
    _enter_own_mounts()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the processes that it has started, too
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
    disks = os.environ.get(_OWN_MOUNTS) == "1"
    with _scratch(args.scratch) as scratch, _cluster(enabled=args.ray) as ray, running_store() as store:
        print(f"full disks: {'a tmpfs of their own' if disks else 'RLIMIT_FSIZE, since no disk can be mounted here'}")
        if store is None:
            print("object storage: left out, since it takes moto, s3fs and universal-pathlib")
        world = make_world(scratch, ray, store)
        before = world.stamps()
        everything = operations(Random(f"{args.seed}/operations")) + (store_operations() if store else [])
        chosen = fitting(everything, world)
        known = [*local_kinds(disks=disks), *hub_kinds(), *(store_kinds() if store else [])]
        kinds = [kind for kind in known if any(kind.fits(operation) for operation in chosen)]
        bench = Bench(world, chosen, kinds, References(world, disks), args.seed, args.failures)
        selected = [kind.name for kind in kinds if kind.name.startswith(args.only)]
        if not selected:
            print(f"no kind of fault begins with {args.only!r}; there are: {', '.join(kind.name for kind in kinds)}")
            return 2
        soak = _Soak(bench, selected, args)
        soak.run()
        if soak.broken:
            print("the soak itself failed, and ended early:", file=sys.stderr)
            traceback.print_exception(soak.broken[0])
        print("\n".join(table(soak.verdicts)))
        changed = sorted(name for name, stamp in world.stamps().items() if before.get(name) != stamp)
        if changed:
            print(f"sources or releases that are only read were changed: {changed[:5]}")
        for verdict in soak.verdicts:
            if verdict.problems:
                problems = "; ".join(verdict.problems)
                print(f"failed: trial {verdict.number} ({verdict.kind}; {'; '.join(verdict.texts)}): {problems}")
        if any(verdict.problems for verdict in soak.verdicts):
            print(f"the folders of failed trials are in {args.failures}")
        print("FAILED: the soak itself ended early" if soak.broken else last_line(soak.verdicts, soak.minutes))
        return int(bool(changed or soak.broken) or any(verdict.problems for verdict in soak.verdicts))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="how long new trials are begun")
    parser.add_argument("--seed", type=int, default=0, help="draws operations, faults and moments")
    parser.add_argument("--only", metavar="KIND", default="", help="only faults whose name begins so")
    parser.add_argument("--each", type=int, metavar="N", help="end when each kind was tried N times, if not before")
    parser.add_argument("--trial", type=int, help="this trial alone")
    parser.add_argument("--first", type=int, default=0, help="the first trial, to go on where a soak ended")
    parser.add_argument("--lanes", type=int, default=2, help="trials at a time")
    parser.add_argument("--ray", action="store_true", help="run tasks on a Ray cluster of this machine")
    parser.add_argument("--scratch", type=Path, help="folder for all that is written; a temporary one without it")
    parser.add_argument("--failures", type=Path, default=Path("soak-failures"), help="where failed trials are kept")
    args = parser.parse_args()
    args.failures = args.failures.absolute()
    return args


def chosen_trials(
    numbers: Iterable[int], kind_of: Callable[[int], str], kinds: Sequence[str], per_kind: int | None = None
) -> Iterator[int]:
    """Choose the trials of some kinds, `per_kind` of every kind or without end; the kinds take turns."""
    chosen = (number for number in numbers if kind_of(number) in kinds)
    return itertools.islice(chosen, per_kind and per_kind * len(kinds))


class _Soak:
    """Trials in several threads, until the time is over."""

    def __init__(self, bench: Bench, kinds: list[str], args: argparse.Namespace) -> None:
        self.bench, self.lanes = bench, 1 if args.trial is not None else args.lanes
        numbers = itertools.count(args.first) if args.trial is None else iter([args.trial])
        self._numbers = chosen_trials(numbers, lambda number: bench.kind(number).name, kinds, args.each)
        self._until = time.monotonic() + 60 * args.minutes
        self._started = time.monotonic()
        self._said = 0.0
        self._lock = threading.Lock()
        self.broken: list[BaseException] = []
        self.verdicts: list[Verdict] = []

    @property
    def minutes(self) -> float:
        """The minutes since its start."""
        return (time.monotonic() - self._started) / 60

    def run(self) -> None:
        """Make trials; `broken` has the errors that ended them early."""
        threads = [threading.Thread(target=self._lane, daemon=True) for _ in range(self.lanes)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            try:
                self._wait()
            except KeyboardInterrupt:  # no new trials; those that run are ended
                self._until = 0.0
        if sys.stderr.isatty():
            print(file=sys.stderr)

    def _wait(self) -> None:
        """Wait a moment, and print the progress line."""
        time.sleep(0.2)
        if sys.stderr.isatty():
            print(f"\r{self._line()}\033[K", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._said > _PLAIN_SECONDS:
            self._said = time.monotonic()
            print(self._line(), file=sys.stderr, flush=True)

    def _lane(self) -> None:
        try:
            with Launcher(self.bench.world.environment()) as launcher:
                while (number := self._next()) is not None:
                    verdict = self.bench.run(number, launcher)
                    with self._lock:
                        self.verdicts.append(verdict)
        except BaseException as error:  # noqa: BLE001  # raised again in the main thread
            self.broken.append(error)

    def _next(self) -> int | None:
        with self._lock:
            over = time.monotonic() > self._until or self.broken
            return None if over else next(self._numbers, None)

    def _line(self) -> str:
        failed = sum(bool(verdict.problems) for verdict in self.verdicts)
        minutes = max(0.0, (self._until - time.monotonic()) / 60)
        return f"{len(self.verdicts):,} trials, {failed:,} failed, {minutes:.1f} minutes left"


@contextlib.contextmanager
def _scratch(parent: Path | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _cluster(*, enabled: bool) -> Iterator[str]:
    """Yield the address of a Ray cluster of this machine on free ports if `enabled`; else an empty text."""
    if not enabled:
        yield ""
        return
    from tests.builders.executors.ray_cluster import start_cluster

    with start_cluster(num_cpus=2) as cluster:
        yield cluster.address


def _enter_own_mounts() -> None:
    """Start this process again in a mount namespace of its own, where the system lets it have one."""
    if _OWN_MOUNTS in os.environ:
        return
    for options in (["--mount"], ["--mount", "--user", "--map-root-user"]):
        enter = ["unshare", *options, "--propagation", "private"]
        probe = "d=$(mktemp -d) && mount -t tmpfs -o size=64k soak $d && umount $d && rmdir $d"
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*enter, "sh", "-c", probe], capture_output=True, check=False).returncode == 0:
                os.environ[_OWN_MOUNTS] = "1"
                os.execvp("unshare", [*enter, sys.executable, "-m", "tests.soak", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
