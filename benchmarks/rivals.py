"""Runs a candidate and its rivals in turn and compares their medians."""

from __future__ import annotations

import compileall
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Timed:
    """Measurements of a competitor: seconds of each run, processor seconds with child processes, peak MB or 0."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    peak_mb: float = 0.0

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)

    @property
    def median_processor(self) -> float:
        """Median processor seconds, which other work on the machine affects least."""
        return statistics.median(self.processor)


@dataclass(frozen=True)
class Run:
    """A competitor: `clean` removes its last output, untimed; `work` does the work and returns its peak MB, or 0."""

    clean: Callable[[], None]
    work: Callable[[], float]


def interleave(runs: Mapping[str, Run], repeats: int) -> dict[str, Timed]:
    """Run all competitors in turn, `repeats` times, calling `sync` before each run."""
    # As an installation does; in a checkout Python may be configured to write no bytecode.
    compileall.compile_dir(Path(__file__).parents[1], quiet=1, rx=re.compile(r"/(\.|tests/|build/)"))
    results = {name: Timed() for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            run.clean()
            os.sync()
            started, before = time.perf_counter(), _processor_seconds()
            peak = run.work()
            results[name].seconds.append(time.perf_counter() - started)
            results[name].processor.append(_processor_seconds() - before)
            results[name].peak_mb = max(results[name].peak_mb, peak)
    return results


def _processor_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def run_process(command: Sequence[str]) -> float:
    """Run a command to its end; returns the peak MB of its and its children's memory.

    Raises:
        RuntimeError: the command failed.
    """
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return usage.ru_maxrss / 1024


def report(results: Mapping[str, Timed], baseline: str) -> None:
    """Print medians and their ratio to the baseline's."""
    base, processor = results[baseline].median, max(results[baseline].median_processor, 1e-9)
    for name, timed in results.items():
        runs = " ".join(f"{s:.2f}" for s in timed.seconds)
        peak = f"  peak {timed.peak_mb:,.0f} MB" if timed.peak_mb else ""
        print(
            f"{name:28} median {timed.median:8.2f} s  ratio {timed.median / base:6.2f}  processor "
            f"{timed.median_processor:8.2f} s  ratio {timed.median_processor / processor:6.2f}{peak}  ({runs})"
        )
