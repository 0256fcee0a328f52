"""What planning takes: a run that may open sources and show progress, and that runs no task."""

from builders.pipeline.build_plan import Run
from unknown_detection.terminal.progress import TerminalMeter

QUIET = TerminalMeter(quiet=True)
"""Shows nothing."""


class NoTasks:
    """An executor that refuses tasks, since planning needs none."""

    def run(self, tasks, progress):
        raise AssertionError(f"planning was to run {len(tasks)} tasks")


def planning_run(benchmark, out, notes=None, **changes):
    """A run of all splits of a benchmark on the demo, but for the changes, whose notes go to a list, or nowhere."""
    meter = TerminalMeter(quiet=True)
    meter.note = (lambda text: None) if notes is None else notes.append
    request = {"splits": tuple(benchmark.parts), "roots": {}, "seed": 0, "allow_partial": True, "demo": True}
    return Run(benchmark, NoTasks(), meter, out, **request | changes)
