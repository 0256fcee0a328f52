"""Runs damaged inputs and prints what came of them: `python -m tests.fuzz --examples 2000 [TARGET ...]`.

Tested by `tests/fuzz/test_harness.py`.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.harness import all_targets, counts, described, run


def main(arguments: list[str] | None = None) -> int:
    """Run targets; the exit code is 1 where one has a fault."""
    places = all_targets()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Run damaged inputs through readers.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"any of {', '.join(places)}; all if none")
    parser.add_argument("--examples", type=int, default=2000, help="damaged inputs a target (default 2000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default 0)")
    options = parser.parse_args(arguments)
    if unknown := set(options.targets) - set(places):
        parser.error(f"no target {sorted(unknown)[0]}")
    failed = False
    for name in options.targets or places:
        started = time.perf_counter()
        outcomes = run(places[name], options.examples, first=options.first)
        sys.stdout.write(f"{name}: {counts(outcomes)}; {time.perf_counter() - started:.0f} s\n")
        faults = described(places[name], outcomes)
        failed |= bool(faults)
        sys.stdout.write(f"{faults}\n" if faults else "")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
